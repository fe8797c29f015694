// What is known of the cell, group or node that was chosen.

import { advice } from "./advice.js";
import { byId, element, facts, link, number } from "./dom.js";
import { explained } from "./explain.js";
import { ask } from "./feed.js";
import { priorityText } from "./map.js";
import { share } from "./nodes.js";
import { above, addressOf, firstLeaf, machineOf, ownName, virtualAddress } from "./world.js";

const LONGEST = 60;

export class Selection {
  constructor({ world, onCell, onGroup }) {
    Object.assign(this, { world, onCell, onGroup, shown: null, asked: 0 });
    this.root = byId("selection");
    this.update();
  }

  show(shown) {
    this.shown = shown;
    this.told = null;
    this.update();
    this.tellMore();
  }

  update() {
    const { cell, group } = this.shown || {};
    if (group) this.fill(group, this.group(group));
    else if (cell && this.world.isNodes) this.fill(cell.forest.nodes[cell.index].name, this.node(cell.forest.nodes[cell.index]));
    else if (cell) this.fill(addressOf(cell), this.cell(cell));
    else this.fill("", element("p", { class: "hint" }, "Select something on the map to see what it is, whose it is, and what runs there."));
  }

  // Text that is the same is not written again: nobody's selection of it is lost, and nothing is read out twice.
  fill(title, ...content) {
    const made = element("div", {}, ...(title ? [element("h2", {}, title)] : []), ...content.flat(), ...(this.told || []));
    if (this.root.firstElementChild?.innerHTML !== made.innerHTML || this.was !== this.shown) this.root.replaceChildren(made);
    this.was = this.shown;
  }

  // -- cells ------------------------------------------------------------------------------------------------------

  cell(cell) {
    const type = cell.forest.levels[cell.level - 1].type;
    const outer = above(cell);
    const head = [
      ["type", `${type}${cell.level === cell.forest.machineLevel ? " (machine)" : ""} in ${cell.forest.name}`],
      ["part of", outer ? link(addressOf(outer), () => this.onCell(outer)) : ""],
      ["machine", cell.level < cell.forest.machineLevel ? ownName(machineOf(cell)) : ""],
    ];
    return facts([...head, ...(cell.level === 1 ? this.device(cell) : this.many(cell)), ["pinned", this.pinnedAt(cell)]]);
  }

  device({ forest, index }) {
    const kind = this.world.kindAt(forest, index);
    const promise = this.world.promiseAt(forest, index);
    const bound = promise && (promise.number >= 0 ? virtualAddress(promise.cell, promise.number) : promise.cell.address);
    return [
      ["state", `${kind.state}${kind.state === "Free" ? "" : `, ${priorityText(kind.priority)}`}`],
      ["health", kind.healthy ? "healthy" : "bad"],
      ["used by", kind.group ? [link(kind.group, () => this.onGroup(kind.group)), ` (${kind.tenant})`] : ""],
      ["waits for it", kind.waiter ? [link(kind.waiter, () => this.onGroup(kind.waiter)), ` (${kind.waiterTenant})`] : ""],
      ["promised to", kind.owner],
      ["virtual cell", bound],
    ];
  }

  many(cell) {
    const { leafs, used, bad, reserved, tenants, owners } = this.world.count(cell);
    const each = (found) => [...found].sort(([, a], [, b]) => b - a).map(([name, count]) => `${name} ${number(count)}`).join(", ");
    const promises = this.promisesIn(cell, leafs);
    return [
      ["devices", `${number(leafs)}: ${number(used)} used, ${number(leafs - used)} free${reserved ? `, ${number(reserved)} reserved` : ""}`],
      ["health", bad ? `${number(bad)} bad` : "healthy"],
      ["used by", each(tenants)],
      ["promised to", each(owners)],
      ["virtual cells", promises],
    ];
  }

  promisesIn(cell, size) {
    const first = firstLeaf(cell);
    const found = this.world.tenants.flatMap(({ cells }) => cells).filter((each) => each.forest === cell.forest && each.first >= 0 && each.first < first + size && first < each.first + each.size);
    const shown = found.slice(0, 12).map(({ address }) => address).join(", ");
    return found.length > 12 ? `${shown} and ${number(found.length - 12)} more` : shown;
  }

  pinnedAt(cell) {
    const first = firstLeaf(cell);
    const size = cell.forest.levels[cell.level - 1].leafs;
    const number = this.world.forests.indexOf(cell.forest);
    return this.world.pinned.filter(([, chain, begin, count]) => chain === number && begin < first + size && first < begin + count).map(([id]) => id).join(", ");
  }

  // -- groups -----------------------------------------------------------------------------------------------------

