// Who preempted whom: the latest first. The server keeps those of its process, at most a hundred are shown.

import { get, onChange, set } from "./address.js";
import { age, byId, element, keyed, number } from "./dom.js";
import { badge, podLink } from "./lists.js";
import { priorityText } from "./map.js";

const VICTIMS = 12;

export class Preemptions {
  constructor(world) {
    this.world = world;
    this.root = byId("view-preemptions");
    this.find = element("input", { id: "preemptions-find", type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", oninput: () => set({ find: this.find.value.trim() }) });
    this.list = element("ol", { class: "cards" });
    this.none = element("p", { class: "none" });
    const filters = element("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, element("p", { class: "field" }, element("label", { for: "preemptions-find" }, "Find"), this.find));
    const note = element("p", { class: "hint" }, "Pods that had to go so that others can run, since this server started.");
    this.root.append(element("h2", {}, "Preemptions"), note, filters, this.list, this.none);
    onChange(() => this.update());
  }

  update() {
    const { preemptions } = this.world;
    byId("preemptions-count").textContent = number(preemptions.length);
    if (get("view") !== "preemptions") return;
    if (document.activeElement !== this.find) this.find.value = get("find");
    const part = get("find").toLowerCase();
    const found = preemptions.filter((each) => !part || names(each).toLowerCase().includes(part));
    keyed(this.list, found, ({ at, namespace, pod }) => `${at}/${namespace}/${pod}`, () => new Card(this.world));
    this.none.hidden = found.length > 0;
    this.none.textContent = preemptions.length ? "Nothing matches this filter." : "No pod was preempted so far.";
  }
}

const names = ({ namespace, name, victims }) => [`${namespace}/${name}`, ...victims.map(([space, victim, node]) => `${space}/${victim} ${node}`)].join("\n");

class Card {
  constructor(world) {
    this.world = world;
    this.say = (priority) => (world.isNodes ? `priority ${number(priority)}` : priorityText(priority));
    this.root = element("li", { class: "card" });
  }

  update(each) {
    const { at, namespace, name, pod, pods, priority, outcome, victims, number: all, gone } = each;
    const when = element("time", { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toLocaleString() }, `${age(Math.max(0, Math.round((this.world.now || Date.now() / 1000) - at)))} ago`);
    const who = [podLink(namespace, pod, `${namespace}/${name}`), pods > 1 && ` (${number(pods)} pods)`, ` ${this.say(priority)}`];
    const head = element("p", { class: "card-head" }, when, " ", badge(outcome, outcome.replaceAll(" ", "-")), element("strong", {}, ...who.filter(Boolean)));
    const shown = victims.slice(0, VICTIMS).map((victim) => element("li", {}, ...told(victim, this.say)));
    if (all > shown.length) shown.push(element("li", {}, `and ${number(all - shown.length)} more`));
    const summary = element("p", { class: "code" }, `preempted ${number(all)} pod${all === 1 ? "" : "s"}${gone === all ? "" : `, ${number(all - gone)} still there`}:`);
    const made = element("div", {}, head, summary, element("ul", { class: "victims" }, ...shown));
    if (this.root.innerHTML !== made.innerHTML) this.root.replaceChildren(...made.childNodes);
  }
}

const told = ([namespace, name, node, priority, gone], say) => [name ? `${namespace}/${name}` : "a pod that was unknown", element("span", { class: "code" }, ` on ${node}, ${say(priority)}, ${gone ? "gone" : "still there"}`)];
