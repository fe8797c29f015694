// Finds machines, groups and virtual clusters by a part of their name. Enter goes to the next one found.

import { byId } from "./dom.js";

export function search(world, { onCell, onGroup, onTenant, onWaiting }) {
  const state = { text: "", found: [], at: -1 };

  function look(text) {
    const part = text.trim().toLowerCase();
    if (!part) return [];
    const found = [];
    const add = (name, go) => name.toLowerCase().includes(part) && found.push({ name, go });
    for (const { name } of world.tenants) add(name, () => onTenant(name));
    for (const forest of world.forests) {
      forest.machines.forEach((machine, index) => add(Array.isArray(machine) ? machine[0] : machine, () => onCell({ forest, level: forest.machineLevel, index })));
      for (const [level, names] of Object.entries(forest.above)) names.forEach((name, index) => add(name, () => onCell({ forest, level: Number(level), index })));
    }
    world.devicesOf("");
    for (const name of world.groups?.keys() || []) add(name, () => onGroup(name));
    for (const group of world.waiting) if (!world.groups?.has(group.name)) add(group.name, () => onWaiting(group));
    return found.sort((a, b) => a.name.length - b.name.length || (a.name < b.name ? -1 : 1));
  }

  function tell() {
    byId("found").textContent = state.text ? (state.found.length ? `${Math.max(1, state.at + 1)} of ${state.found.length}` : "nothing") : "";
  }

  byId("find").addEventListener("input", ({ target }) => {
    Object.assign(state, { text: target.value, found: look(target.value), at: -1 });
    if (!target.value) onTenant("");
    tell();
  });
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!state.found.length) return;
    state.at = (state.at + 1) % state.found.length;
    tell();
    state.found[state.at].go();
  });
}
