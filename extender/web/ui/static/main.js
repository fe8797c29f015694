// Puts the page together: what the server tells goes into the world, the world onto the map and into the lists; what is
// looked at stands in the address.

import { follow, get, href, onChange, set } from "./address.js";
import { Detail } from "./detail.js";
import { byId, element } from "./dom.js";
import { Faults } from "./faults.js";
import { Feed } from "./feed.js";
import { Input } from "./input.js";
import { arrange, placeOf } from "./layout.js";
import { showLegend } from "./legend.js";
import { groupTable, podTable } from "./lists.js";
import { HardwareMap } from "./map.js";
import { Overview } from "./overview.js";
import { OwnerList } from "./owners.js";
import { MODES, NODE_MODES, Paint, css } from "./paint.js";
import { Plans } from "./plan.js";
import { Pools } from "./pools.js";
import { Preemptions } from "./preemptions.js";
import { Search } from "./search.js";
import { Selection, tipOf } from "./selection.js";
import { Status } from "./status.js";
import { TenantList } from "./tenants.js";
import { showTip } from "./tip.js";
import { VPods } from "./vpods.js";
import { WaitingList } from "./waiting.js";
import { World, addressOf, machineOf } from "./world.js";

const VIEWS = ["map", "groups", "pods", "preemptions", "plan", "pools", "vpods"];
const LISTS = ["tenants", "owners", "waiting"];
const TENANT = "Virtual cluster";

const world = new World();
const paint = new Paint();
const map = new HardwareMap(byId("map"), world, paint);
map.arrange = (aspect) => arrange(world.forests, aspect);
map.inFocus = inFocus;
const focus = { tenant: "", group: "", pointed: "" };
let chosen = null;
let applied = "";
let looks = 0;

const selection = new Selection({ world, onCell: (cell) => chooseCell(cell, true), onGroup: chooseGroup });
const waiting = new WaitingList({ world, onGroup: chooseGroup, onWait: (name) => world.devicesOf(name).length && chooseGroup(name) });
const tenants = new TenantList({ world, paint, onCell: choosePromise, onFocus: focusOn, onPoint: pointPromise });
const owners = new OwnerList({ world, paint, onFocus: focusOn });
const overview = new Overview(world);
const faults = new Faults(world);
const tables = [podTable(byId("view-pods"), TENANT), groupTable(byId("view-groups"), world, TENANT)];
const preemptions = new Preemptions(world);
new Plans();
const pools = new Pools(world);
const vpods = new VPods(world, paint);
const detail = new Detail({ world, onGroup: (group) => set({ view: "", pod: "", group, cell: "" }, true) });
const input = new Input(map, { onPoint: pointCell, onSelect: (cell) => chooseCell(cell), onCursor: sayCursor });
const feed = new Feed({ onPieces: takePieces, onState: showState });
const status = new Status(feed);

// -- what the server tells ----------------------------------------------------------------------------------------------

function takePieces(pieces) {
  if (world.update(pieces)) {
    [chosen, input.cursor, applied] = [null, null, ""];
    selection.show(null);
    map.fill();
  }
  byId("algorithm").textContent = world.algorithm;
  showReplay();
  faults.update();
  apply();
  repaint();
  waiting.update();
  selection.update();
  preemptions.update();
  pools.update();
  vpods.update();
  for (const each of [...tables, detail]) each.changed();
  showEmpty();
  looks += 1;
}

function showReplay() {
  byId("replay").hidden = !world.replay;
  byId("replay").textContent = world.replay ? `replay of ${world.replay}, read-only` + (world.unknown ? `. ${world.unknown}` : "") : "";
}

function repaint() {
  paint.name(world.tenants.map(({ name }) => name));
  paint.rank(world.kinds);
  map.restyle();
  outline();
  tenants.update(map);
  paint.nameOwners(owners.of(map.resource).map(([owner]) => owner));
  owners.update(map.resource);
  overview.update(map.resource);
  showLegend({ world, paint, map, owners });
}

function showState(state, text, when) {
  status.show(state, text, when);
  if (!feed.pieces.length) showEmpty(state === "refused" ? "You may not look" : "No connection", text);
}

