// What the last word of the search may become, as a list below its field.

import { get } from "./api.js";
import { debounced, fill, h } from "./elements.js";

const REST = 90; // milliseconds without another letter
const LAST = /[^+&!()*]*$/; // what stands after the last sign

// `use(item, head)` takes what was chosen, and what stands before it.
export function completing(input, use) {
  const list = h("ul", { class: "completions", role: "listbox", id: "completions", "aria-label": "Completions", hidden: true });
  let items = [];
  let at = -1;
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "completions" })) input.setAttribute(name, value);
  const show = (some) => {
    items = some;
    list.hidden = !items.length;
    fill(list, ...items.map((item, i) => h("li", { id: `completion-${i}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); take(i); } }, h("b", {}, item.label), h("span", { class: "quiet" }, ` ${item.kind}`))));
    input.setAttribute("aria-expanded", String(!list.hidden));
    move(-1);
  };
  const move = (to) => {
    at = to;
    [...list.children].forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `completion-${at}`);
  };
  const take = (i) => {
    const item = items[i];
    const head = input.value.slice(0, input.value.length - item.over);
    show([]);
    use(item, head);
  };
  const ask = debounced(async () => {
    const text = input.value.match(LAST)[0].trimStart();
    if (text.length < 2 || text.length > 200 || document.activeElement !== input) return show([]);
    const some = await get("/studio/completions", { text }).catch(() => []);
    if (text === input.value.match(LAST)[0].trimStart() && document.activeElement === input) show(some);
  }, REST);
  input.addEventListener("input", ask);
  input.addEventListener("blur", () => show([]));
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move((at + (event.key === "ArrowDown" ? 1 : -1) + items.length + 1) % (items.length + 1) === items.length ? -1 : (at + (event.key === "ArrowDown" ? 1 : items.length)) % items.length);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      take(at);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      show([]);
    }
  });
  return { list, close: () => show([]) };
}
