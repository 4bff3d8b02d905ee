// All dimensions that this folder has, those first whose strongest photos are most alike.

import { get } from "./api.js";
import { toDimension } from "./chips.js";
import { fill, h, label, save, thousands } from "./elements.js";
import { Grid } from "./grid.js";
import { library } from "./library.js";
import { small } from "./photo.js";

const HEIGHT = 148;
const WIDTH = 340;

export class Atlas {
  constructor() {
    this.element = h("article", { class: "atlas" });
    this.title = "Dimensions";
  }

  close() {
    this.grid?.close();
  }

  async draw() {
    const load = async (offset, limit) => (await get("/studio/atlas", { offset, limit })).dimensions;
    const first = await get("/studio/atlas", { limit: 60 });
    const { names } = await library();
    this.close();
    this.grid = new Grid({ total: first.total, load, tile, height: HEIGHT, width: WIDTH, first: first.dimensions, label: "Dimensions" });
    fill(
      this.element,
      h("h1", {}, `${thousands(first.total)} dimensions`, h("small", {}, " the best first: those whose strongest photos here are most alike")),
      h("p", { class: "quiet how" }, "Open one to see its photos and to name it. A name of yours stands in place of the number, and is searched for."),
      names.length ? h("p", { class: "actions" }, h("button", { type: "button", onclick: () => save("names.csv", csv(names), "text/csv") }, `Save the ${thousands(names.length)} names that you gave`)) : null,
      this.grid.element,
    );
    this.grid.draw();
  }
}

function tile(item) {
  const said = `${label(item)}, ${item.name ? `dimension ${item.dimension}, ` : ""}cosine ${item.alike.toFixed(2)}`;
  const photos = h("span", { class: "exemplars" }, ...item.exemplars.slice(0, 6).map((photo) => small(photo)));
  return h("li", { class: "tile about" }, toDimension(item, h("b", {}, label(item)), h("span", { class: "quiet" }, ` ${item.name ? `dim ${item.dimension}, ` : ""}alike by ${item.alike.toFixed(2)}`), photos, h("span", { class: "hidden" }, `: ${said}`)));
}

const csv = (names) => `dimension,name\n${names.map(({ dimension, name }) => `${dimension},"${(/^[=+\-@]/.test(name) ? `'${name}` : name).replaceAll('"', '""')}"\n`).join("")}`;
