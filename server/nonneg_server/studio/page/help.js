// The keys of the page, and three hints on the first visit.

import { fill, h } from "./elements.js";

const KEYS = [["/", "go to the search"], ["arrows", "walk over the photos"], ["Enter", "find photos like this one"], ["v", "look at the photo; z zooms, arrows lead on"], ["x", "select the photo; Shift with x or a click selects all up to it"], ["Esc", "back to the photos"], ["?", "this list"]];
const HINTS = ["Click a photo: all that are like it come, with the reasons.", "Type a word above, or drop a photo on the page.", "Select photos by the box at their corner, then tag or export them. The ? key lists all keys."];
const SEEN = "nonneg-hints";

export const help = h("dialog", { class: "help", "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl", {}, ...KEYS.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])), h("form", { method: "dialog" }, h("button", { type: "submit", class: "primary" }, "Close")));

export function hints() {
  if (localStorage.getItem(SEEN)) return null;
  const box = h("aside", { class: "hints", "aria-label": "Hints" }, h("ol", {}, ...HINTS.map((text) => h("li", {}, text))), h("button", { type: "button", onclick: () => { localStorage.setItem(SEEN, "1"); box.remove(); } }, "Understood"));
  return box;
}
