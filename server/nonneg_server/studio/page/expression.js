// The search as text and in its parts: chips change one part, the text is written again from them.

import { get } from "./api.js";
import { state } from "./state.js";

// What the server read from a text: {text, parts: [[{weight, kind, text, dimension, name}]], without: [...]}.
let parsed = null;
let whose = null; // text

export function read(found, text) {
  parsed = found;
  whose = text;
}

const isRead = () => Boolean(parsed) && whose === state.q;
const current = () => (state.q && isRead() ? parsed : { parts: [], without: [] });

// Has the search read as it stands now: a search under way is of another text than the one that was read last.
export async function understood() {
  while (state.q && !isRead()) {
    const text = state.q;
    const found = await get("/studio/search", { expression: text, limit: 1 });
    if (text === state.q) read(found.expression, text);
  }
}

export function term(dimension) {
  if (dimension.term) return dimension.term;
  return `dim:${dimension.dimension}`;
}

export function photoTerm(name) {
  return /^(?!["!&+*()\-])[^\s"()]+$/.test(name) && !/^(?:(?:dim|photo):|[0-9.]+\s*\*|[0-9.]+$)/i.test(name)
    ? name
    : `photo:"${name.replaceAll('"', '""')}"`;
}

export function stance(j) {
  const { parts, without } = current();
  if (without.some((leaf) => leaf.dimension === j)) return "without";
  return parts.flat().some((leaf) => leaf.dimension === j && leaf.weight > 0) ? "more" : "neutral";
}

// More of this, then without it, then neither.
export function turned(dimension) {
  const { parts, without } = current();
  const j = dimension.dimension;
  const now = stance(j);
  const kept = parts.map((part) => part.filter((leaf) => leaf.dimension !== j)).filter((part) => part.length);
  const others = without.filter((leaf) => leaf.dimension !== j);
  if (now === "neutral") {
    const last = kept.length ? [...kept.at(-1)] : [];
    last.push({ weight: 1, text: term(dimension) });
    return written([...kept.slice(0, -1), last], others);
  }
  if (now === "more" && kept.length) return written(kept, [...others, { text: term(dimension) }]);
  return written(kept, others);
}

function written(parts, without) {
  if (!parts.length) return "";
  const sums = parts.map((part) =>
    part
      .map(({ weight, text }, place) => {
        const sign = weight < 0 ? "-" : place ? "+" : "";
        const worth = Math.abs(weight) === 1 ? text : `${Math.abs(weight)}*${text}`;
        return place ? `${sign} ${worth}` : `${sign}${worth}`;
      })
      .join(" "),
  );
  return [sums.join(" & "), ...without.map(({ text }) => `!${text}`)].join(" ");
}

// The dimensions that the search names.
export function conditions() {
  const { parts, without } = current();
  const leaves = [...parts.flat(), ...without].filter((leaf) => leaf.dimension !== null);
  return [...new Map(leaves.map(({ dimension, name, text }) => [dimension, { dimension, name, term: text }])).values()];
}

// The first photo of the search, by the name that it has in it.
export function asked() {
  return current().parts.flat().find((leaf) => leaf.kind === "photo" && leaf.weight > 0)?.name ?? null;
}
