// Who waits and why: one line for each group, and on request all that is known of one of its pods. What is open is asked
// about again only after a while, if something has changed.

import { byId, element, keyed, link, number } from "./dom.js";
import { explained, explanation, jsonLink } from "./explain.js";

const AGES = { 0: "under a minute", 60: "over a minute", 600: "over 10 minutes", 3600: "over an hour", 21600: "over 6 hours", 86400: "over a day", 604800: "over a week" };
const SHOWN = 300;
const AGAIN = 10000;

export class WaitingList {
  constructor({ world, onGroup, onWait }) {
    Object.assign(this, { world, onGroup, onWait });
    this.root = byId("waiting");
    this.none = element("p", { class: "none" }, "Nobody waits.");
    this.rest = element("p", { class: "none" });
  }

  update() {
    const { waiting, waitingGroups } = this.world;
    byId("waiting-count").textContent = number(waitingGroups);
    const sorted = [...waiting].sort((a, b) => b.preempting - a.preempting || b.age - a.age || b.priority - a.priority || (key(a) < key(b) ? -1 : 1));
    this.none.remove();
    this.rest.remove();
    keyed(this.root, sorted.slice(0, SHOWN), key, (group) => new Line(this, group));
    if (!waitingGroups) this.root.append(this.none);
    this.rest.textContent = `and ${number(waitingGroups - SHOWN)} more`;
    if (waitingGroups > SHOWN) this.root.append(this.rest);
  }

  // Opens a group's line and goes there.
  open(group) {
    const line = this.root.known?.get(key(group));
    if (!line) return;
    if (line.more.hidden) line.toggle();
    line.head.scrollIntoView({ block: "nearest" });
    line.head.focus();
  }
}

const key = ({ namespace, name }) => `${namespace}\u0000${name}`;

class Line {
  constructor(list, group) {
    Object.assign(this, { list });
    this.side = element("span", { class: "side" });
    this.code = element("div", { class: "code" });
    this.text = element("div", { class: "text" });
    this.more = element("div", { class: "more", "aria-live": "polite" });
    this.more.hidden = true;
    const name = group.name.startsWith(group.namespace + "/") ? group.name : `${group.namespace}/${group.name}`;
    this.head = element("button", { type: "button", "aria-expanded": "false", onclick: () => this.toggle() }, element("span", { class: "row" }, element("span", { class: "name", title: name }, name), this.side), this.code);
    this.root = element("div", { class: "item" }, this.head, this.text, this.more);
  }

  update(group) {
    this.group = group;
    this.side.textContent = `${number(group.pods)} pod${group.pods === 1 ? "" : "s"}`;
    this.code.textContent = `${group.code} · ${AGES[group.age]}${group.preempting ? " · preempting" : ""}`;
    this.text.textContent = group.text;
    if (!this.more.hidden && performance.now() - this.asked > AGAIN) this.ask();
  }

  async toggle() {
    this.more.hidden = !this.more.hidden;
    this.head.setAttribute("aria-expanded", String(!this.more.hidden));
    this.root.classList.toggle("open", !this.more.hidden);
    if (this.more.hidden) return;
    this.list.onWait(this.group.name);
    this.more.replaceChildren("asking …");
    this.ask();
  }

  async ask() {
    this.asked = Infinity;
    try {
      this.explain(await explained(this.group.namespace, this.group.example));
    } catch (error) {
      this.more.replaceChildren(error.message);
    }
    this.asked = performance.now();
  }

  explain(known) {
    const { world, onGroup } = this.list;
    const { namespace, example } = this.group;
    const again = element("p", { class: "actions" }, link("ask again", () => this.ask()), " · ", jsonLink(namespace, example));
    const told = element("div", {}, ...explanation(world, known, { onGroup }), again);
    // What is the same is not written again: it would be read out again, and a selection of it would be lost.
    if (this.more.firstElementChild?.innerHTML !== told.innerHTML) this.more.replaceChildren(told);
  }
}
