// Puts the page together: what the server tells goes into the world, the world onto the map and into the lists.

import { byId, element, number } from "./dom.js";
import { Feed } from "./feed.js";
import { Input } from "./input.js";
import { arrange, placeOf } from "./layout.js";
import { HardwareMap } from "./map.js";
import { MODES, Paint, css, mix, swatch } from "./paint.js";
import { search } from "./search.js";
import { Selection, tipOf } from "./selection.js";
import { TenantList } from "./tenants.js";
import { WaitingList } from "./waiting.js";
import { OPPORTUNISTIC, World, machineOf } from "./world.js";

const world = new World();
const paint = new Paint();
const map = new HardwareMap(byId("map"), world, paint);
map.arrange = (aspect) => arrange(world.forests, aspect);
const focus = { tenant: "", group: "", pointed: "" };
let chosen = null;
let modes = "";
let looks = 0;

const selection = new Selection({ world, onCell: (cell) => chooseCell(cell, true), onGroup: chooseGroup });
const waiting = new WaitingList({ world, onGroup: chooseGroup, onWait: (name) => world.devicesOf(name).length && chooseGroup(name) });
const tenants = new TenantList({ world, paint, onCell: choosePromise, onFocus: focusTenant, onPoint: pointPromise });
const input = new Input(map, { onPoint: pointCell, onSelect: (cell) => chooseCell(cell), onCursor: sayCursor });
const feed = new Feed({ onPieces: takePieces, onState: showState });

// -- what the server tells ----------------------------------------------------------------------------------------------

function takePieces(pieces) {
  if (world.update(pieces)) {
    [chosen, input.cursor] = [null, null];
    selection.show(null);
    map.fill();
  }
  byId("algorithm").textContent = world.algorithm;
  if (world.isNodes !== byId("tab-tenants").hidden) showTab(world.isNodes ? "waiting" : "tenants");
  showModes();
  repaint();
  waiting.update();
  selection.update();
  showTotals();
  showEmpty();
  looks += 1;
}

function repaint() {
  paint.name(world.tenants.map(({ name }) => name));
  paint.rank(world.kinds);
  map.inFocus = inFocus;
  map.restyle();
  outline();
  tenants.update(map);
  showLegend();
}

function showState(state, text, when) {
  document.body.dataset.connection = state;
  byId("connection").dataset.state = state;
  const shown = state === "lost" && feed.seen ? `${text}, as of ${feed.seen.toLocaleTimeString()}` : text;
  if (byId("connection-text").textContent !== shown) byId("connection-text").textContent = shown;
  byId("connection").title = shown;
  if (when) feed.seen = when;
  if (!feed.pieces.length) showEmpty(state === "refused" ? "You may not look" : "No connection", text);
}

function showEmpty(title = "", text = "") {
  const nothing = !world.forests.some(({ count }) => count);
  byId("empty").hidden = !nothing;
  byId("empty").firstElementChild.textContent = title || "No hardware";
  byId("empty").lastElementChild.textContent = text || "No node is known, or no cell is configured. What comes up is shown here at once.";
}

// -- what is chosen and pointed at ----------------------------------------------------------------------------------------

function inFocus(kind) {
  const group = focus.group || focus.pointed;
  if (group && kind.group !== group && kind.waiter !== group) return false;
  return !focus.tenant || [kind.tenant, kind.waiterTenant, kind.owner].includes(focus.tenant);
}

function chooseCell(cell, go = false) {
  chosen = cell ? { cell } : null;
  focus.group = "";
  selection.show(chosen);
  if (cell && go) [input.cursor] = [cell, map.show(cell)];
  map.restyle();
  outline();
}

function chooseGroup(name) {
  chosen = { group: name };
  focus.group = name;
  selection.show(chosen);
  const [first] = world.devicesOf(name);
  if (first) map.reveal(machineOf({ forest: first[0], level: 1, index: first[1] }));
  map.restyle();
  outline();
}

function choosePromise(promise) {
  if (promise.first >= 0) chooseCell(hardwareOf(promise), true);
}

const hardwareOf = ({ forest, level, first, size }) => ({ forest, level, index: first / size });

function focusTenant(name) {
  focus.tenant = name;
  map.restyle();
  outline();
}

// Around what is chosen; around the hardware of a tenant's cells, while only that tenant is shown.
function outline(extra = null) {
  const bound = focus.tenant ? world.tenants.filter(({ name }) => name === focus.tenant).flatMap(({ cells }) => cells.filter(({ first }) => first >= 0)) : [];
  map.outlines = bound.map((promise) => ({ cell: hardwareOf(promise), colour: css(paint.tenant(focus.tenant)), width: 1.5 }));
  for (const cell of [chosen?.cell, extra]) if (cell) map.outlines.push({ cell, colour: paint.css.ink, width: 2.5 });
  map.draw();
}

let pointed = null;

function pointCell(cell, x, y) {
  const group = cell && cell.level === 1 && !world.isNodes ? world.kindAt(cell.forest, cell.index).group : "";
  showTip(cell ? tipOf(world, cell) : [], x, y);
  if (group !== focus.pointed && !focus.group) {
    focus.pointed = map.camera.scale * 10 > 8 ? group : "";
    map.restyle();
  }
  if (cell?.level !== pointed?.level || cell?.index !== pointed?.index || cell?.forest !== pointed?.forest) outline(cell && cell.level > 1 ? cell : null);
  pointed = cell;
}

function pointPromise(promise, event, lines = []) {
  const box = byId("stage").getBoundingClientRect();
  showTip(lines, event ? box.width - 10 : box.width - 10, event ? event.clientY - box.top : 80);
  outline(promise && promise.first >= 0 ? hardwareOf(promise) : null);
}

