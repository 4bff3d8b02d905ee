// A vector as bars of named dimensions, each with the photos that show it.

import { small } from "./photo.js";
import { chip, toDimension } from "./chips.js";
import { h, label } from "./elements.js";

export function bars(list, { most, onpoint, onleave, value = (bar) => bar.value, click = true } = {}) {
  const largest = most || Math.max(...list.map(value), 1e-9);
  return h(
    "ul",
    { class: "bars", onmouseleave: onleave },
    ...list.map((bar) => {
      const point = onpoint && (() => onpoint(bar.dimension, label(bar)));
      return h(
        "li",
        { onmouseenter: point, onfocusin: point, onfocusout: onleave },
        click ? chip(bar) : toDimension(bar),
        h("span", { class: "number" }, value(bar).toFixed(3)),
        h("i", { class: "bar", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * value(bar)) / largest}%` } })),
        bar.exemplars?.length
          ? toDimension(bar, h("span", { class: "exemplars" }, ...bar.exemplars.map((photo) => small(photo))), h("span", { class: "hidden" }, `all about ${label(bar)}`))
          : click && toDimension(bar, h("span", { class: "more-of" }, "about", h("span", { class: "hidden" }, ` ${label(bar)}`))),
      );
    }),
  );
}
