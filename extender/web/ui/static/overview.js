// The totals, each with the last hour as a small picture where it is known.

import { byId, element, keyed, number } from "./dom.js";
import { amount, unit } from "./nodes.js";
import { spark } from "./spark.js";

const PAUSE = 90;

export class Overview {
  constructor(world) {
    this.world = world;
    this.root = byId("totals");
  }

  // `resource` is the one that the map shows, where it shows nodes.
  update(resource) {
    const tiles = this.world.algorithm ? [...(this.world.isNodes ? this.nodes(resource) : this.cells()), ...this.pods()] : [...this.pools(), ...this.vpods()];
    keyed(this.root, tiles, ({ key }) => key, () => new Tile());
  }

  nodes(resource) {
    const nodes = this.world.forests.flatMap((forest) => forest.nodes);
    const bad = nodes.filter(({ ready }) => !ready).length;
    const [taken, there] = this.world.total(resource);
    const past = this.past((sample) => sample[5][resource]?.[0]);
    const say = (value) => amount(resource, value, there);
    const used = { key: "used", name: `${resource} used${unit(resource, there) && `,${unit(resource, there)}`}`, value: taken, of: there, past, say };
    return [...(resource ? [used] : []), { key: "nodes", name: "nodes", value: nodes.length, note: bad ? `${number(bad)} not ready` : "", bad }];
  }

  cells() {
    const { forests, kinds } = this.world;
    const sum = (test) => forests.reduce((total, { kind }) => total + kind.reduce((count, each) => count + test(kinds[each]), 0), 0);
    const [devices, used, bad] = [() => 1, ({ state }) => +(state === "Used" || state === "Reserving"), ({ healthy }) => +!healthy].map(sum);
    const machines = forests.reduce((total, forest) => total + forest.machines.length, 0);
    return [
      { key: "used", name: "devices used", value: used, of: devices, past: this.past((sample) => sample[4]), note: bad ? `${number(bad)} bad` : "", bad },
      { key: "nodes", name: "machines", value: machines },
    ];
  }

  pods() {
    const { history, isNodes, forests, assumed, waitingPods, waitingGroups } = this.world;
    const counted = isNodes ? forests.flatMap(({ nodes }) => nodes).reduce((sum, { pods }) => sum + pods, -assumed) : null;
    const running = counted ?? (history.length ? history.at(-1)[1] : null);
    return [
      ...(running === null ? [] : [{ key: "running", name: "pods running", value: running, past: this.past((sample) => sample[1]) }]),
      { key: "waiting", name: "pods waiting", value: waitingPods, note: waitingGroups ? `${number(waitingGroups)} group${waitingGroups === 1 ? "" : "s"}` : "", past: this.past((sample) => sample[2] + sample[3]) },
    ];
  }

  // Where there is no cluster to show.
  pools() {
    if (!this.world.poolTotals) return [];
    const [idle, claimed, coming, waiting] = this.world.poolTotals;
    return [
      { key: "idle", name: "pods idle", value: idle, note: coming ? `${number(coming)} not ready yet` : "" },
      { key: "claimed", name: "pods claimed", value: claimed },
      { key: "pending", name: "requests waiting", value: waiting },
    ];
  }

  vpods() {
    if (!this.world.vpodTotals) return [];
    const [placed, pending, free] = this.world.vpodTotals;
    return [
      { key: "placed", name: "vreplicas placed", value: placed, note: pending ? `${number(pending)} pending` : "", bad: pending },
      { key: "free", name: "vreplicas free", value: free },
    ];
  }

  // [seconds, value] of each sample that has the value.
  past(read) {
    return this.world.history.map((sample) => [sample[0], read(sample)]).filter(([, value]) => value !== undefined);
  }
}

class Tile {
  constructor() {
    this.name = element("dt");
    this.value = element("b");
    this.of = element("span", { class: "of" });
    this.note = element("span", { class: "note" });
    this.picture = element("div", { class: "past" });
    this.root = element("div", { class: "tile" }, this.name, element("dd", {}, element("span", { class: "figure" }, this.value, this.of, this.note), this.picture));
  }

  update({ name, value, of, note = "", bad = 0, past = [], say = number }) {
    put(this.name, name);
    put(this.value, say(value));
    put(this.of, of === undefined ? "" : ` of ${say(of)}${of ? ` · ${Math.floor((100 * value) / of)}\u00a0%` : ""}`);
    put(this.note, note && ` ${note}`);
    this.note.classList.toggle("bad", Boolean(bad));
    const key = JSON.stringify([past, value, of]);
    if (key === this.drawn) return;
    this.drawn = key;
    const now = past.length ? [[past.at(-1)[0] + PAUSE / 3, value]] : [];
    this.picture.replaceChildren(...[spark([...past, ...now], { name, most: of || 0, say })].filter(Boolean));
  }
}

// Text that is the same is not written again: a selection of it stays.
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
