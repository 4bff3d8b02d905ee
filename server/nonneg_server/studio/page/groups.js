// Duplicates, clusters, outliers: looked through, selected, exported as a list; nothing on disk is touched.

import { get } from "./api.js";
import { fill, h, thousands } from "./elements.js";
import { searchLike, small } from "./photo.js";
import { address, go, state } from "./state.js";

const AT_ONCE = 24; // photos of a group
const GROUPS = 60;
const POLLED = 500; // milliseconds
const SIDE_BY_SIDE = ["exact", "copies", "similar"]; // parts whose photos are compared by eye

export class Groups {
  constructor() {
    this.chosen = new Map();
    this.element = h("article", { class: "groups" });
  }

  close() {}

  async draw() {
    if (!this.sections) {
      this.sections = await this.sought();
    }
    if (state.view !== "groups") return;
    const part = this.sections.find((section) => section.part === state.part) || this.sections.find((section) => section.groups.length) || this.sections[0];
    this.bar = h("div", { class: "selection", role: "status" });
    fill(
      this.element,
      h("nav", { class: "tabs", "aria-label": "Kinds of groups" }, ...this.sections.map((section) => this.tab(section, section === part))),
      h("h1", {}, part.title),
      h("p", { class: "quiet how" }, part.how),
      ...part.notes.map((note) => h("p", { class: "quiet how" }, note)),
      this.bar,
      part.groups.length ? this.list(part) : h("p", { class: "empty" }, "None."),
    );
    this.title = part.title;
    this.count();
  }

  // The groups; how far the search for them is meanwhile.
  async sought() {
    const bar = h("progress", { "aria-label": "Photos compared" });
    const far = h("span", { class: "quiet" });
    fill(this.element, h("div", { class: "empty" }, h("h1", {}, "Groups"), h("p", {}, "Comparing all photos with each other, once: seconds for thousands of them, minutes for a hundred thousand."), bar, far));
    const look = setInterval(async () => {
      const { done, of } = await get("/studio/groups/progress").catch(() => ({}));
      if (!of) return;
      bar.max = of;
      bar.value = done;
      far.textContent = done < of ? `${thousands(done)} of ${thousands(of)} photos` : "Putting them into groups";
    }, POLLED);
    try {
      return (await get("/studio/groups")).sections;
    } finally {
      clearInterval(look);
      fill(this.element);
    }
  }

  list(part) {
    const list = h("div", { class: "list" });
    const more = (begin) => {
      list.append(...part.groups.slice(begin, begin + GROUPS).map((group) => this.group(part, group)));
      const left = part.groups.length - begin - GROUPS;
      if (left > 0) {
        const button = h("button", { type: "button", onclick: () => { button.remove(); more(begin + GROUPS); } }, `${thousands(left)} more groups`);
        list.append(button);
      }
    };
    more(0);
    return list;
  }

  tab(section, current) {
    const count = section.groups.reduce((sum, group) => sum + group.photos, 0);
    return h(
      "a",
      {
        href: address({ part: section.part }),
        "aria-current": current ? "page" : undefined,
        onclick: (event) => {
          event.preventDefault();
          go({ part: section.part });
        },
      },
      section.title,
      h("span", { class: "detail" }, thousands(count)),
    );
  }

  group(part, group) {
    const list = h("ul", { class: "flow" });
    const more = (begin) => {
      list.append(...group.findings.slice(begin, begin + AT_ONCE).map((found) => this.finding(part, found)));
      const left = group.findings.length - begin - AT_ONCE;
      if (left > 0) {
        const button = h("button", { type: "button", onclick: () => { button.parentElement.remove(); more(begin + AT_ONCE); } }, `${left} more`);
        list.append(h("li", {}, button));
      }
    };
    more(0);
    return h("section", { class: SIDE_BY_SIDE.includes(part.part) ? "group side" : "group" }, h("h2", {}, group.title, part.part === "clusters" ? h("small", {}, ` ${group.photos} photos`) : ""), list);
  }

  finding(part, found) {
    const id = `choose-${part.part}-${found.photo}`;
    const box = h("input", {
      type: "checkbox",
      id,
      checked: this.chosen.has(found.photo),
      "aria-label": `Select ${found.name}`,
      onchange: () => {
        if (box.checked) this.chosen.set(found.photo, { part: part.part, ...found });
        else this.chosen.delete(found.photo);
        this.count();
      },
    });
    return h(
      "li",
      { class: `tile finding ${found.action}` },
      h("a", { class: "picture", href: address(searchLike(found.name)), title: found.name, onclick: (event) => { event.preventDefault(); go(searchLike(found.name)); } }, small(found.photo, `Photos like ${found.name}`)),
      box,
      found.action && h("span", { class: "badge" }, found.action),
      h("p", { class: "quiet" }, found.cosine === null ? "" : h("b", {}, `${found.cosine.toFixed(3)} `), found.why || found.name),
    );
  }

  count() {
    const chosen = [...this.chosen.values()];
    const suggested = this.sections.flatMap((section) => section.groups.flatMap((group) => group.findings.filter((found) => found.action === "remove").map((found) => ({ part: section.part, ...found }))));
    fill(
      this.bar,
      h("span", {}, chosen.length ? `${thousands(chosen.length)} selected` : "Select photos to export a list of them; nothing is deleted or changed here."),
      suggested.length ? h("button", { type: "button", onclick: () => { for (const found of suggested) this.chosen.set(found.photo, found); this.draw(); } }, `Select the ${suggested.length === 1 ? "one" : thousands(suggested.length)} suggested for removal`) : null,
      chosen.length ? h("button", { type: "button", onclick: () => save("photos.csv", csv(chosen), "text/csv") }, "Save CSV") : null,
      chosen.length ? h("button", { type: "button", onclick: () => save("photos.txt", chosen.map((found) => `${found.name}\n`).join(""), "text/plain") }, "Save list") : null,
      chosen.length ? h("button", { type: "button", onclick: () => { this.chosen.clear(); this.draw(); } }, "Select none") : null,
    );
  }
}

function csv(chosen) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // a sheet would compute it
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const rows = chosen.map((found) => [found.part, found.action, found.name, found.cosine, found.why]);
  return [["part", "action", "image", "cosine", "why"], ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
