// One photo as a tile, a thumbnail, or large with a map of where a dimension comes from.

import { get, picture, show, thumbnail } from "./api.js";
import { chip, part } from "./chips.js";
import { photoTerm } from "./expression.js";
import { fill, h, strongest } from "./elements.js";
import { look } from "./lightbox.js";
import { box } from "./selection.js";
import { address, go } from "./state.js";

const REST = 80; // milliseconds on a dimension before it is asked where it comes from

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

// A button over a tile that shows the whole photo.
export function looking(item) {
  const open = (event) => look(item, event.currentTarget.closest("[data-place]"));
  return h("button", { type: "button", class: "look", "aria-label": `Look at ${item.name}`, title: "Look at it (v)", onclick: open }, "\u2922");
}

// A tile of the plain folder.
export function plain(item) {
  return h(
    "li",
    { class: "tile", "data-photo": item.photo },
    link(searchLike(item.name), { class: "picture", title: item.name }, small(item.photo, `Photos like ${item.name}`)),
    box(item),
    looking(item),
  );
}

// A tile of a result: the photo, its score, and the dimensions that made it.
// `image` is its photo where that was shown a moment ago: it stays, and does not flicker.
export function hit(item, query, image) {
  const strongest = item.reasons.slice(0, 2);
  const third = item.reasons.find((reason) => reason.name && !strongest.includes(reason)) || item.reasons[2];
  const reasons = third ? [...strongest, third] : strongest;
  const shown = image || small(item.photo);
  shown.alt = `${item.name}, score ${item.score.toFixed(2)}: photos like it`;
  return h(
    "li",
    { class: "tile hit", "data-photo": item.photo },
    h("div", { class: "over" }, link(searchLike(item.name), { class: "picture", title: item.name }, shown), box(item), looking(item)),
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

// A cell the lighter the more of a dimension comes from it.
function veil(canvas, cells) {
  const most = Math.max(...cells.flat(), 1e-9);
  canvas.width = cells[0].length;
  canvas.height = cells.length;
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue("--veil");
  cells.forEach((row, y) =>
    row.forEach((value, x) => {
      pen.globalAlpha = 0.85 * (1 - Math.max(0, value / most) ** 0.8); // the rest is veiled
      pen.fillRect(x, y, 1, 1);
    }),
  );
}

// A tile that shows where a dimension comes from while it is pointed at.
export function located(tile, photo, dimension) {
  const map = h("canvas", { class: "map", "aria-hidden": "true", hidden: true });
  const said = h("span", { class: "hidden", role: "status" });
  const image = tile.querySelector("img");
  let pointed = false;
  let found = null;
  const point = async () => {
    if (pointed) return;
    pointed = true;
    await new Promise((rested) => setTimeout(rested, REST));
    if (!pointed) return;
    found ||= await get(`/studio/photos/${photo}/where`, { dimension }).catch(() => null);
    if (!pointed || !found || !image.naturalWidth) return;
    cover(map, image, found.box);
    map.hidden = false; // its colour is read from the style
    veil(map, found.cells);
    said.textContent = `It comes from the ${strongest(found.cells)}.`;
  };
  const leave = () => {
    pointed = false;
    map.hidden = true;
    said.textContent = "";
  };
  for (const [event, work] of [["mouseenter", point], ["focusin", point], ["mouseleave", leave], ["focusout", leave]]) tile.addEventListener(event, work);
  tile.querySelector(".picture").append(map);
  tile.append(said);
  return tile;
}

// The place of a photo's part, in shares of it, over an image that lies whole within its frame.
function cover(map, image, [left, top, width, height]) {
  const { naturalWidth: w, naturalHeight: t, clientWidth, clientHeight } = image;
  const scale = Math.min(clientWidth / w, clientHeight / t);
  const place = { left: (clientWidth - w * scale) / 2 + left * w * scale, top: (clientHeight - t * scale) / 2 + top * t * scale, width: width * w * scale, height: height * t * scale };
  for (const [name, value] of Object.entries(place)) map.style[name] = `${value}px`;
}

// The photo with a map over it: cells of a dimension, stronger where more of it comes from.
export class Large {
  constructor(photo, name, { where }) {
    this.photo = photo;
    this.where = where;
    this.image = show(h("img", { alt: name || "the photo that is asked with" }), picture(photo));
    this.map = h("canvas", { class: "map", "aria-hidden": "true", hidden: true });
    this.said = h("figcaption", { class: "quiet", "aria-live": "polite" });
    const open = h("button", { type: "button", class: "look", "aria-label": `Look at ${name || "the photo"}`, onclick: () => look({ photo, name }) }, "\u2922");
    this.frame = h("div", { class: "frame" }, this.image, this.map, open);
    this.element = h("figure", { class: "large" }, this.frame, this.said);
    this.known = new Map();
  }

  async point(dimension, name) {
    this.wanted = dimension;
    if (!this.where) return;
    let cells;
    try {
      if (!this.known.has(dimension)) {
        await new Promise((rested) => setTimeout(rested, REST));
        if (this.wanted !== dimension) return;
        this.known.set(dimension, get(`/studio/photos/${this.photo}/where`, { dimension }));
      }
      cells = await this.known.get(dimension);
    } catch {
      this.known.delete(dimension);
      return;
    }
    if (this.wanted !== dimension) return;
    this.draw(cells);
    fill(this.said, `where ${name} comes from`, h("span", { class: "hidden" }, `: most of it ${strongest(cells.cells)}`));
  }

  unpoint() {
    this.wanted = null;
    this.map.hidden = true;
    this.said.textContent = "";
  }

  draw({ cells, box }) {
    const canvas = this.map;
    veil(canvas, cells);
    const [left, top, width, height] = box.map((share) => `${100 * share}%`); // of the photo: what the model sees
    Object.assign(canvas.style, { left, top, width, height });
    canvas.hidden = false;
  }
}
