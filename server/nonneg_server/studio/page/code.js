// What asks the same from a shell or a program: curl, Python, JavaScript, the command line.

import { fill, h } from "./elements.js";
import { state } from "./state.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export class Code {
  constructor(overview) {
    this.folder = overview.folder;
    this.list = h("div", { class: "snippets" });
    this.element = h("details", { class: "code" }, h("summary", {}, "The same from a program"), this.list);
  }

  draw() {
    const asks = this.folder ? state.q || state.only.length : true;
    this.element.hidden = !asks;
    const snippets = this.folder ? this.searching() : this.embedding();
    fill(this.list, ...snippets.map(([name, text]) => this.snippet(name, text)));
  }

  snippet(name, text) {
    const button = h("button", {
      type: "button",
      onclick: async () => {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      },
    }, "Copy");
    return h("section", {}, h("h3", {}, name, button), h("pre", { tabindex: "0" }, text));
  }

  searching() {
    const query = new URLSearchParams();
    const given = { expression: state.q, only: state.only.join(","), dimensions: state.dimensions, top_k: state.top_k, tenth: state.tenth || null };
    for (const [name, value] of Object.entries(given)) if (value) query.set(name, String(value));
    const url = `${location.origin}/studio/search?${query}`;
    const found = [
      ["curl", `curl ${shell(url)}`],
      ["Python", `import httpx\n\nhits = httpx.get(${JSON.stringify(url)}).json()["hits"]`],
      ["JavaScript", `const { hits } = await (await fetch(${JSON.stringify(url)})).json();`],
    ];
    if (state.q && !state.q.includes("drop-")) found.push(["Command line, in the folder", `nonneg search photos.index ${shell(state.q)}`]);
    return found;
  }

  embedding() {
    const query = new URLSearchParams();
    for (const name of ["dimensions", "top_k"]) if (state[name]) query.set(name, String(state[name]));
    const text = query.toString();
    const url = `${location.origin}/embed${text ? `?${text}` : ""}`;
    const options = ["dimensions", "top_k"].filter((name) => state[name]).map((name) => `, ${name}=${state[name]}`).join("");
    return [
      ["curl", `curl --data-binary @photo.jpg ${shell(url)}`],
      ["Python", `from nonneg_client import Client\n\nwith Client(${JSON.stringify(location.origin)}) as client:\n    vectors = client.embed("photo.jpg"${options})`],
      ["JavaScript", `const answer = await fetch(${JSON.stringify(url)}, { method: "POST", body: photo, headers: { "content-type": "image/jpeg" } });\nconst { data } = await answer.json();`],
    ];
  }
}
