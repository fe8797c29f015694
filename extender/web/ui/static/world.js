// What is known of the cluster, decoded from the pieces of /v1/inspect/map (docs/web-page.md has their fields).
//
// Hardware is a list of forests. In a forest all cells of a level look alike: level 1 are the leafs (devices, or nodes
// where the algorithm has no cells), and the cell number i of a level consists of the cells i*fanout... below it. So a
// cell is three numbers, {forest, level, index}, and needs no object.

export const OPPORTUNISTIC = -1;
const FREE = { state: "Free", priority: -2, healthy: true, tenant: "", group: "", waiterTenant: "", waiter: "", owner: "" };

export class World {
  constructor() {
    this.forests = [];
    this.shape = [];
    this.tenants = [];
    this.waiting = [];
    this.clear();
  }

  clear() {
    Object.assign(this, { kinds: [], algorithm: "", waitingGroups: 0, waitingPods: 0, assumed: 0, isNodes: false, resources: [], history: [], preemptions: [], pools: [], poolTotals: null, poolCount: 0, poolsUnknown: 0, vpodSets: [], vpodTotals: null, vpodSetCount: 0, plans: false, replay: "", unknown: "", now: 0, owners: new Map() });
  }

  // True if there is other hardware than before.
  update(pieces) {
    this.clear();
    const named = (key) => pieces.filter((piece) => key in piece);
    Object.assign(this, pieces[0], ...named("waitingGroups"), ...named("history"), ...named("assumed"), ...named("preemptions"), ...named("poolCount"), ...named("vpodSetCount"));
    this.pools = named("pool").map((piece) => piece.pool);
    this.vpodSets = named("vpodSet").map(({ vpodSet }) => ({ ...vpodSet, key: `${vpodSet.namespace}/${vpodSet.name}`, rows: [] }));
    const sets = new Map(this.vpodSets.map((set) => [set.key, set]));
    for (const { vpodRows, of } of named("vpodRows")) sets.get(of)?.rows.push(...vpodRows);
    this.waiting = named("waiting").flatMap((piece) => piece.waiting);
    this.isNodes = !pieces.some((piece) => "chains" in piece);
    const changed = this.isNodes ? this.takeNodes(named("nodes").flatMap((piece) => piece.nodes)) : this.takeCells(pieces, named);
    this.groups = null;
    return changed;
  }

  // -- cells ----------------------------------------------------------------------------------------------------

  takeCells(pieces, named) {
    const [shape] = named("chains");
    const machines = named("machines");
    const changed = this.reshape([shape, ...machines], () => shape.chains.map((chain, number) => forestOf(chain, number, machines)));
    [{ pinned: this.pinned }] = named("pinned");
    this.takeDevices(named("devices"));
    this.takePromises(named("tenant"));
    return changed;
  }

  reshape(shape, make) {
    if (shape.length === this.shape.length && shape.every((part, i) => part === this.shape[i])) return false;
    this.shape = shape;
    this.forests = make();
    return true;
  }

  takeDevices(parts) {
    const known = new Map();
    const filled = this.forests.map(() => 0);
    for (const part of parts) {
      const numbers = part.kinds.map((kind) => {
        const key = kind.join("\u0000");
        if (!known.has(key)) known.set(key, known.size);
        const number = known.get(key);
        this.kinds[number] ||= kindOf(kind);
        return number;
      });
      const { kind } = this.forests[part.chain];
      let at = filled[part.chain];
      for (const device of part.devices) kind[at++] = numbers[device];
      filled[part.chain] = at;
    }
  }

  takePromises(parts) {
    const tenants = new Map();
    for (const { tenant, cells } of parts) {
      if (!tenants.has(tenant)) tenants.set(tenant, { name: tenant, cells: [], guaranteed: 0, used: 0, borrowed: 0, bad: 0 });
      const found = tenants.get(tenant);
      for (const cell of cells) this.takePromise(found, cell);
    }
    for (const forest of this.forests)
      for (const number of forest.kind) {
        const { tenant, priority, state } = this.kinds[number];
        if (priority === OPPORTUNISTIC && state !== "Free" && tenants.has(tenant)) tenants.get(tenant).borrowed += 1;
      }
    this.tenants = [...tenants.values()];
  }

