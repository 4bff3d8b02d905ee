// What asks the same from a shell or a program: curl, Python, JavaScript, the command line.

import { hasKey } from "./api.js";
import { fill, h } from "./elements.js";
import { state } from "./state.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const DROPPED = /(^|[^\w.\/-])drop-[\w.-]*[0-9a-f]{16}/;
const quoted = (text) => JSON.stringify(text);

export class Code {
  constructor(overview) {
    this.folder = overview.folder;
    this.list = h("div", { class: "snippets" });
    this.element = h("details", { class: "code" }, h("summary", {}, "The same from a program"), this.list);
  }

  // The search, or without a folder the vector of a photo.
  draw() {
    this.element.hidden = Boolean(this.folder) && !(state.q || state.only.length);
    this.show(this.folder ? this.searching() : embedding());
  }

  // Two photos: by their ids where both are indexed, else by their files.
  compare(found) {
    const dropped = [found.a.photo, found.b.photo].some((photo) => photo.startsWith("drop-"));
    this.show(dropped ? explaining() : asking("/studio/pair", { a: found.a.photo, b: found.b.photo, ...size() }, "cosine"));
  }

  show(snippets) {
    fill(this.list, ...snippets.map(([name, text, note]) => snippet(name, text, note)));
  }

  searching() {
    const given = { expression: state.q, only: state.only.join(","), ...size(), tenth: state.tenth || null };
    return [...asking("/studio/search", given, "hits"), commandLine()];
  }
}

// `nonneg search` reads photos where it is called, and leaves out what is asked with if it is told to.
function commandLine() {
  const unsaid = [
    [!state.q || state.only.length, "photos in which a dimension must be active"],
    [state.dimensions || state.top_k, "a length"],
    [state.tenth, "a tenth of each vector stored"],
    [DROPPED.test(state.q), "a dropped photo: name its file in the search"],
  ].filter(([asked]) => asked);
  if (unsaid.length) return ["Command line", null, `nonneg search has no words for ${unsaid.map(([, what]) => what).join(", nor for ")}.`];
  const key = hasKey() ? "  # it sends NONNEG_API_KEY" : "";
  const text = `cd FOLDER\nnonneg search --exclude-self --url ${shell(location.origin)} -- INDEX ${shell(state.q)}${key}`;
  return ["Command line", text, "FOLDER is the folder of the photos, INDEX its index by its whole path: nonneg studio prints both when it starts."];
}

const size = () => ({ dimensions: state.dimensions, top_k: state.top_k });

function address(path, given) {
  const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
  const text = query.toString();
  return `${location.origin}${path}${text ? `?${text}` : ""}`;
}

const withKey = {
  curl: () => (hasKey() ? ` -H "X-API-Key: $NONNEG_API_KEY"` : ""),
  python: () => (hasKey() ? `, headers={"X-API-Key": os.environ["NONNEG_API_KEY"]}` : ""),
  imports: () => (hasKey() ? "import os\n\n" : ""),
  javascript: (others = []) => {
    const all = hasKey() ? [...others, `"x-api-key": key`] : others;
    return all.length ? `headers: { ${all.join(", ")} }` : "";
  },
};

function asking(path, given, what) {
  const url = address(path, given);
  const headers = withKey.javascript();
  return [
    ["curl", `curl${withKey.curl()} ${shell(url)}`],
    ["Python", `${withKey.imports()}import httpx\n\n${what} = httpx.get(${quoted(url)}${withKey.python()}).json()["${what}"]`],
    ["JavaScript", `const { ${what} } = await (await fetch(${quoted(url)}${headers && `, { ${headers} }`})).json();`],
  ];
}

function embedding() {
  const url = address("/embed", size());
  const options = Object.entries(size()).filter(([, value]) => value).map(([name, value]) => `, ${name}=${value}`).join("");
  return [
    ["curl", `curl${withKey.curl()} --data-binary @photo.jpg ${shell(url)}`],
    ["Python", `from nonneg_client import Client\n\nwith Client(${quoted(location.origin)}) as client:${hasKey() ? "  # it sends NONNEG_API_KEY" : ""}\n    vectors = client.embed("photo.jpg"${options})`],
    ["JavaScript", `const answer = await fetch(${quoted(url)}, { method: "POST", body: photo, ${withKey.javascript([`"content-type": "image/jpeg"`])} });\nconst { data } = await answer.json();`],
  ];
}

function explaining() {
  const url = address("/explain", size());
  const headers = withKey.javascript();
  return [
    ["curl", `curl${withKey.curl()} -F images=@a.jpg -F images=@b.jpg ${shell(url)}`],
    ["Python", `${withKey.imports()}import httpx\n\nphotos = [("images", open(name, "rb")) for name in ("a.jpg", "b.jpg")]\nshared = httpx.post(${quoted(url)}, files=photos${withKey.python()}).json()["contributions"]`],
    ["JavaScript", `const form = new FormData();\nfor (const photo of [a, b]) form.append("images", photo);\nconst { contributions } = await (await fetch(${quoted(url)}, { method: "POST", body: form${headers && `, ${headers}`} })).json();`],
  ];
}

function snippet(name, text, note) {
  const said = note && h("p", { class: "quiet" }, note);
  if (text === null) return h("section", {}, h("h3", {}, name), said);
  const shown = h("pre", { tabindex: "0" }, text);
  const button = h("button", { type: "button", "aria-label": `Copy ${name}`, onclick: () => copy(text, shown, button) }, "Copy");
  return h("section", {}, h("h3", {}, name, button), shown, said);
}

// Pages that did not come over loopback or https have no clipboard: the text is selected for Ctrl+C.
async function copy(text, shown, button) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    button.removeAttribute("aria-label");
  } else {
    getSelection().selectAllChildren(shown);
    button.textContent = "Press Ctrl+C";
  }
}
