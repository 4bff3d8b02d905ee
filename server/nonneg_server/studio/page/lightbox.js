// A photo as large as the window: arrows lead through the grid, a click zooms, a dimension veils the rest.

import { get, picture, show, whole } from "./api.js";
import { failed, fill, h, label, thousands } from "./elements.js";
import { mark } from "./library.js";
import { Large } from "./photo.js";
import { box } from "./selection.js";
import { go } from "./state.js";

let grid = null;
let place = 0;
let item = null;
let large = null;
const stage = h("div", { class: "stage", tabindex: "0", "aria-label": "The photo; Enter zooms", role: "group" });
const facts = h("div", { class: "facts" });
const before = h("button", { type: "button", "aria-label": "The photo before", onclick: () => step(-1) }, "\u2190");
const after = h("button", { type: "button", "aria-label": "The next photo", onclick: () => step(1) }, "\u2192");
const close = h("button", { type: "button", "aria-label": "Close", onclick: () => lightbox.close() }, "\u00d7");
export const lightbox = h("dialog", { class: "lightbox", "aria-label": "A photo" }, stage, h("aside", {}, h("p", { class: "actions" }, before, after, h("button", { type: "button", onclick: zoom }, "Zoom"), close), facts));

export function look(what, tile = null) {
  grid = tile?.grid || null;
  place = Number(tile?.dataset.place || 0);
  draw(what);
  if (!lightbox.open) lightbox.showModal();
  stage.focus();
}

export function lookFocused() {
  const tile = document.activeElement?.closest("[data-photo]");
  tile?.querySelector(".look")?.click();
  return Boolean(tile);
}

async function step(by) {
  if (!grid || place + by < 0 || place + by >= grid.total) return;
  try {
    const [next] = await grid.between(place + by, place + by);
    place += by;
    if (next) draw(next);
  } catch (error) {
    failed(error);
  }
}

function zoom() {
  const zoomed = stage.classList.toggle("zoomed");
  if (zoomed && item) show(large.image, item.photo.startsWith("drop-") ? picture(item.photo) : whole(item.photo));
}

async function draw(what) {
  item = what;
  stage.classList.remove("zoomed");
  large = new Large(what.photo, what.name, { where: Large.where });
  fill(stage, large.frame);
  before.disabled = !grid || place === 0;
  after.disabled = !grid || place + 1 >= grid.total;
  fill(facts, h("h2", {}, what.name));
  let found;
  try {
    found = await get(`/studio/photos/${encodeURIComponent(what.photo)}`, { limit: 12 });
  } catch (error) {
    return failed(error);
  }
  if (item !== what) return;
  fill(
    facts,
    h("h2", {}, found.name),
    h("dl", {}, ...told(found.facts).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("ul", { class: "company" }, ...marks(what, found.facts)),
    h("p", { class: "actions" }, h("label", { class: "switch" }, found.facts.tags && box({ photo: what.photo, name: found.name }), "Select"),
      found.facts.folder && h("button", { type: "button", onclick: () => leave({ q: "", only: [], where: `folder=${found.facts.folder}` }) }, "Show its folder"),
      h("button", { type: "button", onclick: () => copy(found.name) }, "Copy its path")),
    h("h2", {}, "Where a dimension comes from"),
    h("ul", { class: "company" }, ...found.bars.map((bar) => h("li", {}, veiling(bar)))),
    large.said,
  );
}

const leave = (changes) => { lightbox.close(); go({ view: "search", ...changes }); };
const copy = (text) => navigator.clipboard?.writeText(text);

function told(known) {
  const rows = [["Taken", known.taken && new Date(known.taken * 1000).toISOString().slice(0, 16).replace("T", " ")], ["Camera", known.camera], ["Size", known.width && `${thousands(known.width)} \u00d7 ${thousands(known.height)}`], ["File", known.bytes && `${thousands(Math.ceil(known.bytes / 1024))} kB`]];
  return rows.filter(([, value]) => value);
}

function marks(what, known) {
  const one = (kind) => (name) => h("li", {}, h("button", { type: "button", class: "chip", "aria-label": `Take the ${kind} ${name} away`, onclick: async () => { await mark(kind, name, [what.photo], false); if (item === what) draw(what); } }, name, h("span", { "aria-hidden": "true" }, "\u00d7")));
  return [...(known.tags || []).map(one("tag")), ...(known.albums || []).map(one("album"))];
}

function veiling(bar) {
  const button = h("button", { type: "button", class: "chip", "aria-pressed": "false" }, label(bar));
  const mine = large;
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") === "false";
    for (const other of facts.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(on));
    on ? mine.point(bar.dimension, label(bar)) : mine.unpoint();
  });
  return button;
}

stage.addEventListener("click", zoom);
lightbox.addEventListener("keydown", (event) => {
  if (event.target.matches("input[type=text]")) return;
  const work = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), "+": zoom, z: zoom }[event.key];
  if (event.key === "Enter" && event.target === stage) zoom();
  else if (event.key === "x") facts.querySelector("input.choose")?.click();
  else if (work && !(stage.classList.contains("zoomed") && event.key.startsWith("Arrow"))) work();
});
lightbox.addEventListener("close", () => fill(stage));
