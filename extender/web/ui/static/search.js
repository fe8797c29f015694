// Finds machines, groups, virtual clusters, and pods by a part of their name: pods are asked for, all else is here. Arrow
// keys choose among what is found, Enter goes there.

import { byId, element, number } from "./dom.js";
import { ask } from "./feed.js";

const SHOWN = 8;
const WAIT = 150;

export class Search {
  constructor(world, leads) {
    Object.assign(this, { world, leads, found: [], at: 0, asked: 0 });
    this.input = byId("find");
    this.list = byId("results");
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("focus", () => this.input.value && this.look());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.show(false));
    byId("search").addEventListener("submit", (event) => (event.preventDefault(), this.go(this.at)));
  }

  async look() {
    const part = this.input.value.trim().toLowerCase();
    const own = ++this.asked;
    this.at = 0;
    this.take(part ? this.here(part) : [], part);
    if (!part) return this.leads.onTenant("");
    await new Promise((done) => setTimeout(done, WAIT));
    if (own !== this.asked) return undefined;
    const pods = await this.pods(part).catch(() => []);
    if (own === this.asked) this.take([...this.found, ...pods], part);
    return undefined;
  }

  here(part) {
    const { world, leads } = this;
    const found = [];
    const add = (name, kind, go) => name.toLowerCase().includes(part) && found.push({ name, kind, go });
    for (const { name } of world.tenants) add(name, "virtual cluster", () => leads.onTenant(name));
    for (const forest of world.forests) {
      const kind = world.isNodes ? "node" : "machine";
      forest.machines.forEach((machine, index) => add(Array.isArray(machine) ? machine[0] : machine, kind, () => leads.onCell({ forest, level: forest.machineLevel, index })));
      for (const [level, names] of Object.entries(forest.above)) names.forEach((name, index) => add(name, forest.levels[level - 1].type, () => leads.onCell({ forest, level: Number(level), index })));
    }
    world.devicesOf("");
    for (const name of world.groups?.keys() || []) add(name, "group", () => leads.onGroup(name));
    for (const group of world.waiting) if (!world.groups?.has(group.name)) add(group.name, "waiting", () => leads.onWaiting(group));
    for (const name of world.owners.keys()) add(name, "namespace", () => leads.onNamespace(name));
    found.sort((a, b) => a.name.length - b.name.length || (a.name < b.name ? -1 : 1));
    const more = found.length - SHOWN;
    const rest = more > 0 ? [{ name: `and ${number(more)} more: write a longer part of the name`, kind: "", go: null }] : [];
    return [...found.slice(0, SHOWN), ...rest];
  }

  async pods(part) {
    const { items, matching } = await ask(`v1/inspect/table/pods?limit=${SHOWN}&find=${encodeURIComponent(part.slice(0, 200))}`);
    const found = items.map(({ namespace, name, state }) => ({ name: `${namespace}/${name}`, kind: `pod, ${state.toLowerCase()}`, go: () => this.leads.onPod(namespace, name) }));
    return matching > found.length ? [...found, { name: `all ${number(matching)} pods`, kind: "table", go: () => this.leads.onPods(part) }] : found;
  }

  take(found, part) {
    this.found = found;
    this.at = Math.max(0, Math.min(this.at, found.length - 1));
    const option = ({ name, kind, go }, i) => element("li", { id: `result-${i}`, role: "option", "aria-selected": String(i === this.at), "aria-disabled": go ? undefined : "true", onpointerdown: (event) => (event.preventDefault(), this.go(i)) }, element("span", { class: "name" }, name), element("span", { class: "kind" }, kind));
    this.list.replaceChildren(...found.map(option));
    byId("found").textContent = part && !found.length ? "nothing" : "";
    this.show(found.length > 0);
  }

  show(open) {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
    if (open) this.input.setAttribute("aria-activedescendant", `result-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === "Escape") return this.show(false);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !this.found.length) return undefined;
    event.preventDefault();
    this.at = (this.at + step + this.found.length) % this.found.length;
    [...this.list.children].forEach((each, i) => each.setAttribute("aria-selected", String(i === this.at)));
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
    return this.show(true);
  }

  go(index) {
    const { go } = this.found[index] || {};
    if (!go) return;
    this.show(false);
    go();
  }
}
