// One dimension: its strongest photos here, what its model says of it, what it goes together with, how it drifts.

import { get, show } from "./api.js";
import { toDimension } from "./chips.js";
import { fill, h, label, percent, thousands } from "./elements.js";
import { stance, turned } from "./expression.js";
import { nameDimension } from "./library.js";
import { located, plain, small } from "./photo.js";
import { go, state } from "./state.js";

function figure(name, value, detail) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value), detail && h("dd", { class: "quiet" }, detail));
}

export class Dimension {
  constructor(overview) {
    this.where = overview.where;
    this.element = h("article", { class: "dimension" });
  }

  close() {}

  strong(photo, dimension) {
    const tile = plain(photo);
    tile.append(h("span", { class: "number" }, photo.value.toFixed(3)));
    return this.where ? located(tile, photo.photo, dimension) : tile;
  }

  async draw() {
    const asked = state.dimension;
    const found = await get(`/studio/dimensions/${asked}`);
    if (state.dimension !== asked) return;
    const here = found.here;
    this.title = label(found);
    fill(
      this.element,
      h("h1", {}, found.name || `Dimension ${found.dimension}`, h("small", {}, found.name ? ` dimension ${found.dimension}` : " has no name: its photos say what it stands for")),
      found.evidence ? h("p", { class: "quiet" }, found.common ? `${found.common}; ` : "", found.evidence.says) : null,
      h(
        "p",
        { class: "actions" },
        h("button", { type: "button", class: "primary", onclick: () => go({ ...blank, q: found.term }) }, "Search for it"),
        h("button", { type: "button", onclick: () => go({ ...blank, only: [found.dimension] }) }, "Only photos that have it"),
        state.q && h("button", { type: "button", onclick: () => go({ view: "search", q: turned(found) }) }, { more: "Search without it", without: "Take it out of the search", neutral: "Add it to the search" }[stance(found.dimension)]),
      ),
      here ? naming(found, () => this.draw()) : null,
      h(
        "dl",
        { class: "figures" },
        here && figure("of the photos here", percent(here.count / here.of), `${thousands(here.count)} of ${thousands(here.of)} show it`),
        figure("active where the model was measured", percent(found.frequency), here && times(here.drift.frequency, "as often here", "rarer here", "as often here")),
        here && figure("mean strength here", here.mean.toFixed(4), times(here.drift.mean, "what was measured", "weaker than measured", "as was measured")),
      ),
      here?.company.length ? h("h2", {}, "Goes together with") : null,
      here?.company.length
        ? h("ul", { class: "company" }, ...here.company.map((other) => h("li", {}, toDimension(other, h("span", { class: "exemplars" }, ...other.exemplars.map((photo) => small(photo))), h("span", {}, label(other)), h("span", { class: "detail" }, other.cosine.toFixed(2))))))
        : null,
      found.examples.length ? h("h2", {}, "In the photos it was measured on") : null,
      found.examples.length ? h("p", { class: "strip" }, ...found.examples.map((path) => show(h("img", { alt: "", loading: "lazy" }), path))) : null,
      here ? h("h2", {}, "Strongest here", this.where && h("small", {}, " hover or focus a photo to see where in it")) : null,
      here ? h("ul", { class: "flow" }, ...here.photos.map((photo) => this.strong(photo, asked))) : null,
    );
  }
}

// The user's own name: it stands in place of the number wherever the dimension is shown.
function naming(found, drawn) {
  const field = h("input", { type: "text", id: "dimension-name", maxlength: "100", value: found.own ? found.name : "", placeholder: "flowers, say" });
  const give = async (name) => {
    await nameDimension(found.dimension, name);
    drawn();
  };
  return h(
    "form",
    { class: "saving", onsubmit: (event) => { event.preventDefault(); give(field.value.trim() || null); } },
    h("label", { for: "dimension-name" }, found.own ? "Your name for it" : "Name it yourself"),
    field,
    h("button", { type: "submit" }, "Name it"),
    found.own ? h("button", { type: "button", onclick: () => give(null) }, "Take the name back") : null,
  );
}

// The drift against what was measured, in words.
function times(ratio, more, less, alike) {
  if (ratio === null) return "";
  if (Math.abs(Math.log(ratio)) < ALIKE) return alike;
  return ratio >= 1 ? `${ratio.toFixed(1)} times ${more}` : `${(1 / ratio).toFixed(1)} times ${less}`;
}

const ALIKE = Math.log(1.05);
const blank = { view: "search", q: "", only: [] };
