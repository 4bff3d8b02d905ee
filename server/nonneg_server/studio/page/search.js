// The search: the photo that is asked with and its bars at the left, hits with reasons at the right.

import { get } from "./api.js";
import { bars } from "./bars.js";
import { facet } from "./chips.js";
import { Code } from "./code.js";
import { choose } from "./drop.js";
import { fill, h, thousands } from "./elements.js";
import { asked, read } from "./expression.js";
import { Grid } from "./grid.js";
import { Lengths } from "./lengths.js";
import { hit, Large, plain, searchLike } from "./photo.js";
import { go, state } from "./state.js";

const HIT = 312; // pixels a tile is high
const PLAIN = 150;
const narrow = matchMedia("(max-width: 56rem)");

// Bare words are meant as words, which an expression has in quotes.
const inWords = (text) => (/^[\p{L}\p{N}][\p{L}\p{N}' ]*$/u.test(text) ? `"${text}"` : text);

export class Search {
  constructor(overview) {
    this.overview = overview;
    this.grids = [];
    this.names = new Map();
    this.panel = h("aside", { class: "panel", "aria-label": "What is asked with" });
    this.lengths = new Lengths(overview.dimensions, overview.folder);
    this.text = h("input", {
      type: "text",
      id: "expression",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: overview.folder ? "a word, or winter/cat.jpg + 2*dim:snow !\"dog\"" : "drop a photo",
    });
    this.clear = h("button", { type: "button", class: "plain", onclick: () => go(searchLike(null)) }, "clear");
    this.expression = h(
      "form",
      {
        class: "expression",
        role: "search",
        hidden: !overview.folder,
        onsubmit: (event) => {
          event.preventDefault();
          go({ q: inWords(this.text.value.trim()) });
        },
      },
      h("label", { for: "expression", class: "hidden" }, "The search: photos, words and dimensions joined by +, -, & and !"),
      this.text,
      this.clear,
      h("button", { type: "submit" }, "Search"),
    );
    this.facets = h("div", { class: "facets", role: "group", "aria-label": "Only photos in which this is active" });
    this.results = h("div", { class: "results" });
    this.count = h("h1", { class: "count", "aria-live": "polite" });
    this.code = new Code(overview);
    this.body = h("div", { class: "body" }, this.expression, this.code.element, this.lengths.element, this.facets, this.count, this.results);
    this.element = h("div", { class: "search" }, this.panel, this.body);
  }

  close() {
    for (const grid of this.grids) grid.close();
    this.grids = [];
    this.stopped?.abort();
  }

  async draw() {
    this.lengths.follow();
    const asks = Boolean(state.q || state.only.length);
    this.lengths.element.hidden = !asks;
    this.text.value = state.q;
    this.clear.hidden = !asks;
    this.code.draw();
    if (!state.q) read(null);
    if (asks && this.overview.folder) await this.drawHits();
    else await this.drawFolder();
    await this.drawPanel();
  }

  // The photo that is asked with: dropped, or one of the folder.
  async whose() {
    const name = this.overview.folder ? asked() : state.q || null;
    if (!name || name.startsWith("drop-")) return name;
    return (await get("/studio/photos", { name, limit: 1 })).photos[0]?.photo ?? null;
  }

  named(j) {
    return { dimension: j, name: this.names.get(j) ?? null };
  }

  note(list) {
    for (const dimension of list) if (dimension.name) this.names.set(dimension.dimension, dimension.name);
  }

  async drawPanel() {
    this.photo = await this.whose();
    if (!this.photo) {
      this.drawn = null;
      fill(
        this.panel,
        h(
          "div",
          { class: "invitation" },
          h("h2", {}, "Ask with a photo"),
          h("p", { class: "quiet" }, "Drop one anywhere on this page, paste it, or choose one. It is embedded here and kept in memory alone."),
          h("button", { type: "button", class: "primary", onclick: choose }, "Choose a photo"),
          this.overview.folder && h("p", { class: "quiet" }, "Or take one of yours from the right: all that are like it come, with the reasons."),
        ),
      );
      return;
    }
    const photo = this.photo;
    const key = `${photo} ${state.dimensions} ${state.top_k} ${state.q}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const size = { dimensions: state.dimensions, top_k: state.top_k };
    const [named, all] = await Promise.all([
      get(`/studio/photos/${photo}`, { ...size, named: true, limit: 12 }),
      get(`/studio/photos/${photo}`, { ...size, limit: 12 }),
    ]);
    if (this.drawn !== key) return;
    this.note([...named.bars, ...all.bars]);
    if (this.large?.photo !== photo) this.large = new Large(photo, all.name, this.overview);
    const point = { click: Boolean(this.overview.folder), onpoint: (j, name) => this.large.point(j, name), onleave: () => this.large.unpoint() };
    fill(
      this.panel,
      this.large.element,
      h("p", { class: "file" }, all.name),
      h("p", { class: "quiet" }, `${thousands(all.nnz)} of ${thousands(all.dimensions)} dimensions are active.`),
      h(
        "details",
        { open: !narrow.matches },
        h("summary", {}, "Its dimensions"),
        named.bars.length ? h("h2", {}, "With a name") : null,
        named.bars.length ? bars(named.bars, point) : null,
        h("h2", {}, "The strongest"),
        bars(all.bars, point),
      ),
    );
    if (!this.overview.folder) this.lengths.tell({ bytes: Math.min(4 * all.nnz, 4 * all.dimensions) });
  }

  async drawFolder() {
    this.close();
    this.facets.hidden = true;
    const folder = this.overview.folder;
    fill(this.count, folder ? `${thousands(folder.photos)} photos` : "");
    if (!folder) {
      fill(
        this.results,
        h(
          "p",
          { class: "empty" },
          state.q ? "Drop a second photo to compare the two. " : "Drop a photo to see its dimensions, and a second one to compare them. ",
          h("code", {}, "nonneg studio photos/"),
          " shows a whole folder.",
        ),
        state.q ? h("p", { class: "empty" }, h("button", { type: "button", onclick: choose }, "Choose a second photo")) : null,
      );
      return;
    }
    const load = async (offset, limit) => (await get("/studio/photos", { offset, limit })).photos;
    this.put([new Grid({ total: folder.photos, load, tile: plain, height: PLAIN, width: 150, label: "All photos" })]);
  }

  async drawHits() {
    this.stopped?.abort();
    const stopped = (this.stopped = new AbortController());
    const { q, only, dimensions, top_k, tenth } = state;
    const wanted = { expression: q, only, dimensions, top_k, tenth };
    let found;
    try {
      found = await get("/studio/search", { ...wanted, limit: 60 }, stopped.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      throw error;
    }
    if (stopped.signal.aborted) return;
    read(found.expression);
    this.photo = await this.whose();
    this.note(found.facets);
    for (const one of found.hits) this.note(one.reasons);
    this.lengths.tell(found);
    this.facets.hidden = false;
    fill(this.facets, h("span", { class: "quiet" }, "often here:"), ...found.facets.map(facet));
    this.show(found, wanted);
  }

  show(found, wanted) {
    for (const grid of this.grids) grid.close();
    const above = found.above;
    const from = (begin) => async (offset, limit) =>
      (await get("/studio/search", { ...wanted, offset: begin + offset, limit })).hits;
    const tile = (item) => hit(item, this.photo);
    const grids = [];
    if (above) {
      grids.push(new Grid({ total: above, load: from(0), tile, height: HIT, first: found.hits.slice(0, above), label: "Hits" }));
      if (above > found.hits.length) grids[0].pages.set(0, found.hits);
    }
    const below = Math.min(found.total - above, 600);
    if (below) {
      const first = found.hits.slice(above);
      const grid = new Grid({ total: below, load: from(above), tile, height: HIT, label: "No more than by chance" });
      if (first.length === Math.min(60, below)) grid.pages.set(0, first);
      grids.push(grid);
    }
    fill(this.count, above ? `${thousands(above)} photos` : "No photo is above the line", h("small", {}, ` that score ${found.chance.toFixed(2)} or more`));
    this.put(grids, found, above);
  }

  put(grids, found = null, above = 0) {
    this.grids = grids;
    const line = h(
      "p",
      { class: "line", role: "separator" },
      h("span", {}, `From here on photos share no more with the search than random photos may (${found?.chance.toFixed(2)})`),
    );
    const parts = grids.map((grid) => grid.element);
    if (found && found.total > above) parts.splice(above ? 1 : 0, 0, line);
    fill(this.results, ...(parts.length ? parts : [h("p", { class: "empty" }, "Nothing fulfils these conditions. Take one of them away.")]));
    for (const grid of grids) grid.draw();
  }
}
