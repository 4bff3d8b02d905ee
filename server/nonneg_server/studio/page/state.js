// What is looked at, and the address that says so: a search can be sent to a colleague.

export const state = read();
const listeners = new Set();

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
  };
  found.only = (given.get("only") || "").split(",").filter((text) => /^[0-9]{1,7}$/.test(text)).map(Number);
  return found;
}

export function address(changes = {}) {
  const next = { ...state, ...changes };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(next)) {
    if (value === null || value === undefined || value === false || value === "" || (name === "view" && value === "search")) continue;
    if (Array.isArray(value)) value.length && query.set(name, value.join(","));
    else query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `/?${text}` : "/";
}

export function go(changes, { replace = false } = {}) {
  Object.assign(state, changes);
  history[replace ? "replaceState" : "pushState"](null, "", address());
  tell(replace);
}

export function listen(listener) {
  listeners.add(listener);
}

function tell(same) {
  for (const listener of listeners) listener(same);
}

addEventListener("popstate", () => {
  Object.assign(state, read());
  tell(false);
});

