// The page: which view the address says, what is dropped on it, errors and the key.

import { Failure, get, hasKey, onKey, useKey } from "./api.js";
import { Dimension } from "./dimension.js";
import { choose, chooser, takePhotos } from "./drop.js";
import { fill, h, thousands } from "./elements.js";
import { Groups } from "./groups.js";
import { Pair } from "./pair.js";
import { searchLike } from "./photo.js";
import { Search } from "./search.js";
import { address, go, listen, state } from "./state.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const views = document.getElementById("views");
let overview = null;
const made = new Map();
let shown = null;
let turn = 0; // what is asked for last is drawn last

function view() {
  const kinds = { search: Search, dimension: Dimension, pair: Pair, groups: Groups };
  const name = state.view in kinds ? state.view : "search";
  const possible = name === "pair" && !(state.photo && state.other) ? "search" : name;
  if (!made.has(possible)) made.set(possible, new kinds[possible](overview));
  return [possible, made.get(possible)];
}

async function draw(scroll = 0) {
  if (!overview) return;
  const mine = ++turn;
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
  const back = returning();
  try {
    await next.draw();
    if (mine === turn) fill(notice);
  } catch (error) {
    if (mine === turn) fail(error);
  }
  if (mine !== turn) return;
  document.title = next.title ? `${next.title} · nonneg studio` : "nonneg studio";
  back();
  if (before && before !== next && document.activeElement === document.body) main.focus({ preventScroll: true });
  if (scroll) scrollTo(0, scroll);
  main.setAttribute("aria-busy", "false");
}

// What is drawn again loses the focus: it goes to the same dimension in the same place, if that is still there.
function returning() {
  const chip = document.activeElement?.closest?.("[data-dimension]");
  if (!chip) return () => {};
  const place = chip.closest(".panel, .facets, [data-place]");
  const within = place?.dataset.place ? `[data-place="${place.dataset.place}"]` : place ? `.${place.classList[0]}` : "main";
  return () => {
    if (document.activeElement !== document.body) return;
    const selector = `[data-dimension="${chip.dataset.dimension}"]`;
    (document.querySelector(`${within} ${selector}`) || document.querySelector(`main ${selector}`))?.focus();
  };
}

function fail(error) {
  if (!(error instanceof Failure)) throw error;
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
  if (overview.folder?.groups) entries.push(["groups", "Groups"]);
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
  tabs();
  return draw(history.state?.scroll);
}

onKey(() => made.clear());
listen(draw);
document.body.append(chooser);
document.getElementById("choose").addEventListener("click", choose);
takePhotos(([one, two]) => {
  const before = overview.folder ? null : made.get("search")?.photo;
  if (two || before) go({ view: "pair", photo: two ? one.photo : before, other: (two || one).photo });
  else go(searchLike(one.photo));
}, fail);
addEventListener("failed", (event) => fail(event.detail));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.view !== "search") go({ view: "search" });
});
open();
