// One photo as a tile, a thumbnail, or large with a map of where a dimension comes from.

import { get, picture, show, thumbnail } from "./api.js";
import { chip, part } from "./chips.js";
import { photoTerm } from "./expression.js";
import { h } from "./elements.js";
import { address, go } from "./state.js";

export function small(photo, name = "", properties = {}) {
  return show(h("img", { alt: name, loading: "lazy", decoding: "async", ...properties }), thumbnail(photo));
}

function link(changes, properties, ...children) {
  return h(
    "a",
    {
      href: address(changes),
      ...properties,
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(changes);
      },
    },
    ...children,
  );
}

export const searchLike = (name) => ({ view: "search", q: name ? photoTerm(name) : "", only: [] });

// A tile of the plain folder.
export function plain(item) {
  return h(
    "li",
    { class: "tile" },
    link(searchLike(item.name), { class: "picture", title: item.name }, small(item.photo, `Photos like ${item.name}`)),
  );
}

// A tile of a result: the photo, its score, and the dimensions that made it.
export function hit(item, query) {
  const named = item.reasons.filter((reason) => reason.name);
  const others = item.reasons.filter((reason) => !reason.name);
  const reasons = [...named.slice(0, 3), ...others].slice(0, 3);
  return h(
    "li",
    { class: "tile hit" },
    link(
      searchLike(item.name),
      { class: "picture", title: item.name },
      small(item.photo, `${item.name}, score ${item.score.toFixed(2)}: photos like it`),
    ),
    h(
      "p",
      { class: "score" },
      h("b", {}, item.score.toFixed(3)),
      h("span", { class: "file", title: item.name }, item.name.split("/").pop()),
      query && link({ view: "pair", photo: query, other: item.photo }, { class: "compare", "aria-label": `Compare with ${item.name}` }, "compare"),
    ),
    h("p", { class: "reasons" }, ...reasons.map((reason) => chip(reason, part(reason)))),
  );
}

// The photo with a map over it: cells of a dimension, stronger where more of it comes from.
export class Large {
  constructor(photo, name, { where }) {
    this.photo = photo;
    this.where = where;
    this.image = show(h("img", { alt: name || "the photo that is asked with" }), picture(photo));
    this.map = h("canvas", { class: "map", "aria-hidden": "true", hidden: true });
    this.said = h("figcaption", { class: "quiet", "aria-live": "polite" });
    this.element = h("figure", { class: "large" }, h("div", { class: "frame" }, this.image, this.map), this.said);
    this.known = new Map();
  }

  async point(dimension, name) {
    this.wanted = dimension;
    if (!this.where) return;
    if (!this.known.has(dimension)) {
      this.known.set(dimension, get(`/studio/photos/${this.photo}/where`, { dimension }));
    }
    let cells;
    try {
      cells = await this.known.get(dimension);
    } catch {
      this.known.delete(dimension);
      return;
    }
    if (this.wanted !== dimension) return;
    this.draw(cells);
    this.said.textContent = `where ${name} comes from`;
  }

  unpoint() {
    this.wanted = null;
    this.map.hidden = true;
    this.said.textContent = "";
  }

  draw({ cells, box }) {
    const rows = cells.length;
    const columns = cells[0].length;
    const most = Math.max(...cells.flat(), 1e-9);
    const canvas = this.map;
    canvas.width = columns;
    canvas.height = rows;
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(canvas).getPropertyValue("--veil");
    cells.forEach((row, y) =>
      row.forEach((value, x) => {
        pen.globalAlpha = 0.85 * (1 - Math.max(0, value / most) ** 0.8); // the rest is veiled
        pen.fillRect(x, y, 1, 1);
      }),
    );
    const [left, top, width, height] = box.map((share) => `${100 * share}%`); // of the photo: what the model sees
    Object.assign(canvas.style, { left, top, width, height });
    canvas.hidden = false;
  }
}
