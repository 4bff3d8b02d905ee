// What is looked at, and the address that says so: a search can be sent to a colleague.

export const state = read();
const listeners = new Set();
history.scrollRestoration = "manual"; // the grid has its height only when it is drawn

export function read(search = location.search) {
  const given = new URLSearchParams(search);
  const number = (name) => (/^[0-9]{1,7}$/.test(given.get(name) || "") ? Number(given.get(name)) : null);
  const found = {
    view: given.get("view") || "search",
    q: given.get("q") || "",
    photo: given.get("photo"),
    other: given.get("other"),
    dimension: number("dimension"),
    dimensions: number("dimensions"),
    top_k: number("top_k"),
    tenth: given.get("tenth") === "true",
    part: given.get("part"),
    where: given.get("where") || "",
  };
  found.only = (given.get("only") || "").split(",").filter((text) => /^[0-9]{1,7}$/.test(text)).map(Number);
  return found;
}

const ONLY_IN = { photo: "pair", other: "pair", dimension: "dimension", part: "groups" }; // views

export function address(changes = {}) {
  const next = { ...state, ...changes };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(next)) {
    if (value === null || value === undefined || value === false || value === "" || (name === "view" && value === "search")) continue;
    if (ONLY_IN[name] && ONLY_IN[name] !== next.view) continue;
    if (Array.isArray(value)) value.length && query.set(name, value.join(","));
    else query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `/?${text}` : "/";
}

export function go(changes, { replace = false } = {}) {
  keep();
  Object.assign(state, changes);
  history[replace ? "replaceState" : "pushState"](null, "", address());
  tell(replace ? scrollY : 0);
}

export function listen(listener) {
  listeners.add(listener);
}

function tell(scroll) {
  for (const listener of listeners) listener(scroll);
}

addEventListener("popstate", (event) => {
  Object.assign(state, read());
  tell(event.state?.scroll ?? 0);
});
// The place on the page, to come back to.
function keep() {
  history.replaceState({ scroll: scrollY }, "");
}

addEventListener("scrollend", keep);