function showEmpty(title = "", text = "") {
  const nothing = !world.forests.some(({ count }) => count);
  byId("empty").hidden = !nothing;
  byId("empty").firstElementChild.textContent = title || "No hardware";
  byId("empty").lastElementChild.textContent = text || "No node is known, or no cell is configured. What comes up is shown here at once.";
}

// -- what the address says ------------------------------------------------------------------------------------------------

function apply() {
  const there = viewsThere();
  const view = there.includes(get("view")) ? get("view") : there[0];
  for (const each of VIEWS) byId("view-" + each).hidden = each !== view;
  if (view === "map" && !map.w) map.resize();
  document.body.dataset.view = view;
  for (const link of byId("views").children) {
    const own = link.dataset.view;
    link.hidden = !there.includes(own);
    link.href = href({ view: own === there[0] ? "" : own }, own !== "map");
    if (own === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showModes();
  showTab();
  detail.update();
  const wanted = `${get("cell")}\u0000${get("group")}`;
  if (view === "map" && looksAtSomething() && wanted !== applied) {
    applied = wanted;
    if (get("cell")) chooseCell(world.cellNamed(get("cell")) || world.machineNamed(get("cell")), true);
    else if (get("group")) chooseGroup(get("group"));
    else chooseCell(null);
  }
  focusOn(get("only"));
}

// A server that serves claims or vpods only has no cluster to show; one without claims has no pools, one without vpods
// no sets, and not each makes plans.
function viewsThere() {
  const isAlone = looks > 0 || feed.pieces.length ? !world.algorithm : false;
  byId("search").hidden = isAlone;
  const others = ["pools", "vpods"].filter((view) => (view === "pools" ? world.poolTotals : world.vpodTotals));
  if (isAlone) return others.length ? others : ["pools"];
  const cluster = VIEWS.filter((view) => !["plan", "pools", "vpods"].includes(view));
  return [...cluster, ...(world.plans ? ["plan"] : []), ...others];
}

const looksAtSomething = () => world.forests.length > 0 && map.w > 0;

onChange(() => {
  apply();
  repaint();
});

for (const link of byId("views").children) link.addEventListener("click", follow);

// -- what is chosen and pointed at ----------------------------------------------------------------------------------------

function inFocus(kind) {
  const group = focus.group || focus.pointed;
  if (group && kind.group !== group && kind.waiter !== group) return false;
  return !focus.tenant || [kind.tenant, kind.waiterTenant, kind.owner].includes(focus.tenant);
}

function choose(what, changes) {
  chosen = what;
  focus.group = what?.group || "";
  selection.show(chosen);
  applied = `${changes.cell}\u0000${changes.group}`;
  set(changes);
}

function chooseCell(cell, go = false) {
  choose(cell ? { cell } : null, { cell: cell ? addressOf(cell) : "", group: "" });
  if (cell && go) [input.cursor] = [cell, map.show(cell)];
  map.restyle();
  outline();
}

function chooseGroup(name) {
  choose({ group: name }, { cell: "", group: name });
  const [first] = world.devicesOf(name);
  if (first) map.reveal(machineOf({ forest: first[0], level: 1, index: first[1] }));
  map.restyle();
  outline();
}

function choosePromise(promise) {
  if (promise.first >= 0) chooseCell(hardwareOf(promise), true);
}

const hardwareOf = ({ forest, level, first, size }) => ({ forest, level, index: first / size });

// Only this virtual cluster or namespace; "" shows all.
function focusOn(name) {
  if (name !== get("only")) return void set({ only: name });
  if (focus.tenant === name) return;
  focus.tenant = map.focusOwner = owners.focus = name;
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
  showTip(map, cell ? tipOf(world, cell) : [], x, y);
  if (group !== focus.pointed && !focus.group) {
    focus.pointed = map.camera.scale * 10 > 8 ? group : "";
    map.restyle();
  }
  if (cell?.level !== pointed?.level || cell?.index !== pointed?.index || cell?.forest !== pointed?.forest) outline(cell && cell.level > 1 ? cell : null);
  pointed = cell;
}

function pointPromise(promise, event, lines = []) {
  const box = byId("frame").getBoundingClientRect();
  showTip(map, lines, box.width - 10, event ? event.clientY - box.top : 80);
  outline(promise && promise.first >= 0 ? hardwareOf(promise) : null);
}

function sayCursor(cell) {
  byId("cursor").textContent = cell ? tipOf(world, cell).join(", ") : "everything";
}

// -- around the map -----------------------------------------------------------------------------------------------------

function showModes() {
  const modes = world.isNodes ? NODE_MODES : MODES;
  map.mode = get("colour") in modes ? get("colour") : Object.keys(modes)[0];
  map.resource = world.resources.includes(get("resource")) ? get("resource") : world.resources[0] || "";
  const choice = ([mode, text]) => element("label", {}, element("input", { type: "radio", name: "mode", value: mode, onchange: () => set({ colour: mode }) }), element("span", {}, text));
  if (byId("modes").dataset.of !== Object.keys(modes).join()) {
    byId("modes").dataset.of = Object.keys(modes).join();
    byId("modes").replaceChildren(element("legend", { class: "hidden" }, "Colour by"), ...Object.entries(modes).map(choice));
  }
  byId("modes").querySelector(`[value="${map.mode}"]`).checked = true;
  const select = byId("resource");
  byId("resource-field").hidden = !world.isNodes || map.mode === "health" || !world.resources.length;
  if (select.dataset.of !== world.resources.join()) {
    select.dataset.of = world.resources.join();
    select.replaceChildren(...world.resources.map((name) => element("option", { value: name }, name)));
  }
  select.value = map.resource;
}

byId("resource").addEventListener("change", ({ target }) => set({ resource: target.value }));

// Virtual clusters where there are cells, namespaces where there are nodes.
const listsThere = () => (world.isNodes ? ["owners", "waiting"] : ["tenants", "waiting"]);

function showTab() {
  const there = listsThere();
  const shown = there.includes(get("tab")) ? get("tab") : there[0];
  for (const each of LISTS) {
    const tab = byId("tab-" + each);
    tab.hidden = !there.includes(each);
    tab.setAttribute("aria-selected", String(each === shown));
    tab.tabIndex = each === shown ? 0 : -1;
    byId(each).hidden = each !== shown;
  }
}

const openTab = (name) => set({ tab: name === listsThere()[0] ? "" : name });

for (const name of LISTS) byId("tab-" + name).addEventListener("click", () => openTab(name));
byId("tabs").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  const other = listsThere().find((name) => byId(name).hidden);
  openTab(other);
  byId("tab-" + other).focus();
});
byId("zoom").addEventListener("click", ({ target }) => {
  if (target.dataset.zoom === "fit") map.fit();
  else if (target.dataset.zoom) map.zoom(target.dataset.zoom === "in" ? 1.5 : 1 / 1.5);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  byId("find").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  paint.read();
  repaint();
  vpods.redraw();
});
addEventListener("resize", () => world.algorithm && tenants.update(map)); // before the first data there is nothing to lay out

