// One dimension: its strongest photos here, what its model says of it, what it goes together with, how it drifts.

import { get } from "./api.js";
import { toDimension } from "./chips.js";
import { fill, h, label, percent, thousands } from "./elements.js";
import { stance, turned } from "./expression.js";
import { plain, small } from "./photo.js";
import { go, state } from "./state.js";

function figure(name, value, detail) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value), detail && h("dd", { class: "quiet" }, detail));
}

export class Dimension {
  constructor() {
    this.element = h("article", { class: "dimension" });
  }

  close() {}

  async draw() {
    const found = await get(`/studio/dimensions/${state.dimension}`);
    const here = found.here;
    const ratio = here?.drift.frequency;
    const drift = ratio ? (ratio >= 1 ? `${ratio.toFixed(1)} times as often here` : `${(1 / ratio).toFixed(1)} times rarer here`) : "";
    fill(
      this.element,
      h("p", { class: "quiet" }, `Dimension ${found.dimension}`),
      h("h1", {}, found.name || `dim ${found.dimension}`, found.name ? "" : h("small", {}, " has no name: its photos say what it stands for")),
      found.evidence ? h("p", { class: "quiet" }, found.common ? `${found.common}; ` : "", found.evidence.says) : null,
      h(
        "p",
        { class: "actions" },
        h("button", { type: "button", class: "primary", onclick: () => go({ ...blank, q: found.term }) }, "Search for it"),
        h("button", { type: "button", onclick: () => go({ ...blank, only: [found.dimension] }) }, "Only photos that have it"),
        state.q && h("button", { type: "button", onclick: () => go({ view: "search", q: turned(found) }) }, { more: "Search without it", without: "Take it out of the search", neutral: "Add it to the search" }[stance(found.dimension)]),
      ),
      h(
        "dl",
        { class: "figures" },
        here && figure("here", percent(here.frequency), `${thousands(here.count)} of ${thousands(here.of)} photos`),
        figure("where the model was measured", percent(found.frequency), drift),
      ),
      here?.company.length ? h("h2", {}, "Goes together with") : null,
      here?.company.length
        ? h("ul", { class: "company" }, ...here.company.map((other) => h("li", {}, toDimension(other, h("span", { class: "exemplars" }, ...other.exemplars.map((photo) => small(photo))), h("span", {}, label(other)), h("span", { class: "detail" }, other.cosine.toFixed(2))))))
        : null,
      found.examples.length ? h("h2", {}, "In the photos it was measured on") : null,
      found.examples.length ? h("p", { class: "strip" }, ...found.examples.map((path) => h("img", { src: path, alt: "", loading: "lazy" }))) : null,
      here ? h("h2", {}, "Strongest here") : null,
      here ? h("ul", { class: "flow" }, ...here.photos.map((photo) => strong(photo))) : null,
    );
  }
}

function strong(photo) {
  const tile = plain(photo);
  tile.append(h("span", { class: "number" }, photo.value.toFixed(3)));
  return tile;
}

const blank = { view: "search", q: "", only: [] };
