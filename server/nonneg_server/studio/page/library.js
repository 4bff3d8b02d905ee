// What the user says of photos: tags, albums, names, saved searches, as the server keeps them.

import { get, put } from "./api.js";
import { failed, say, thousands } from "./elements.js";

let known = null;
const listeners = new Set();

export async function library() {
  known ||= get("/studio/library").catch((error) => {
    known = null;
    throw error;
  });
  return known;
}

export function onLibrary(listener) {
  listeners.add(listener);
}

function changed() {
  known = null;
  for (const listener of listeners) listener();
}

const photos = (count) => (count === 1 ? "one photo" : `${thousands(count)} photos`);

// Gives photos a tag or an album; what it changed can be undone.
export async function mark(kind, name, ids, on = true, undoing = false) {
  try {
    const done = await put("/studio/marks", { kind, name, photos: ids, on });
    changed();
    const undo = done.changed.length && !undoing ? () => mark(kind, name, done.changed, !on, true) : null;
    const said = done.changed.length ? `${on ? "Given to" : "Taken from"} ${photos(done.changed.length)}: ${kind} ${name}.` : `Nothing changed: ${on ? "all" : "none"} of them had the ${kind} ${name}.`;
    say(said, undo);
  } catch (error) {
    failed(error);
  }
}

export async function nameDimension(dimension, name, undoing = false) {
  try {
    const { before } = await put("/studio/names", { dimension, name });
    changed();
    say(name ? `Dimension ${dimension} is called ${name} now.` : `Dimension ${dimension} has no name of yours now.`, undoing ? null : () => nameDimension(dimension, before, true));
  } catch (error) {
    failed(error);
  }
}

export async function saveSearch(name, address, undoing = false) {
  try {
    const before = (await library()).searches.find((one) => one.name === name)?.address ?? null;
    await put("/studio/searches", { name, address });
    changed();
    say(address ? `The search is saved as ${name}.` : `The search ${name} is forgotten.`, undoing ? null : () => saveSearch(name, before, true));
  } catch (error) {
    failed(error);
  }
}
