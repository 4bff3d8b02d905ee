// Duplicates, clusters, outliers: looked through, selected, exported as a list; nothing on disk is touched.

import { get } from "./api.js";
import { fill, h, thousands } from "./elements.js";
import { looking, searchLike, small } from "./photo.js";
import { box, choose } from "./selection.js";
import { address, go, state } from "./state.js";

const AT_ONCE = 24; // photos of a group
const GROUPS = 60;
const POLLED = [50, 1000]; // milliseconds: at first, and at last
const SIDE_BY_SIDE = ["exact", "copies", "similar"]; // parts whose photos are compared by eye

export class Groups {
  constructor() {
    this.element = h("article", { class: "groups" });
  }

  close() {}

  async draw() {
    this.sections ||= await (this.asking ||= this.sought().finally(() => (this.asking = null)));
    if (state.view !== "groups" || !this.sections) return;
    const part = this.part = this.sections.find((section) => section.part === state.part) || this.sections.find((section) => section.groups.length) || this.sections[0];
    fill(
      this.element,
      h("nav", { class: "tabs", "aria-label": "Kinds of groups" }, ...this.sections.map((section) => this.tab(section, section === part))),
      h("h1", {}, part.title),
      h("p", { class: "quiet how" }, part.how),
      ...part.notes.map((note) => h("p", { class: "quiet how" }, note)),
      this.suggestion(),
      part.groups.length ? this.list(part) : h("p", { class: "empty" }, "None."),
    );
    this.title = part.title;
  }

  // The groups; how far the search for them is meanwhile. Each answer comes at once: none waits for the search.
  async sought() {
    const bar = h("progress", { "aria-label": "Photos compared" });
    const far = h("span", { class: "quiet" });
    fill(this.element, h("div", { class: "empty" }, h("h1", {}, "Groups"), h("p", {}, "Comparing all photos with each other, once: seconds for thousands of them, minutes for a hundred thousand."), bar, far));
    try {
      for (let wait = POLLED[0]; ; wait = Math.min(2 * wait, POLLED[1])) {
        const { found, sections, done, of } = await get("/studio/groups");
        if (found) return sections;
        if (of) {
          bar.max = of;
          bar.value = done;
          far.textContent = done < of ? `${thousands(done)} of ${thousands(of)} photos` : "Putting them into groups";
        }
        await new Promise((waited) => setTimeout(waited, wait));
        if (state.view !== "groups") return null; // asked again when it is opened again
      }
    } finally {
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
        "data-part": section.part,
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
    return h("section", { class: SIDE_BY_SIDE.includes(part.part) ? "group side" : "group" }, h("h2", {}, group.title, part.part === "clusters" ? h("small", {}, ` ${group.photos} photos`) : ""), list, unlisted(group));
  }

  finding(part, found) {
    return h(
      "li",
      { class: `tile finding ${found.action}`, "data-photo": found.photo },
      h("a", { class: "picture", href: address(searchLike(found.name)), title: found.name, onclick: (event) => { event.preventDefault(); go(searchLike(found.name)); } }, small(found.photo, `Photos like ${found.name}`)),
      box(found),
      looking(found),
      found.action && h("span", { class: "badge" }, found.action),
      h("p", { class: "quiet" }, found.cosine === null ? "" : h("b", {}, `${found.cosine.toFixed(3)} `), found.why || found.name),
    );
  }

  // Of the part that is shown: others suggest theirs where they stand.
  suggested() {
    return this.part.groups.flatMap((group) => group.findings.filter((found) => found.action === "remove").map((found) => found.photo));
  }

  suggestion() {
    const some = this.suggested();
    if (!some.length) return null;
    const text = `Select the ${some.length === 1 ? "one" : thousands(some.length)} suggested for removal`;
    return h("p", { class: "actions" }, h("button", { type: "button", onclick: () => choose(some) }, text), h("span", { class: "quiet" }, "Nothing is deleted or changed here: selected photos can be exported."));
  }
}

// What of a very large group neither stands here nor is exported.
function unlisted(group) {
  if (!group.unlisted) return null;
  return h("p", { class: "quiet" }, `The first ${thousands(group.findings.length)} of ${thousands(group.photos)} photos are listed here and exported; `, h("code", {}, "nonneg curate"), " lists all.");
}
