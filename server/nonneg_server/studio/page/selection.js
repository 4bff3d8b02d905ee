// The photos that are selected, on every view, and what can be done with them: marked, saved as lists, copied.

import { post } from "./api.js";
import { failed, fill, h, save, say, thousands } from "./elements.js";
import { library, mark } from "./library.js";

const chosen = new Set(); // ids
let last = null; // {grid, place}: where shift-click begins
const FILES = { csv: "photos.csv", paths: "photos.txt", xmp: "sidecars.zip" };

export const isChosen = (photo) => chosen.has(photo);

export function choose(photos, on = true) {
  for (const photo of photos) on ? chosen.add(photo) : chosen.delete(photo);
  follow();
}

// A box over a tile. Shift takes all from the last one on; x does the same as a click while the tile has the focus.
export function box(item) {
  const input = h("input", { type: "checkbox", class: "choose", "data-chosen": item.photo, checked: isChosen(item.photo), "aria-label": `Select ${item.name}` });
  input.addEventListener("click", (event) => take(input, input.checked, event.shiftKey));
  return input;
}

async function take(input, on, through) {
  const tile = input.closest("[data-place]");
  const grid = tile?.grid;
  const place = Number(tile?.dataset.place);
  let photos = [input.dataset.chosen];
  try {
    if (through && grid && last?.grid === grid) photos = (await grid.between(Math.min(place, last.place), Math.max(place, last.place))).map((item) => item.photo);
  } catch (error) {
    failed(error);
  }
  last = grid ? { grid, place } : null;
  choose(photos, on);
}

export function chooseFocused(through) {
  const input = document.activeElement?.closest("[data-photo]")?.querySelector("input.choose");
  if (input) take(input, !isChosen(input.dataset.chosen), through);
  return Boolean(input);
}

// A click with shift on a photo selects, instead of opening a window.
addEventListener("click", (event) => {
  const tile = event.shiftKey && event.target.closest?.(".tile");
  const input = tile && !event.target.matches("input") && tile.querySelector("input.choose");
  if (!input) return;
  event.preventDefault();
  event.stopPropagation();
  take(input, true, true);
}, true);

const count = h("b", { role: "status" });
const name = h("input", { type: "text", id: "mark", list: "marks", maxlength: "100", placeholder: "a tag or an album" });
const marks = h("datalist", { id: "marks" });
const target = h("input", { type: "text", id: "copy-to", placeholder: "/home/me/selection" });
const button = (text, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, text);
const copying = h("form", { hidden: true, onsubmit: (event) => { event.preventDefault(); send("copy", { to: target.value.trim() }); } }, h("label", { for: "copy-to" }, "Copy into the folder"), target, button("Copy", null, { type: "submit" }));
const exporting = h("details", { class: "menu" }, h("summary", {}, "Export"),
  h("div", {}, button("Table (CSV)", () => send("csv")), button("List of paths", () => send("paths")), button("Keywords (XMP)", () => send("xmp")), button("Copy to a folder", () => { copying.hidden = !copying.hidden; target.focus(); })));
export const bar = h(
  "section",
  { class: "chosen", "aria-label": "Selected photos", hidden: true },
  count,
  h("form", { onsubmit: (event) => { event.preventDefault(); give("tag", true); } },
    h("label", { class: "hidden", for: "mark" }, "A tag or an album"), name, marks,
    button("Tag", null, { type: "submit" }), button("Album", () => give("album", true)), button("Take away", () => takeAway())),
  exporting,
  button("Select none", () => choose([...chosen], false)),
  copying,
);

function give(kind, on) {
  const text = name.value.trim();
  if (text) mark(kind, text, [...chosen], on);
  else name.focus();
}

async function takeAway() {
  const text = name.value.trim();
  const { albums } = await library();
  give(albums.some((album) => album.name === text) ? "album" : "tag", false);
}

async function send(form, more = {}) {
  exporting.open = false;
  try {
    const answer = await post("/studio/export", { photos: [...chosen], form, ...more });
    if (form !== "copy") return save(FILES[form], await answer.blob());
    const done = await answer.json();
    copying.hidden = true;
    say(`Copied ${thousands(done.copied)} photos into ${done.to}${done.there_already ? `; ${thousands(done.there_already)} were there already` : ""}${done.gone ? `; ${thousands(done.gone)} are gone` : ""}.`);
  } catch (error) {
    failed(error);
  }
}

async function follow() {
  for (const input of document.querySelectorAll("input.choose")) input.checked = chosen.has(input.dataset.chosen);
  document.body.classList.toggle("choosing", chosen.size > 0);
  if (!chosen.size && bar.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  bar.hidden = !chosen.size;
  count.textContent = `${thousands(chosen.size)} selected`;
  if (!chosen.size) return;
  const { tags, albums } = await library();
  fill(marks, ...[...tags, ...albums].map((one) => h("option", { value: one.name })));
}
