// Conditions on photos, by date, camera, orientation, folder, tag and album; and the searches that were saved.

import { fill, h, thousands } from "./elements.js";
import { library, onLibrary, saveSearch } from "./library.js";
import { address, go, state } from "./state.js";

const LISTS = { tag: "Tag", album: "Album", camera: "Camera", orientation: "Orientation", folder: "Folder" };

export const typed = () => state.where.split(";").map((part) => part.trim()).filter(Boolean);
const value = (sign) => typed().find((part) => part.startsWith(sign))?.slice(sign.length) || "";

function change(sign, text) {
  const others = typed().filter((part) => !part.startsWith(sign));
  go({ where: [...others, ...(text ? [`${sign}${text}`] : [])].join("; ") });
}

export class Filters {
  constructor() {
    this.fields = h("div", { class: "fields" });
    this.summary = h("summary", {}, "Filter");
    this.element = h("details", { class: "filters" }, this.summary, this.fields);
    this.saved = h("p", { class: "facets", hidden: true });
    this.name = h("input", { type: "text", maxlength: "100", "aria-label": "Name of the search", placeholder: "name this search" });
    this.saving = h("form", { class: "saving", onsubmit: (event) => { event.preventDefault(); this.save(); } }, this.name, h("button", { type: "submit" }, "Save the search"));
    onLibrary(() => this.draw());
  }

  async save() {
    const name = this.name.value.trim();
    if (!name) return this.name.focus();
    await saveSearch(name, address());
    this.name.value = "";
  }

  async draw() {
    const found = await library();
    const count = typed().length;
    this.summary.textContent = count ? `Filter: ${typed().join(", ")}` : "Filter by date, camera, tag";
    const lists = { tag: found.tags, album: found.albums, ...found.fields };
    const dates = [["from", "taken>="], ["to", "taken<="]].map(([text, sign]) => this.field(`Taken ${text}`, h("input", { type: "date", value: value(sign), onchange: (event) => change(sign, event.target.value) })));
    fill(
      this.fields,
      ...(found.dated ? dates : []),
      ...Object.entries(LISTS).map(([name, text]) => lists[name]?.length ? this.field(text, this.list(name, lists[name])) : null),
      count ? h("button", { type: "button", onclick: () => go({ where: "" }) }, "Take the filter away") : null,
    );
    this.saved.hidden = !found.searches.length;
    fill(this.saved, h("span", { class: "quiet" }, "saved:"), ...found.searches.map((one) => this.search(one)));
    this.saving.hidden = address() === "/";
    this.over = Object.entries(found.passed_over);
  }

  search({ name, address: place }) {
    const forget = h("button", { type: "button", class: "plain", "aria-label": `Forget the search ${name}`, onclick: () => saveSearch(name, null) }, "\u00d7");
    return h("span", { class: "chip facet" }, h("a", { href: place }, name), forget);
  }

  field(text, input) {
    return h("label", {}, h("span", { class: "quiet" }, text), input);
  }

  list(name, values) {
    const now = value(`${name}=`);
    const known = now && !values.some((one) => one.name === now) ? [{ name: now }, ...values] : values;
    const options = known.map((one) => h("option", { value: one.name, selected: one.name === now }, one.count ? `${one.name} (${thousands(one.count)})` : one.name));
    return h("select", { onchange: (event) => change(`${name}=`, event.target.value) }, h("option", { value: "" }, "all"), ...options);
  }

  // What of the folder no photo is read of, in words.
  passedOver() {
    return this.over?.length ? `Passed over: ${this.over.map(([ending, count]) => `${thousands(count)} .${ending}`).join(", ")}.` : "";
  }
}
