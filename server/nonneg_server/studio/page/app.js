// The page: which view the address says, what is dropped on it, errors and the key.

import { Failure, get, hasKey, onKey, useKey } from "./api.js";
import { Atlas } from "./atlas.js";
import { Dimension } from "./dimension.js";
import { choose, chooser, takePhotos } from "./drop.js";
import { fill, h, thousands } from "./elements.js";
import { Groups } from "./groups.js";
import { help } from "./help.js";
import { lightbox, lookFocused } from "./lightbox.js";
import { Pair } from "./pair.js";
import { Large, searchLike } from "./photo.js";
import { Search } from "./search.js";
import { bar, chooseFocused } from "./selection.js";
import { address, go, listen, state } from "./state.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const told = document.getElementById("told"); // what is said of the last step and is not a failure
const views = document.getElementById("views");
let overview = null;
const made = new Map();
let shown = null;
let turn = 0; // what is asked for last is drawn last
let back = null; // gives the focus back

function view() {
  const kinds = { search: Search, dimension: Dimension, pair: Pair, groups: Groups, atlas: Atlas };
  const name = state.view in kinds ? state.view : "search";
  const possible = name === "pair" && !(state.photo && state.other) ? "search" : name;
  if (!made.has(possible)) made.set(possible, new kinds[possible](overview));
  return [possible, made.get(possible)];
}

async function draw(scroll = 0) {
  if (!overview) return;
  const mine = ++turn;
  fill(told);
  const [name, next] = view();
  const before = shown;
  if (before !== next) {
    before?.close();
    shown = next;
    fill(main, next.element);
  }
  if (!scroll) scrollTo(0, 0);
  for (const link of views.querySelectorAll("a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.setAttribute("aria-busy", "true");
  back = returning() || back;
  try {
    await next.draw();
    if (mine === turn) fill(notice);
  } catch (error) {
    if (mine === turn) fail(error);
  }
  if (mine !== turn) return;
  document.title = next.title ? `${next.title} · nonneg studio` : "nonneg studio";
  back?.();
  back = null;
  if (before && before !== next && document.activeElement === document.body) main.focus({ preventScroll: true });
  if (scroll) scrollTo(0, scroll);
  main.setAttribute("aria-busy", "false");
}

// What is drawn again loses the focus: it goes to the same dimension, photo or tab, if that is still there, else to
// the heading, from where Tab leads into what was drawn.
function returning() {
  const focused = document.activeElement;
  if (!focused || focused === main || !main.contains(focused)) return null;
  const again = same(focused);
  return () => {
    if (document.activeElement !== document.body) return;
    const found = again();
    if (found) return found.focus();
    const heading = main.querySelector("h1") || main;
    heading.setAttribute("tabindex", "-1");
    heading.focus({ preventScroll: true });
  };
}

// Finds what stands for the same thing as an element once did.
function same(element) {
  const chip = element.closest("[data-dimension]");
  const photo = element.closest("[data-photo]")?.dataset.photo;
  const part = element.closest("[data-part]")?.dataset.part;
  if (part) return () => main.querySelector(`[data-part="${CSS.escape(part)}"]`);
  if (!chip) return () => (photo ? main.querySelector(`[data-photo="${CSS.escape(photo)}"] .picture`) : null);
  const place = chip.closest(".panel, .facets, [data-place]");
  const within = place?.dataset.place ? `[data-place="${place.dataset.place}"]` : place ? `.${place.classList[0]}` : "main";
  const selector = `[data-dimension="${chip.dataset.dimension}"]`;
  return () => main.querySelector(`${within} ${selector}`) || main.querySelector(selector);
}

function fail(error) {
  if (!(error instanceof Failure)) {
    console.error(error);
    return fail(new Failure(0, { type: "page", message: "The page cannot show this.", fix: "Its console says why." }));
  }
  if (error.status === 401) return askForKey(error);
  const again = h("button", { type: "button", onclick: () => { fill(notice); overview ? draw() : open(); } }, "Try again");
  fill(notice, h("p", { class: "failure" }, h("b", {}, `${error.message} `), error.fix || "", " ", again));
}

function askForKey(error) {
  const field = h("input", { type: "password", autocomplete: "off", id: "key", required: true });
  const form = h(
    "form",
    {
      class: "key",
      onsubmit: (event) => {
        event.preventDefault();
        useKey(field.value.trim());
        open();
      },
    },
    h("h1", {}, hasKey() ? "This key is not known here" : "This server asks for a key"),
    h("p", { class: "quiet" }, "It is kept in this page's memory alone, and forgotten when the page is closed."),
    h("label", { for: "key" }, "API key"),
    field,
    h("button", { class: "primary", type: "submit" }, "Open the studio"),
  );
  fill(main, form);
  field.focus();
  return error;
}

function tabs() {
  const entries = [["search", overview.folder ? "Photos" : "Photo"]];
  if (overview.folder) entries.push(["atlas", "Dimensions"], ["groups", "Groups"]);
  fill(
    views,
    ...entries.map(([name, text]) =>
      h("a", { href: address({ view: name }), "data-view": name, onclick: (event) => { event.preventDefault(); go({ view: name }); } }, text),
    ),
  );
  const folder = overview.folder;
  document.getElementById("choose").hidden = false;
  document.getElementById("folder").textContent = folder
    ? `${folder.name}, ${thousands(folder.photos)} photos, model ${overview.model}`
    : `model ${overview.model}, no folder`;
}

async function open() {
  try {
    overview = await get("/studio");
  } catch (error) {
    return fail(error);
  }
  made.clear();
  shown = null;
  Large.where = overview.where;
  tabs();
  return draw(history.state?.scroll);
}

onKey(() => made.clear());
listen(draw);
document.body.append(chooser, bar, lightbox, help);
document.getElementById("choose").addEventListener("click", choose);
document.querySelector(".brand").addEventListener("click", (event) => {
  if (!overview || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault(); // a new page would ask for the key again
  go(searchLike(null));
});
takePhotos(([one, two], dropped) => {
  const before = overview.folder ? null : made.get("search")?.photo;
  if (two || before) go({ view: "pair", photo: two ? one.photo : before, other: (two || one).photo });
  else go(searchLike(one.photo));
  if (dropped > 2) fill(told, h("p", { class: "told" }, `The first two of the ${thousands(dropped)} photos are compared. Put a folder of them under `, h("code", {}, "nonneg studio"), " to look at all."));
}, fail);
addEventListener("failed", (event) => fail(event.detail));
addEventListener("said", ({ detail: { text, undo } }) => {
  const back = async () => {
    await undo();
    const answer = [...told.childNodes];
    await draw(scrollY);
    fill(told, ...answer);
  };
  fill(told, h("p", { class: "told" }, text, " ", undo && h("button", { type: "button", onclick: back }, "Undo")));
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const keys = { "/": () => document.getElementById("expression")?.focus(), "?": () => help.showModal(), v: lookFocused, x: () => chooseFocused(false), X: () => chooseFocused(true) };
  if (event.key === "Escape" && state.view !== "search") go({ view: "search" });
  else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
open();
