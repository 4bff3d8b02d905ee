// The server's JSON, with the key that is kept in this page's memory alone, and errors as they are answered.

let key = null;
let changed = () => {};

export class Failure extends Error {
  constructor(status, error) {
    super(error.message);
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
  throw new Failure(response.status, error);
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
  return (await answered("/studio/uploads", options)).json();
}

// An <img> cannot send a key: with one, the picture is fetched and shown from memory.
export function show(image, path) {
  const gone = () => {
    image.classList.add("gone");
    image.dispatchEvent(new CustomEvent("gone", { bubbles: true }));
  };
  image.addEventListener("error", gone, { once: true });
  if (key === null) {
    image.src = path;
    return image;
  }
  answered(path)
    .then((response) => response.blob())
    .then((blob) => {
      image.src = URL.createObjectURL(blob);
      image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
    })
    .catch(gone);
  return image;
}

export const thumbnail = (photo) => `/studio/photos/${encodeURIComponent(photo)}/thumbnail`;
export const picture = (photo) => `/studio/photos/${encodeURIComponent(photo)}/image`;