function showTip(lines, x = 0, y = 0) {
  const tip = byId("tip");
  tip.hidden = !lines.length;
  if (!lines.length) return;
  tip.replaceChildren(element("b", {}, lines[0]), ...lines.slice(1).map((line) => element("div", {}, line)));
  const left = x + 16 + tip.offsetWidth > map.w ? Math.max(4, x - tip.offsetWidth - 14) : x + 16;
  const top = y + 18 + tip.offsetHeight > map.h ? Math.max(4, y - tip.offsetHeight - 12) : y + 18;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

function sayCursor(cell) {
  byId("cursor").textContent = cell ? tipOf(world, cell).join(", ") : "everything";
}

// -- around the map -----------------------------------------------------------------------------------------------------

function showModes() {
  const wanted = world.isNodes ? { ...Object.fromEntries(world.resources.map((name) => [name, name])), health: "Health" } : MODES;
  if (modes === Object.keys(wanted).join()) return;
  modes = Object.keys(wanted).join();
  const chosenMode = map.mode in wanted ? map.mode : Object.keys(wanted)[0];
  const legend = element("legend", { class: "hidden" }, world.isNodes ? "Show" : "Colour by");
  const choice = ([mode, text]) => element("label", {}, element("input", { type: "radio", name: "mode", value: mode, checked: mode === chosenMode, onchange: () => setMode(mode) }), element("span", {}, text));
  byId("modes").replaceChildren(legend, ...Object.entries(wanted).map(choice));
  setMode(chosenMode);
}

function setMode(mode) {
  [map.mode, map.resource] = [mode, mode];
  repaint();
}

function showTotals() {
  let pairs;
  if (world.isNodes) {
    const nodes = world.forests.flatMap((forest) => forest.nodes);
    pairs = [["nodes", nodes.length], ["not ready", nodes.filter(({ ready }) => !ready).length], ["pods", nodes.reduce((sum, { pods }) => sum + pods, 0)]];
  } else {
    const sum = (test) => world.forests.reduce((total, { kind }) => total + kind.reduce((count, number) => count + test(world.kinds[number]), 0), 0);
    pairs = [["machines", world.forests.reduce((total, { machines }) => total + machines.length, 0)], ["devices", sum(() => 1)], ["used", sum(({ state }) => +(state === "Used" || state === "Reserving"))], ["bad", sum(({ healthy }) => +!healthy)]];
  }
  byId("totals").replaceChildren(...[...pairs, ["waiting pods", world.waitingPods]].map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, number(value)))));
}

function showLegend() {
  const { base } = paint;
  const any = world.tenants.length ? paint.tenant(world.tenants[0].name) : base.used;
  const plain = (text, fill, mark = "", of = null) => [text, { fill: css(fill), mark, of: of && css(of), hole: css(mix(fill, base.machine, 0.78)), rim: paint.css.machine }];
  const bad = plain("bad", base.bad, "cross");
  const free = plain("free", base.free);
  const sets = {
    tenant: [plain("guaranteed", any), plain("without guarantee", any, "ring"), plain("somebody waits for it", base.free, "dot", any), plain("promised, idle", mix(base.free, any, 0.24)), free, bad],
    priority: [free, ...(world.kinds.some(({ priority, state }) => priority === OPPORTUNISTIC && state !== "Free") ? [plain("no guarantee", base.opportunistic)] : []), ...paint.priorities.slice(0, 8).map((value) => plain(String(value), paint.priority(value))), bad],
    state: [free, plain("Used", base.used), plain("Reserving", base.reserving, "dot", base.ink), plain("Reserved", base.reserved, "dot", base.ink), bad],
    health: [plain("healthy", base.healthy), bad],
  };
  const nodes = map.mode === "health" ? [plain("ready", base.healthy), bad] : [plain("free", base.machine), plain("taken", base.used), plain("not ready", base.bad, "cross")];
  const item = ([text, style]) => {
    const canvas = element("canvas", { "aria-hidden": "true" });
    swatch(canvas, style, paint.css.cross);
    return element("li", {}, canvas, text);
  };
  byId("legend").replaceChildren(...(world.isNodes ? nodes : sets[map.mode] || []).map(item));
}

function showTab(name) {
  byId("tab-tenants").hidden = world.isNodes;
  for (const each of ["tenants", "waiting"]) {
    const tab = byId("tab-" + each);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(each).hidden = each !== name;
  }
  tenants.update(map);
}

for (const name of ["tenants", "waiting"]) byId("tab-" + name).addEventListener("click", () => showTab(name));
byId("tabs").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  if (byId("tab-tenants").hidden) return;
  const other = byId("tenants").hidden ? "tenants" : "waiting";
  showTab(other);
  byId("tab-" + other).focus();
});
byId("zoom").addEventListener("click", ({ target }) => {
  if (target.dataset.zoom === "fit") map.fit();
  else if (target.dataset.zoom) map.zoom(target.dataset.zoom === "in" ? 1.5 : 1 / 1.5);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  byId("find").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  paint.read();
  repaint();
});
addEventListener("resize", () => tenants.update(map));
search(world, {
  onCell: (cell) => chooseCell(cell, true),
  onGroup: chooseGroup,
  onTenant: (name) => focusTenant(name),
  onWaiting: (group) => (showTab("waiting"), waiting.open(group)),
});
feed.start();

// For tests, and for people who look from the console: what is drawn, where a cell is, and what a frame costs.
globalThis.waggle = Object.freeze({
  stats: () => ({ looks, frames: map.drawn, milliseconds: map.milliseconds, leafs: world.forests.reduce((sum, { leafs }) => sum + leafs, 0), scale: map.camera.scale, mode: map.mode }),
  place: (forest, level, index) => map.onScreen(placeOf({ forest: world.forests[forest], level, index })),
  now: () => feed.now(),
});
