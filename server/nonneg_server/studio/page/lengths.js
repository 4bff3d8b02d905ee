// Length and top_k as sliders, and what they cost as one slides: bytes, agreement with the whole vectors, time.

import { debounced, fill, h, percent } from "./elements.js";
import { go, state } from "./state.js";

const narrow = matchMedia("(max-width: 56rem)");
const SETTLED = 700; // milliseconds without another figure before the figures are announced

function steps(most, least) {
  const found = [];
  for (let value = least; Math.round(value) < most; value *= 2 ** 0.25) found.push(Math.round(value));
  return [...new Set(found), most];
}

export class Lengths {
  constructor(dimensions, folder) {
    this.full = dimensions;
    this.lengths = steps(dimensions, Math.min(8, dimensions));
    this.tops = steps(dimensions, Math.min(4, dimensions));
    this.change = debounced((changes) => go(changes, { replace: true }), 30);
    this.length = this.slider("Length", "length", this.lengths, "dimensions");
    this.top = this.slider("Largest kept of each", "top_k", this.tops, "top_k");
    this.tenth = h("input", {
      type: "checkbox",
      role: "switch",
      id: "tenth",
      onchange: () => go({ tenth: this.tenth.checked }, { replace: true }),
    });
    this.figures = h("dl", { class: "figures" });
    this.said = h("p", { class: "hidden", role: "status" });
    this.say = debounced((text) => (this.said.textContent = text), SETTLED);
    const fields = h(
      "section",
      { class: "lengths", "aria-label": "Length of the vectors" },
      this.length.element,
      this.top.element,
      folder && h("p", { class: "switch" }, this.tenth, h("label", { for: "tenth" }, "store 10 % of each vector")),
      this.figures,
      this.said,
    );
    this.element = h("details", { open: !narrow.matches }, h("summary", {}, "Length of the vectors"), fields);
    this.follow();
  }

  slider(text, id, values, name) {
    const output = h("output", { for: id });
    const input = h("input", { type: "range", id, min: "0", max: String(values.length - 1), step: "1" });
    const say = (value) => {
      output.textContent = value === this.full ? (name === "top_k" ? "all" : `${value}, whole`) : String(value);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      const value = values[Number(input.value)];
      say(value);
      this.change({ [name]: value === this.full ? null : value });
    });
    const follow = () => {
      const value = state[name] ?? this.full;
      const place = values.findIndex((step) => step >= value);
      if (document.activeElement !== input) input.value = String(place < 0 ? values.length - 1 : place);
      say(Math.min(value, this.full));
    };
    return { element: h("div", { class: "slider" }, h("label", { for: id }, text), output, input), follow };
  }

  follow() {
    this.length.follow();
    this.top.follow();
    this.tenth.checked = state.tenth;
  }

  // `counted`: how many photos were found, in words, which are announced with the figures once they stay the same.
  tell(found, counted = "") {
    if (!found) return fill(this.figures);
    const shares = [["bytes a photo", String(Math.round(found.bytes)), found.whole_bytes ? `of ${Math.round(found.whole_bytes)} whole` : ""]];
    if (found.hits) {
      const agreement = found.agreement === null ? "–" : percent(found.agreement);
      shares.unshift(["same first ten", agreement, "of the first ten hits are also the first ten with whole vectors"]);
      shares.push(["search", `${found.milliseconds.toFixed(1)} ms`, "on the server"]);
    }
    fill(
      this.figures,
      ...shares.map(([name, value, detail]) => h("div", { title: detail }, h("dt", {}, name), h("dd", {}, value))),
    );
    this.say(`${counted} ${shares.map(([name, value]) => `${name} ${value}`).join(", ")}`.trim());
  }
}
