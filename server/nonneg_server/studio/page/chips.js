// Dimensions as buttons: click for more of it, again for without it, again for neither.

import { show, thumbnail } from "./api.js";
import { h, label, percent, thousands } from "./elements.js";
import { stance, turned, understood } from "./expression.js";
import { address, go, state } from "./state.js";

const SIGNS = { more: "+", without: "−", neutral: "" };
const SAID = { more: "more of this", without: "without this", neutral: "not asked for" };

// `needs`: the length from which on it counts, where the present one leaves it out.
export function chip(dimension, detail = null, needs = null) {
  const now = stance(dimension.dimension);
  const name = label(dimension);
  const said = needs ? `${SAID[now]}, left out: it counts from ${thousands(needs)} dimensions on` : SAID[now];
  return h(
    "button",
    {
      class: `chip ${now}${dimension.name ? "" : " unnamed"}${needs ? " beyond" : ""}`,
      type: "button",
      "data-dimension": String(dimension.dimension),
      title: `${name}: ${said}. Click for more of it, again for without it.`,
      onclick: () => turn(dimension),
    },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[now]),
    shown(dimension),
    h("span", { class: "name" }, name),
    needs ? h("span", { class: "detail" }, `left out below ${thousands(needs)}`) : detail && h("span", { class: "detail" }, detail),
    h("span", { class: "hidden" }, `: ${said}`),
  );
}

async function turn(dimension) {
  try {
    await understood();
  } catch (error) {
    return dispatchEvent(new CustomEvent("failed", { detail: error }));
  }
  return go({ q: turned(dimension), view: "search" });
}

// What has no name is told by the photo that shows it most.
function shown({ name, exemplar }) {
  return !name && exemplar && show(h("img", { alt: "", loading: "lazy", decoding: "async" }), thumbnail(exemplar));
}

export function facet(dimension) {
  const on = state.only.includes(dimension.dimension);
  const only = on ? state.only.filter((j) => j !== dimension.dimension) : [...state.only, dimension.dimension];
  return h(
    "button",
    {
      class: `chip facet${on ? " more" : ""}`,
      type: "button",
      "data-dimension": String(dimension.dimension),
      "aria-pressed": String(on),
      title: dimension.of ? `In ${dimension.in_result} of the first ${dimension.of} hits, in ${dimension.count} of all photos.` : undefined,
      onclick: () => go({ only }),
    },
    shown(dimension),
    h("span", { class: "name" }, label(dimension)),
    dimension.of && h("span", { class: "detail" }, thousands(dimension.count)),
  );
}

export function toDimension(dimension, ...content) {
  const changes = { view: "dimension", dimension: dimension.dimension };
  return h(
    "a",
    {
      href: address(changes),
      class: "to-dimension",
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(changes);
      },
    },
    ...(content.length ? content : [label(dimension)]),
  );
}

export const part = (reason) => percent(reason.share);
