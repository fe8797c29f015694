// The pools of warm pods: idle and claimed pods, the speed of answers, waiting requests and why. `find` in the address filters.

import { get, onChange, set } from "./address.js";
import { age, byId, drawing, element, facts, keyed, number } from "./dom.js";
import { spark } from "./spark.js";

const MINUTES = 600;
const OVER = "the last ten minutes";
// The pods of a pool, each counted once: field, name.
const PARTS = [["idle", "idle"], ["claimed", "claimed"], ["coming", "not ready yet"], ["leaving", "leaving"]];
const PAST = [["idle", 1], ["claimed", 2], ["requests waiting", 4]];

export class Pools {
  constructor(world) {
    this.world = world;
    this.root = byId("view-pools");
    this.find = element("input", { id: "pools-find", type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", oninput: () => set({ find: this.find.value.trim() }) });
    this.list = element("ol", { class: "pools" });
    this.none = element("p", { class: "none" });
    this.note = element("p", { class: "hint" });
    const filters = element("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, element("p", { class: "field" }, element("label", { for: "pools-find" }, "Find"), this.find));
    this.root.append(element("h2", {}, "Pools of warm pods"), filters, this.note, this.list, this.none);
    onChange(() => this.update());
  }

  update() {
    const { pools, poolCount, poolsUnknown } = this.world;
    byId("pools-count").textContent = number(poolCount);
    if (this.root.hidden) return;
    if (document.activeElement !== this.find) this.find.value = get("find");
    const part = get("find").toLowerCase();
    const found = pools.filter(({ namespace, name, tenants }) => !part || [`${namespace}/${name}`, ...tenants.map(([tenant]) => tenant)].some((text) => text.toLowerCase().includes(part)));
    keyed(this.list, found, ({ namespace, name }) => `${namespace}/${name}`, () => new Card());
    const left = poolCount - pools.length;
    const notes = [left > 0 && `${number(left)} less busy pools are not shown.`, poolsUnknown > 0 && `The pods of ${number(poolsUnknown)} pool${poolsUnknown === 1 ? "" : "s"} are not known yet.`];
    this.note.textContent = notes.filter(Boolean).join(" ");
    this.none.hidden = found.length > 0;
    this.none.textContent = pools.length ? "Nothing matches this filter." : "No pool is served.";
  }
}

class Card {
  constructor() {
    this.root = element("li", { class: "pool" });
  }

  update(pool) {
    const key = JSON.stringify(pool);
    if (key === this.drawn) return;
    this.drawn = key;
    this.root.replaceChildren(...shown(pool));
  }
}

function shown(pool) {
  const { namespace, name, mode, pending, waits } = pool;
  const head = element("div", { class: "pool-head" }, element("h3", {}, `${namespace}/${name}`), element("span", { class: "badge" }, mode), pending > 0 && element("span", { class: "badge waiting" }, `${number(pending)} waiting`));
  return [head, bar(pool), figures(pool), waits && element("p", { class: "waits" }, `The oldest request waits: ${waits}.`), past(pool), speed(pool), queue(pool)].filter(Boolean);
}

function bar(pool) {
  const all = PARTS.reduce((sum, [field]) => sum + pool[field], 0);
  const label = PARTS.map(([field, name]) => `${number(pool[field])} ${name}`).join(", ");
  const picture = drawing("svg", { viewBox: `0 0 ${all || 1} 1`, preserveAspectRatio: "none", role: "img", "aria-label": `Pods: ${label}`, class: "pool-bar" });
  let at = 0;
  for (const [field] of PARTS) {
    picture.append(drawing("rect", { class: field, x: at, y: 0, width: pool[field], height: 1 }));
    at += pool[field];
  }
  return picture;
}

const figures = (pool) => element("p", { class: "figures" }, ...PARTS.map(([field, name]) => element("span", {}, element("span", { class: `key ${field}`, "aria-hidden": "true" }), element("b", {}, number(pool[field])), ` ${name}`)));

function past({ past: samples }) {
  const graphs = PAST.map(([name, place]) => [name, spark(samples.map((sample) => [sample[0], sample[place]]), { name, span: MINUTES, over: OVER })]);
  if (graphs.some(([, graph]) => !graph)) return null;
  return element("div", { class: "pool-past" }, ...graphs.map(([name, graph]) => element("div", {}, element("span", { class: "name" }, name), graph)));
}

function speed({ answers, p50, p99, accepted, succeeded, pending, failed, refused }) {
  const took = (value) => (value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`);
  return facts([
    ["Answers", answers ? `half within ${took(p50)}, 99 % within ${took(p99)}: ${number(answers)} claims in the last minute` : "no claim in the last minute"],
    ["Requests", `${number(accepted)} = ${number(succeeded)} claimed + ${number(total(failed))} failed + ${number(pending)} waiting`],
    ["Failed", codes(failed)],
    ["Refused", codes(refused)],
  ]);
}

const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);
const codes = (counts) => Object.entries(counts).map(([code, count]) => `${code} ${number(count)}`).join(", ");

function queue({ tenants, tenantCount }) {
  const known = tenants.filter(([, waiting, , pods]) => waiting || pods);
  if (!known.length) return null;
  const cell = (text) => element("td", { class: "number" }, text);
  const row = ([tenant, waiting, oldest, pods]) => element("tr", {}, element("th", { scope: "row" }, tenant || "(none)"), cell(number(pods)), cell(number(waiting)), cell(waiting ? age(oldest) : ""));
  const heads = ["Tenant", "Pods", "Waiting", "Longest"].map((name, place) => element("th", { scope: "col", class: place ? "number" : undefined }, name));
  const more = tenantCount > tenants.length && element("p", { class: "hint" }, `and ${number(tenantCount - tenants.length)} more tenants`);
  return element("div", {}, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...known.map(row))), more || "");
}