const onMap = (changes) => set({ view: "", pod: "", ...changes }, true);
new Search(world, {
  onCell: (cell) => onMap({ cell: addressOf(cell), group: "" }),
  onGroup: (group) => onMap({ group, cell: "" }),
  onTenant: (name) => focusOn(name),
  onNamespace: (name) => set({ view: "groups", ns: name, find: "", tenant: "", page: "" }, true),
  onPod: (namespace, name) => set({ view: "pods", pod: `${namespace}/${name}`, find: name, ns: namespace, tenant: "", state: "", page: "" }, true),
  onPods: (part) => set({ view: "pods", find: part, ns: "", tenant: "", state: "", page: "" }, true),
  onWaiting: (group) => (onMap({ tab: "waiting" }), waiting.open(group)),
});
apply();
for (const table of tables) if (table.shown) table.refresh();
feed.start();

// For tests, and for people who look from the console: what is drawn, where a cell is, and what a frame costs.
globalThis.waggle = Object.freeze({
  stats: () => ({ looks, frames: map.drawn, milliseconds: map.milliseconds, leafs: world.forests.reduce((sum, { leafs }) => sum + leafs, 0), scale: map.camera.scale, mode: map.mode }),
  place: (forest, level, index) => map.onScreen(placeOf({ forest: world.forests[forest], level, index })),
  now: () => feed.now(),
});
