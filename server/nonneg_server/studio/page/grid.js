// A grid of any length: only the tiles near the window exist, their content comes page by page.

import { forget } from "./api.js";
import { h } from "./elements.js";

const PAGE = 60;
const AHEAD = 2; // rows beyond the window
const IDLE = 6; // pages that are remembered on either side of the window

export class Grid {
  // load(offset, limit) answers items; tile(item, place) makes the element of one.
  constructor({ total, load, tile, height, width = 190, first = [], label }) {
    Object.assign(this, { total, load, tile, height, width });
    this.pages = new Map();
    if (first.length) this.pages.set(0, first);
    this.waiting = new Set();
    this.shown = new Map();
    this.at = 0; // the tile that the keyboard is on
    this.element = h("ul", { class: "grid", "aria-label": label, onkeydown: (event) => this.key(event) });
    this.element.addEventListener("focusin", (event) => {
      const tile = event.target.closest("[data-place]");
      if (tile) this.at = Number(tile.dataset.place);
    });
    this.moved = () => requestAnimationFrame(() => this.draw());
    addEventListener("scroll", this.moved, { passive: true });
    this.resized = new ResizeObserver(this.moved);
    this.resized.observe(this.element);
  }

  close() {
    removeEventListener("scroll", this.moved);
    this.resized.disconnect();
    this.closed = true;
    forget(this.element);
  }

  draw() {
    if (this.closed || !this.element.isConnected) return;
    const room = this.element.clientWidth;
    const columns = Math.max(2, Math.floor(room / this.width));
    if (columns !== this.columns || room !== this.room) {
      this.columns = columns;
      this.room = room;
      for (const place of [...this.shown.keys()]) this.drop(place);
    }
    const rows = Math.ceil(this.total / columns);
    this.element.style.height = `${rows * this.height}px`;
    const top = -this.element.getBoundingClientRect().top;
    const begin = Math.max(0, Math.floor(top / this.height) - AHEAD) * columns;
    const end = Math.min(this.total, (Math.ceil((top + innerHeight) / this.height) + AHEAD) * columns);
    for (const [place, tile] of this.shown) {
      if ((place < begin || place >= end) && !tile.contains(document.activeElement)) this.drop(place);
    }
    for (let place = begin; place < end; place += 1) {
      const page = Math.floor(place / PAGE);
      const item = this.pages.get(page)?.[place % PAGE];
      if (item) this.put(place, item);
      else if (item === undefined) this.fetch(page);
    }
    for (const page of this.pages.keys()) {
      if (page * PAGE > end + IDLE * PAGE || (page + 1) * PAGE < begin - IDLE * PAGE) this.pages.delete(page);
    }
  }

  put(place, item) {
    if (this.shown.has(place)) return;
    const element = this.tile(item, place);
    element.dataset.place = String(place);
    element.grid = this;
    element.setAttribute("aria-setsize", String(this.total));
    element.setAttribute("aria-posinset", String(place + 1));
    const width = this.room / this.columns;
    const style = element.style;
    style.width = `${width}px`;
    style.height = `${this.height}px`;
    style.transform = `translate(${(place % this.columns) * width}px, ${Math.floor(place / this.columns) * this.height}px)`;
    let after = null; // Tab goes in reading order
    for (const other of this.element.children) if (Number(other.dataset.place) > place) { after = other; break; }
    this.element.insertBefore(element, after);
    this.shown.set(place, element);
  }

  drop(place) {
    const tile = this.shown.get(place);
    this.shown.delete(place);
    forget(tile);
    tile.remove();
  }

  async fetch(page) {
    if (this.waiting.has(page)) return;
    this.waiting.add(page);
    try {
      this.pages.set(page, await this.load(page * PAGE, Math.min(PAGE, this.total - page * PAGE)));
      this.draw();
    } catch (error) {
      if (!this.closed) dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.waiting.delete(page);
    }
  }

  // The items from one place to another, fetched where they are not here yet.
  async between(from, to) {
    const items = [];
    for (let page = Math.floor(from / PAGE); page * PAGE <= to; page += 1) {
      const some = this.pages.get(page) || (await this.load(page * PAGE, Math.min(PAGE, this.total - page * PAGE)));
      some.forEach((item, i) => page * PAGE + i >= from && page * PAGE + i <= to && items.push(item));
    }
    return items;
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[event.key];
    if (!step || event.target.matches("input:not(.choose)")) return;
    const next = this.at + step;
    if (next < 0 || next >= this.total) return;
    event.preventDefault();
    const tile = this.shown.get(next);
    if (!tile) return;
    this.at = next;
    tile.querySelector("a, button").focus({ preventScroll: true });
    tile.scrollIntoView({ block: "nearest" });
  }
}
