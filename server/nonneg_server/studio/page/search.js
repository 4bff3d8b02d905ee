// The search: the photo that is asked with and its bars at the left, hits with reasons at the right.

import { get } from "./api.js";
import { bars } from "./bars.js";
import { chip, facet } from "./chips.js";
import { Code } from "./code.js";
import { choose } from "./drop.js";
import { completing } from "./completion.js";
import { failed, fill, h, thousands } from "./elements.js";
import { asked as askedWith, conditions, photoTerm, read } from "./expression.js";
import { Filters, typed } from "./filters.js";
import { Grid } from "./grid.js";
import { hints } from "./help.js";
import { Lengths } from "./lengths.js";
import { hit, Large, plain, searchLike } from "./photo.js";
import { go, state } from "./state.js";

const HIT = 312; // pixels a tile is high
const PLAIN = 150;
const MOST_BELOW = 600; // hits that are shown below the line
const narrow = matchMedia("(max-width: 56rem)");

// Bare words are meant as words, which an expression has in quotes.
const inWords = (text) => (/^[\p{L}\p{N}][\p{L}\p{N}' ]*$/u.test(text) ? `"${text}"` : text);

export class Search {
  constructor(overview) {
    this.overview = overview;
    this.grids = [];
    this.names = new Map();
    this.ids = new Map(); // of photos, by name
    this.weights = []; // the strongest dimensions of the last search
    this.panel = h("aside", { class: "panel", "aria-label": "What is asked with" });
    this.lengths = new Lengths(overview.dimensions, overview.folder);
    this.text = h("input", {
      type: "text",
      id: "expression",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: overview.folder?.example ? `a word, or ${overview.folder.example}` : "drop a photo",
    });
    this.hints = (overview.folder && hints()) || h("aside", { hidden: true });
    this.completions = completing(this.text, (item, head) => this.complete(item, head));
    this.filters = new Filters();
    this.clear = h("button", { type: "button", class: "plain", onclick: () => go(searchLike(null)) }, "clear");
    this.expression = h(
      "form",
      {
        class: "expression",
        role: "search",
        hidden: !overview.folder,
        onsubmit: (event) => {
          event.preventDefault();
          this.completions.close();
          go({ q: inWords(this.text.value.trim()) });
        },
      },
      h("label", { for: "expression", class: "hidden" }, "The search: photos, words and dimensions joined by +, -, & and !"),
      this.text,
      this.completions.list,
      this.clear,
      h("button", { type: "submit" }, "Search"),
    );
    this.conditions = h("div", { class: "facets", role: "group", "aria-label": "Dimensions of the search" });
    this.facets = h("div", { class: "facets", role: "group", "aria-label": "Only photos that show this" });
    this.results = h("div", {
      class: "results",
      onmouseover: (event) => this.point(event),
      onfocusin: (event) => this.point(event),
      onmouseleave: () => this.large?.unpoint(),
      onfocusout: () => this.large?.unpoint(),
    });
    this.count = h("h1", { class: "count", tabindex: "-1" });
    this.code = new Code(overview);
    this.passed = h("p", { class: "quiet" });
    const heading = h("div", { class: "heading" }, this.count, this.passed, this.code.element);
    this.body = h("div", { class: "body" }, this.expression, this.filters.element, this.filters.saved, this.conditions, this.lengths.element, this.facets, heading, this.hints, this.results, this.filters.saving);
    this.element = h("div", { class: "search" }, this.panel, this.body);
  }

  close() {
    for (const grid of this.grids) grid.close();
    this.grids = [];
    this.stopped?.abort();
  }

  // A tag narrows the photos; anything else stands in the search.
  complete(item, head) {
    if (item.kind !== "tag" && item.kind !== "album") return go({ q: `${head}${item.kind === "photo" ? photoTerm(item.text) : item.text}` });
    go({ q: head.trim().replace(/[+&-]$/, "").trim(), where: [...typed(), item.text].join("; ") });
  }

  // A reason of a hit, as a dimension at the left: where in the photo that is asked with it comes from.
  point(event) {
    const reason = event.target.closest(".reasons .chip");
    if (!reason || !this.photo || this.large?.photo !== this.photo) return this.large?.unpoint();
    return this.large.point(Number(reason.dataset.dimension), reason.querySelector(".name").textContent);
  }

  async draw() {
    this.title = state.q;
    this.lengths.follow();
    const asks = Boolean(state.q || state.only.length);
    this.lengths.element.hidden = !asks;
    this.text.value = state.q;
    this.clear.hidden = !asks;
    this.code.draw();
    this.hints.hidden = asks || !this.hints.childElementCount;
    this.filters.element.hidden = this.filters.saving.hidden = !this.overview.folder;
    if (this.overview.folder) this.filters.draw().then(() => this.tellPassedOver(), failed);
    if (!state.q) read(null, "");
    const same = this.asked === state.q && this.photo; // at another length: the photo is known before the answer
    this.asked = state.q;
    const hits = () => (asks && this.overview.folder ? this.drawHits() : this.drawFolder());
    if (same) await Promise.all([hits(), this.drawPanel()]);
    else if (await hits()) await this.drawPanel();
  }

  tellPassedOver() {
    this.passed.textContent = state.q ? "" : this.filters.passedOver();
  }

  // The photo that is asked with: dropped, or one of the folder.
  async whose() {
    const name = this.overview.folder ? askedWith() : state.q || null;
    if (!name || name.startsWith("drop-")) return name;
    if (!this.ids.has(name)) this.ids.set(name, (await get("/studio/photos", { name, limit: 1 })).photos[0]?.photo ?? null);
    return this.ids.get(name);
  }

  named(j) {
    return { dimension: j, name: this.names.get(j) ?? null };
  }

  note(list) {
    for (const dimension of list) if (dimension.name) this.names.set(dimension.dimension, dimension.name);
  }

  // Words and dimensions without a photo: what they ask for.
  drawWeights() {
    fill(
      this.panel,
      h("h2", {}, "What is asked for"),
      h(
        "details",
        { open: !narrow.matches },
        h("summary", {}, "Its strongest dimensions"),
        h("p", { class: "quiet" }, "The search as a vector: its strongest dimensions, each with the photos here that show it most."),
        bars(this.weights),
      ),
    );
  }

  async drawPanel() {
    const { q } = state;
    const asked = await this.whose();
    if (state.q !== q) return;
    this.photo = asked;
    if (!this.photo) {
      this.drawn = null;
      if (state.q && this.weights.length) return this.drawWeights();
      fill(
        this.panel,
        h(
          "div",
          { class: "invitation" },
          h("h2", {}, "Ask with a photo"),
          h("p", { class: "quiet" }, "Drop one anywhere on this page, paste it, or choose one. It is embedded here and kept in memory alone."),
          h("button", { type: "button", class: "primary", onclick: choose }, "Choose a photo"),
          this.overview.folder && h("p", { class: "quiet" }, "Or take one of yours here: all that are like it come, with the reasons."),
        ),
      );
      return;
    }
    const photo = this.photo;
    const key = `${photo} ${state.dimensions} ${state.top_k} ${state.q}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const size = { dimensions: state.dimensions, top_k: state.top_k };
    let named, all;
    try {
      [named, all] = await Promise.all([
        get(`/studio/photos/${photo}`, { ...size, named: true, limit: 12 }),
        get(`/studio/photos/${photo}`, { ...size, limit: 12 }),
      ]);
    } catch (error) {
      if (this.drawn !== key) return; // of what is not asked for any more
      this.drawn = null; // to be tried again
      throw error;
    }
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
    this.facets.hidden = this.conditions.hidden = true;
    const folder = this.overview.folder;
    fill(this.count, folder ? `${thousands(folder.photos)} photos` : state.q ? "One photo" : "A photo through its dimensions");
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
        state.q
          ? h(
              "p",
              { class: "empty actions" },
              h("button", { type: "button", onclick: choose }, "Choose a second photo"),
              h("button", { type: "button", onclick: () => go(searchLike(null)) }, "Start over"),
            )
          : null,
      );
      return true;
    }
    if (!folder.photos) {
      fill(
        this.results,
        h("p", { class: "empty" }, "The folder holds no photo any more. Put photos into it and start ", h("code", {}, "nonneg studio"), " again, or drop one here to see its dimensions."),
      );
      return true;
    }
    const { where } = state;
    const load = async (offset, limit) => (await get("/studio/photos", { offset, limit, where })).photos;
    const total = where ? (await get("/studio/photos", { limit: 1, where })).total : folder.photos;
    if (where) fill(this.count, `${thousands(total)} photos`, h("small", {}, ` of ${thousands(folder.photos)}`));
    if (!total) return fill(this.results, h("p", { class: "empty" }, "No photo fulfils the filter. Take a part of it away."));
    this.put([new Grid({ total, load, tile: plain, height: PLAIN, width: 150, label: "All photos" })]);
    return true;
  }

  // Answers whether what was found is still what is asked for.
  async drawHits() {
    this.stopped?.abort();
    const stopped = (this.stopped = new AbortController());
    const { q, only, dimensions, top_k, tenth, where } = state;
    const wanted = { expression: q, only, dimensions, top_k, tenth, where };
    let found;
    try {
      found = await get("/studio/search", { ...wanted, limit: 60 }, stopped.signal);
    } catch (error) {
      if (error.name === "AbortError") return false;
      if (error.status === 422) this.forgetHits(); // they are not of what is asked now
      throw error;
    }
    if (stopped.signal.aborted) return false;
    read(found.expression, q);
    const photo = await this.whose();
    if (stopped.signal.aborted) return false;
    this.photo = photo;
    this.note(found.facets);
    for (const one of found.hits) this.note(one.reasons);
    this.weights = found.asked;
    this.note(found.asked);
    const asked = conditions();
    const needs = new Map(found.left_out.map((leaf) => [leaf.dimension, leaf.needs]));
    const unheard = found.left_out.filter((leaf) => leaf.kind !== "dimension"); // words and photos, which have no chips
    this.conditions.hidden = !(asked.length + unheard.length);
    fill(this.conditions, h("span", { class: "quiet" }, "in the search:"), ...asked.map((dimension) => chip(dimension, null, needs.get(dimension.dimension))), ...unheard.map(leftOut));
    const others = only.filter((j) => found.facets.every((one) => one.dimension !== j)).map((j) => this.named(j));
    this.facets.hidden = !(found.facets.length + others.length);
    fill(this.facets, h("span", { class: "quiet" }, "often here:"), ...[...others, ...found.facets].map(facet));
    this.show(found, wanted);
    return true;
  }

  forgetHits() {
    for (const grid of this.grids) grid.close();
    this.grids = [];
    this.facets.hidden = this.conditions.hidden = true;
    this.lengths.tell(null);
    fill(this.results);
    fill(this.count, "Not searched");
    this.photo = this.drawn = this.large = null;
    this.weights = [];
    fill(this.panel, h("h2", {}, "What is asked for"), h("p", { class: "quiet" }, "Nothing: this search was refused. The message above says why."));
  }

  // The photos that are shown now, by id.
  images() {
    const tiles = [...this.results.querySelectorAll(".hit")].map((tile) => [tile.dataset.photo, tile.querySelector(".picture img")]);
    return new Map(tiles.filter(([, image]) => image.complete && image.naturalWidth));
  }

  show(found, wanted) {
    const images = this.images();
    for (const grid of this.grids) grid.close();
    const above = found.above;
    const from = (begin) => async (offset, limit) =>
      (await get("/studio/search", { ...wanted, offset: begin + offset, limit })).hits;
    const tile = (item) => {
      const image = images.get(item.photo);
      images.delete(item.photo);
      return hit(item, this.photo, image);
    };
    const grids = [];
    if (above) {
      grids.push(new Grid({ total: above, load: from(0), tile, height: HIT, first: found.hits.slice(0, above), label: "Hits" }));
      if (above > found.hits.length) grids[0].pages.set(0, found.hits);
    }
    const below = Math.min(found.total - above, MOST_BELOW);
    if (below) {
      const first = found.hits.slice(above);
      const grid = new Grid({ total: below, load: from(above), tile, height: HIT, label: "No more than by chance" });
      if (first.length === Math.min(60, below)) grid.pages.set(0, first);
      grids.push(grid);
    }
    const line = found.chance.toFixed(2);
    const reach = above === 1 ? `scores ${line} or more` : `score ${line} or more`;
    const counted = !found.total ? ["No photo", ""] : above ? [above === 1 ? "One photo" : `${thousands(above)} photos`, reach] : ["No photo", `scores more than random ones may (${line})`];
    fill(this.count, counted[0], h("small", {}, ` ${counted[1]}`));
    this.lengths.tell(found, `${counted.join(" ").trim()}.`);
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
    const left = found ? found.total - above - MOST_BELOW : 0;
    if (left > 0) parts.push(h("p", { class: "empty" }, `${thousands(left)} more photos share even less.`));
    fill(this.results, ...(parts.length ? parts : [none(found)]));
    for (const grid of grids) grid.draw();
  }
}

// A term without a chip of its own that the length leaves out.
function leftOut({ text, needs }) {
  const when = needs ? `left out below ${thousands(needs)}` : "left out at this length";
  return h("span", { class: "chip beyond" }, h("span", { class: "name" }, text), h("span", { class: "detail" }, when));
}

// Why nothing is shown, and what helps.
function none(found) {
  if (!found?.left_out.length || found.asked.length) return h("p", { class: "empty" }, "Nothing fulfils these conditions. Take one of them away.");
  const lengths = found.left_out.map((leaf) => leaf.needs).filter(Boolean);
  const length = lengths.length ? Math.min(...lengths) : null;
  return h(
    "div",
    { class: "empty" },
    h("p", {}, state.dimensions ? `Nothing of this search lies within ${thousands(state.dimensions)} dimensions. ` : "Nothing of this search is left. ", length ? `It needs ${thousands(length)} of them.` : "It needs longer vectors."),
    h("p", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => go(length ? { dimensions: length } : { dimensions: null, top_k: null }) }, length ? `Search with ${thousands(length)}` : "Search with all")),
  );
}