  group(name) {
    const devices = this.world.devicesOf(name);
    const machines = new Map(devices.map(([forest, index]) => machineOf({ forest, level: 1, index })).map((machine) => [addressOf(machine), machine]));
    if (!devices.length) return facts([["devices", "none: it waits, or is gone"]]);
    const [[forest, index]] = devices;
    const kind = this.world.kindAt(forest, index);
    const waits = kind.group !== name;
    const shown = [...machines].slice(0, 24).flatMap(([, machine], i) => [i ? ", " : "", link(ownName(machine), () => this.onCell(machine))]);
    return facts([
      ["virtual cluster", waits ? kind.waiterTenant : kind.tenant],
      ["priority", priorityText(kind.priority)],
      ["devices", `${number(devices.length)} on ${number(machines.size)} machine${machines.size === 1 ? "" : "s"}${waits ? ", which it waits for" : ""}`],
      ["machines", machines.size > 24 ? [...shown, ` and ${number(machines.size - 24)} more`] : shown],
    ]);
  }

  // -- nodes ------------------------------------------------------------------------------------------------------

  node(node) {
    const health = !node.known ? "no such node exists, but pods are bound to it" : !node.ready ? "not ready" : node.cordoned ? "cordoned" : "ready";
    const room = Object.entries(node.room).filter(([, [, there]]) => there > 0);
    return facts([["zone", node.zone], ["health", health], ["pods", number(node.pods)], ...room.filter(([name]) => name !== "pods").map(([name, [taken, there]]) => [name, share(name, taken, there)])]);
  }

  // -- what the server says when it is asked ----------------------------------------------------------------------------

  async tellMore() {
    const { cell, group } = this.shown || {};
    const asked = ++this.asked;
    const waits = group && this.world.waiting.find(({ name }) => name === group);
    const known = group && this.world.devicesOf(group).length;
    const wanted = waits ? this.askWaiting(waits) : known ? this.askGroup(group) : cell && this.world.isNodes ? this.askNode(cell.forest.nodes[cell.index].name) : null;
    if (!wanted) return;
    const told = await wanted.catch((error) => [element("p", { class: "hint" }, error.message)]);
    if (asked !== this.asked) return;
    this.told = told;
    this.update();
  }

  async askGroup(name) {
    const { status } = await ask("v1/inspect/affinitygroups/" + name.split("/").map(encodeURIComponent).join("/"));
    return [
      facts([
        ["state", status.state],
        ["lost its quota to", status.lazyPreemptionStatus?.preemptor],
        ["lost it at", status.lazyPreemptionStatus?.preemptionTime],
        ["pods", status.allocatedPods && `${number(status.allocatedPods.length)} running`],
        ["preempting", status.preemptingPods && `${number(status.preemptingPods.length)} pods wait`],
        ["virtual cells", Object.keys(status.virtualPlacement || {}).slice(0, LONGEST).join(", ")],
      ]),
    ];
  }

  async askWaiting(group) {
    const { advice: sentences, reason } = await explained(group.namespace, group.example);
    return advice(this.world, sentences.length ? sentences : [reason?.text || ""], this.onGroup);
  }

  async askNode(name) {
    const { items } = await ask("v1/inspect/cache?node=" + encodeURIComponent(name));
    const names = items.map((pod) => `${pod.namespace}/${pod.name}`);
    const more = names.length > LONGEST ? ` and ${number(names.length - LONGEST)} more` : "";
    return [facts([["who", names.slice(0, LONGEST).join(", ") + more]])];
  }
}

// What is said beside the pointer.
export function tipOf(world, cell) {
  if (world.isNodes) return tipOfNode(cell.forest.nodes[cell.index]);
  const lines = [addressOf(cell)];
  if (cell.level > 1) {
    const { leafs, used, bad, reserved } = world.count(cell);
    lines.push(`${cell.forest.levels[cell.level - 1].type}: ${number(used)} of ${number(leafs)} devices used`);
    if (reserved) lines.push(`${number(reserved)} reserved by somebody who preempts`);
    if (bad) lines.push(`${number(bad)} bad`);
    return lines;
  }
  const { state, priority, healthy, tenant, group, waiter, waiterTenant, owner } = world.kindAt(cell.forest, cell.index);
  lines.push(state === "Free" ? "free" : `${state}, ${priorityText(priority)}`);
  if (group) lines.push(`${group} of ${tenant}`);
  if (waiter) lines.push(`${waiter} of ${waiterTenant} waits for it`);
  if (owner && owner !== tenant) lines.push(`promised to ${owner}`);
  if (!healthy) lines.push("bad hardware");
  return lines;
}

function tipOfNode(node) {
  const room = Object.entries(node.room).filter(([name, [, there]]) => there > 0 && name !== "pods" && name !== "ephemeral-storage");
  const health = node.known ? (node.ready ? (node.cordoned ? "cordoned" : "") : "not ready") : "no such node";
  return [node.name, ...room.map(([name, [taken, there]]) => `${name}: ${share(name, taken, there)}`), `pods: ${number(node.pods)}`, health].filter(Boolean);
}