  takePromise(tenant, [address, chain, level, pinned, used, priority, first, leafs]) {
    const forest = this.forests[chain];
    const size = forest.levels[level - 1].leafs;
    const cell = { tenant: tenant.name, address, forest, level, pinned, used, priority, first, leafs, size, bad: false };
    if (first >= 0) for (let i = first; i < first + size; i++) cell.bad ||= !this.kinds[forest.kind[i]].healthy;
    tenant.cells.push(cell);
    tenant.guaranteed += size;
    tenant.used += used;
    tenant.bad += cell.bad ? size : 0;
  }

  // -- nodes ----------------------------------------------------------------------------------------------------

  takeNodes(nodes) {
    const zones = new Map();
    for (const node of nodes) zones.get(node.zone)?.push(node) ?? zones.set(node.zone, [node]);
    const sorted = [...zones].sort(([a], [b]) => (a < b ? -1 : 1));
    const shape = sorted.flatMap(([zone, there]) => [zone, ...there.map((node) => node.name), there.length]);
    const changed = this.reshape(shape, () => sorted.map(([zone, there]) => zoneOf(zone, there)));
    sorted.forEach(([, there], number) => (this.forests[number].nodes = there));
    this.tenants = [];
    this.pinned = [];
    this.resources = resourcesOf(nodes);
    this.takeOwners(nodes);
    return changed;
  }

  // What each namespace takes, by resource.
  takeOwners(nodes) {
    for (const { owners } of nodes)
      for (const [owner, amounts] of owners) {
        if (!this.owners.has(owner)) this.owners.set(owner, {});
        const found = this.owners.get(owner);
        for (const [resource, amount] of Object.entries(amounts)) found[resource] = (found[resource] || 0) + amount;
      }
  }

  // -- questions --------------------------------------------------------------------------------------------------

  // What is taken of a resource on all nodes, and what there is.
  total(resource) {
    const rooms = this.forests.flatMap(({ nodes }) => nodes || []).map(({ room }) => room[resource] || [0, 0]);
    return rooms.reduce(([taken, there], [more, besides]) => [taken + more, there + besides], [0, 0]);
  }

  // The cell with this address; null if there is none.
  cellNamed(address) {
    for (const forest of this.forests) {
      for (let index = 0; index < forest.count; index++) {
        let cell = { forest, level: forest.top, index };
        let own = ownName(cell);
        let rest = address;
        while (cell && (rest === own || rest.startsWith(own + "/"))) {
          if (rest === own) return cell;
          rest = rest.slice(own.length + 1);
          const { fanout } = forest.levels[cell.level - 1];
          const inner = Array.from({ length: cell.level > 1 ? fanout : 0 }, (_, number) => below(cell, number));
          cell = inner.find((each) => rest === ownName(each) || rest.startsWith(ownName(each) + "/")) || null;
          own = cell ? ownName(cell) : "";
        }
      }
    }
    return null;
  }

  // The machine (or node) with this name; null if there is none.
  machineNamed(name) {
    for (const forest of this.forests) {
      const index = forest.machines.findIndex((machine) => nameOf(machine) === name);
      if (index >= 0) return { forest, level: forest.machineLevel, index };
    }
    return null;
  }

  kindAt(forest, leaf) {
    return this.kinds[forest.kind[leaf]] || FREE;
  }

  // Devices of each group, and those that it waits for: [forest, leaf] pairs.
  devicesOf(group) {
    if (!this.groups) {
      this.groups = new Map();
      for (const forest of this.isNodes ? [] : this.forests)
        forest.kind.forEach((number, leaf) => {
          const { group: user, waiter } = this.kinds[number];
          for (const name of new Set([user, waiter])) if (name) this.groups.set(name, this.groups.get(name) || []).get(name).push([forest, leaf]);
        });
    }
    return this.groups.get(group) || [];
  }

