// Elements from names, properties and children; text is always text, never markup.

export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [n, v] of Object.entries(value)) element.style.setProperty(n, v);
    else if (key === "class") element.className = value;
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
  return element;
}

export const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
export const thousands = (value) => value.toLocaleString("en");

export function debounced(work, milliseconds) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

// The ninth of a photo from which most of a dimension comes, as one says it: "upper left, 40 %".
export function strongest(cells) {
  const sums = new Map();
  let total = 0;
  cells.forEach((row, y) =>
    row.forEach((value, x) => {
      const ninth = [[y, cells.length, ["upper", "middle", "lower"]], [x, row.length, ["left", "centre", "right"]]]
        .map(([at, of, words]) => words[Math.floor((3 * (at + 0.5)) / of)])
        .join(" ");
      sums.set(ninth, (sums.get(ninth) || 0) + Math.max(0, value));
      total += Math.max(0, value);
    }),
  );
  const [where, most] = [...sums].reduce((a, b) => (b[1] > a[1] ? b : a));
  return total ? `${where.replace("middle centre", "centre")}, ${percent(most / total)}` : "nowhere in it";
}

// Hands the user a file.
export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: `${type};charset=utf-8` }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Says what the last step did, with a way back where there is one.
export function say(text, undo = null) {
  dispatchEvent(new CustomEvent("said", { detail: { text, undo } }));
}

export function failed(error) {
  dispatchEvent(new CustomEvent("failed", { detail: error }));
}

export function label(dimension) {
  return dimension.name || `dim ${dimension.dimension}`;
}
