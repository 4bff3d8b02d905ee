// Two photos in three columns: what only the first has, what they share, what only the second has.

import { get } from "./api.js";
import { bars } from "./bars.js";
import { Code } from "./code.js";
import { fill, h } from "./elements.js";
import { Large } from "./photo.js";
import { go, state } from "./state.js";

export class Pair {
  constructor(overview) {
    this.overview = overview;
    this.element = h("article", { class: "pair" });
  }

  close() {}

  async draw() {
    const { photo: a, other: b, dimensions, top_k } = state;
    const found = await get("/studio/pair", { a, b, dimensions, top_k, limit: 14 });
    if (state.photo !== a || state.other !== b) return;
    this.title = "Two photos";
    const code = new Code(this.overview);
    code.compare(found);
    const one = new Large(a, found.a.name, this.overview);
    const two = new Large(b, found.b.name, this.overview);
    const point = (...larges) => ({
      click: Boolean(this.overview.folder),
      onpoint: (j, name) => larges.forEach((large) => large.point(j, name)),
      onleave: () => larges.forEach((large) => large.unpoint()),
    });
    fill(
      this.element,
      h("p", { class: "actions" }, h("button", { type: "button", onclick: () => go({ view: "search", other: null }) }, "Back to the search")),
      h("h1", {}, `Cosine ${found.cosine.toFixed(3)}`, h("small", {}, ` ${verdict(found)}`)),
      h(
        "div",
        { class: "columns" },
        column("Only in A", found.a.name, found.counts[0], one.element, bars(found.only_a, point(one))),
        column("Shared", "parts of the cosine", found.counts[1], null, bars(found.shared, point(one, two))),
        column("Only in B", found.b.name, found.counts[2], two.element, bars(found.only_b, point(two))),
      ),
      code.element,
    );
  }
}

// Copies are told from look-alikes by the pictures: no cosine does that, at whatever length.
function verdict(found) {
  const alike = found.likeness === null ? "" : ` Where the two pictures agree least, they agree by ${found.likeness.toFixed(2)} of 1.`;
  if (found.copy) return `A copy: both show one photo.${alike}`;
  if (found.cosine < found.chance) return `They share no more than two random photos may.${alike}`;
  if (found.copy === null) return "Similar; one of the two cannot be read, so a copy is not told from a look-alike.";
  return `Similar, and not one photo.${alike}`;
}

function column(title, name, count, picture, list) {
  return h(
    "section",
    {},
    h("h2", {}, title, h("small", {}, ` ${count} dimensions`)),
    picture || h("p", { class: "between quiet" }, "What both have, by its part of the cosine. Hover or focus a dimension to see where it comes from."),
    h("p", { class: "file" }, name),
    list,
  );
}
