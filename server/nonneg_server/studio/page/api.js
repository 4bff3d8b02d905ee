// The server's JSON, with the key that is kept in this page's memory alone, and errors as they are answered.

let key = null;
let changed = () => {};

export class Failure extends Error {
  constructor(status, error, wait = 0) {
    super(error.message);
    this.wait = wait; // seconds
    this.status = status;
    this.type = error.type;
    this.fix = error.fix;
  }
}

export function onKey(listener) {
  changed = listener;
}

export function useKey(given) {
  key = given || null;
  changed();
}

export const hasKey = () => key !== null;

function headers(more = {}) {
  return key === null ? more : { ...more, "x-api-key": key };
}

async function answered(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, {
      type: "unreachable",
      message: "The server does not answer.",
      fix: "Is it still running? Start it again; this page goes on where it was.",
    });
  }
  if (response.ok) return response;
  let error = { type: "unknown", message: `The server answered ${response.status}.`, fix: null };
  try {
    error = (await response.json()).error || error;
  } catch {
    // not ours: a proxy, say
  }
  throw new Failure(response.status, error, Number(response.headers.get("retry-after")));
}

export async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === false || value === "") continue;
    if (Array.isArray(value) && !value.length) continue;
    query.set(name, String(value));
  }
  const text = query.toString();
  return (await answered(text ? `${path}?${text}` : path, { signal })).json();
}

export async function upload(file) {
  const options = {
    method: "POST",
    body: file,
    headers: { "content-type": file.type || "application/octet-stream", "x-nonneg-studio": "1" },
  };
  const name = new URLSearchParams({ name: (file.name || "").slice(-100) });
  return (await answered(`/studio/uploads?${name}`, options)).json();
}

const json = (method, body) => ({ method, body: JSON.stringify(body), headers: { "content-type": "application/json", "x-nonneg-studio": "1" } });

export async function put(path, body) {
  return (await answered(path, json("PUT", body))).json();
}

export async function post(path, body) {
  return answered(path, json("POST", body));
}

const fetched = new WeakMap(); // images that are fetched by a script, and what stops that
const TRIES = 6;

// An <img> can neither send a key nor wait its turn where requests are limited: then a script fetches the picture.
export function show(image, path) {
  if (key === null) {
    image.addEventListener("error", () => load(image, path), { once: true });
    image.src = path;
  } else load(image, path);
  return image;
}

async function load(image, path) {
  const stop = new AbortController();
  fetched.set(image, stop);
  for (let left = TRIES; left; left -= 1) {
    try {
      const blob = await (await answered(path, { signal: stop.signal })).blob();
      image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
      image.src = URL.createObjectURL(blob);
      return;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status !== 429) break;
      await new Promise((rested) => setTimeout(rested, 1000 * (error.wait || 1)));
      if (stop.signal.aborted) return;
    }
  }
  image.classList.add("gone");
}

// Who scrolls through thousands of photos leaves most of them before they are loaded: those are not waited for.
export function forget(element) {
  for (const image of element.querySelectorAll("img")) {
    fetched.get(image)?.abort();
    if (!image.complete) image.removeAttribute("src");
  }
}

export const thumbnail = (photo) => `/studio/photos/${encodeURIComponent(photo)}/thumbnail`;
export const whole = (photo) => `/studio/photos/${encodeURIComponent(photo)}/whole`;
export const picture = (photo) => `/studio/photos/${encodeURIComponent(photo)}/image`;