  // The tenant's cell that this device is part of, and the number of the virtual device in it.
  promiseAt(forest, leaf) {
    const tenant = this.tenants.find(({ name }) => name === this.kindAt(forest, leaf).owner);
    const cell = tenant?.cells.find((each) => each.forest === forest && each.first >= 0 && each.first <= leaf && leaf < each.first + each.size);
    return cell ? { cell, number: cell.leafs.indexOf(leaf - cell.first) } : null;
  }

  // How the leafs of a cell are used.
  count({ forest, level, index }) {
    const size = forest.levels[level - 1].leafs;
    const found = { leafs: size, used: 0, bad: 0, reserved: 0, tenants: new Map(), owners: new Map() };
    for (let leaf = index * size; leaf < (index + 1) * size; leaf++) {
      const { state, healthy, tenant, waiterTenant, owner } = this.kindAt(forest, leaf);
      found.bad += !healthy;
      found.used += state === "Used" || state === "Reserving";
      found.reserved += state.startsWith("Reserv");
      const who = tenant || waiterTenant;
      if (who) found.tenants.set(who, (found.tenants.get(who) || 0) + 1);
      if (owner) found.owners.set(owner, (found.owners.get(owner) || 0) + 1);
    }
    return found;
  }
}

export const above = ({ forest, level, index }) =>
  level < forest.top ? { forest, level: level + 1, index: Math.floor(index / forest.levels[level].fanout) } : null;

export function below({ forest, level, index }, number = 0) {
  return level > 1 ? { forest, level: level - 1, index: index * forest.levels[level - 1].fanout + number } : null;
}

export const firstLeaf = ({ forest, level, index }) => index * forest.levels[level - 1].leafs;

export function ownName(cell) {
  const { forest, level, index } = cell;
  if (level > forest.machineLevel) return forest.above[level][index];
  if (level === forest.machineLevel) return nameOf(forest.machines[index]);
  const machine = machineOf(cell);
  const inside = index - machine.index * Math.round(forest.levels[forest.machineLevel - 1].leafs / forest.levels[level - 1].leafs);
  const parts = forest.machines[machine.index];
  return Array.isArray(parts) ? parts[1][forest.machineLevel - 1 - level][inside] : String(inside);
}

const nameOf = (machine) => (Array.isArray(machine) ? machine[0] : machine);

export function machineOf({ forest, level, index }) {
  while (level < forest.machineLevel) ({ level, index } = above({ forest, level, index }));
  return { forest, level, index };
}

export function addressOf(cell) {
  const outer = above(cell);
  return outer ? `${addressOf(outer)}/${ownName(cell)}` : ownName(cell);
}

// The address of a virtual device: each part counts the cells of its level in the tenant's cell.
export function virtualAddress({ address, forest, level }, number) {
  let found = address;
  for (let below = level - 1; below >= 1; below--) found += "/" + Math.floor(number / forest.levels[below - 1].leafs);
  return found;
}

function forestOf(chain, number, machines) {
  const top = chain.levels.length;
  const names = machines.filter((part) => part.chain === number).flatMap((part) => part.machines);
  const leafs = chain.machines * chain.levels[chain.machineLevel - 1].leafs;
  const count = leafs / chain.levels[top - 1].leafs;
  return { name: chain.name, levels: chain.levels, top, count, machineLevel: chain.machineLevel, machines: names, above: chain.above, leafs, kind: new Uint32Array(leafs) };
}

function zoneOf(zone, nodes) {
  const levels = [{ type: "node", leafs: 1, fanout: 0 }];
  return { name: zone, levels, top: 1, count: nodes.length, machineLevel: 1, machines: nodes.map(({ name }) => name), above: {}, leafs: nodes.length, kind: [], nodes };
}

function kindOf([state, priority, healthy, tenant, group, waiterTenant, waiter, owner]) {
  return { state, priority, healthy, tenant, group, waiterTenant, waiter, owner };
}

// Devices first: what has a domain in its name is what people have an extender for.
function resourcesOf(nodes) {
  const names = new Set(nodes.flatMap(({ room }) => Object.keys(room).filter((name) => room[name][1] > 0)));
  const rank = (name) => (name.includes("/") ? 0 : name === "cpu" ? 1 : name === "memory" ? 2 : 3);
  return [...names].filter((name) => !name.startsWith("hugepages-")).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)).slice(0, 5);
}
