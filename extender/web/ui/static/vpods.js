// Sets of vpods: one of them as a heat map, with what moves, who waits and why, and its pods. The set and the filter stand
// in the address (`set`, `find`); so does the vpod that is explained (`vpod`).

import { get, onChange, set } from "./address.js";
import { age, byId, element, facts, link, number } from "./dom.js";
import { ask } from "./feed.js";
import { HeatMap } from "./heat.js";

// Lines of each list.
const LINES = 50;

export class VPods {
  constructor(world, paint) {
    Object.assign(this, { world, asked: "", known: null });
    this.root = byId("view-vpods");
    this.choice = element("select", { id: "vpods-set", onchange: () => set({ set: this.choice.value, vpod: "" }) });
    this.find = element("input", { id: "vpods-find", type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", oninput: () => set({ find: this.find.value.trim() }) });
    const field = (name, text, control) => element("p", { class: "field" }, element("label", { for: name }, text), control);
    const filters = element("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("vpods-set", "Set", this.choice), field("vpods-find", "Find a vpod", this.find));
    this.numbers = element("div", { class: "vpods-numbers" });
    this.note = element("p", { class: "hint" });
    this.tip = element("div", { class: "heat-tip", hidden: true });
    this.spoken = element("p", { class: "hidden", "aria-live": "polite" });
    const canvas = element("canvas", { class: "heat", tabindex: 0, role: "application", "aria-describedby": "heat-keys", "aria-label": "Heat map: vpods are rows, pods are columns" });
    const keys = element("p", { id: "heat-keys", class: "hidden" }, "Arrow keys go from cell to cell, the first row shows the pods. Enter explains the vpod of a row, Escape leaves.");
    this.frame = element("div", { class: "heat-frame" }, canvas, this.tip);
    this.legend = legend();
    this.lists = element("div", { class: "vpods-lists" });
    this.detail = element("section", { class: "vpods-detail", "aria-label": "One vpod", "aria-live": "polite", hidden: true });
    this.none = element("p", { class: "none" });
    this.body = element("div", { class: "vpods-body" }, element("div", { class: "vpods-map" }, this.frame, this.legend, this.note), element("div", { class: "vpods-side" }, this.detail, this.lists));
    this.root.append(element("h2", {}, "Virtual replicas on the pods of a StatefulSet"), filters, this.numbers, keys, this.spoken, this.body, this.none);
    this.map = new HeatMap(canvas, paint, {
      say: (lines, x, y) => this.showTip(lines, x, y),
      choose: (vpod) => set({ vpod }),
      tell: (text) => (this.spoken.textContent = text),
    });
    onChange(() => this.update());
  }

  redraw() {
    if (!this.root.hidden) this.map.draw();
  }

  update() {
    const { vpodSets, vpodSetCount } = this.world;
    byId("vpods-count").textContent = number(vpodSetCount);
    if (this.root.hidden) return;
    if (document.activeElement !== this.find) this.find.value = get("find");
    this.offer(vpodSets);
    const found = vpodSets.find(({ key }) => key === get("set")) || byNeed(vpodSets)[0];
    this.body.hidden = this.numbers.hidden = !found;
    this.none.hidden = Boolean(found);
    this.none.textContent = "There are no sets of vpods.";
    if (!found) return;
    this.choice.value = found.key;
    const part = get("find").toLowerCase();
    const rows = found.rows.map(rowOf);
    const shown = rows.filter(({ name }) => name.toLowerCase().includes(part));
    this.numbers.replaceChildren(...figures(found));
    this.map.show(found, shown);
    this.explainWhy(found);
    this.note.textContent = this.noteOf(found, rows, shown);
    this.lists.replaceChildren(...[moving(shown, found), waiting(shown), pods(found)].filter(Boolean));
  }

  offer(sets) {
    const known = sets.map(({ key, pending }) => [key, pending > 0 ? `${key} (${number(pending)} pending)` : key]);
    if (this.choice.dataset.of === JSON.stringify(known)) return;
    this.choice.dataset.of = JSON.stringify(known);
    this.choice.replaceChildren(...known.map(([key, text]) => element("option", { value: key }, text)));
  }

  noteOf({ vpods, pods, replicas }, rows, shown) {
    const { perRow, perColumn } = this.map;
    return [
      rows.length > shown.length && `${number(shown.length)} of ${number(rows.length)} vpods match the filter.`,
      vpods > rows.length && `${number(vpods - rows.length)} vpods are not shown; those that wait or move, and the largest ones, are.`,
      replicas > pods.length && `${number(replicas - pods.length)} pods are not shown.`,
      perRow > 1 && `Each row is ${perRow} vpods, by name: find a part of a name to tell them apart.`,
      perColumn > 1 && `Each column is ${perColumn} pods.`,
    ].filter(Boolean).join(" ");
  }

  showTip(lines, x, y) {
    this.tip.hidden = !lines.length;
    if (!lines.length) return;
    this.tip.replaceChildren(element("b", {}, lines[0]), ...lines.slice(1).map((line) => element("div", {}, line)));
    const left = x + 16 + this.tip.offsetWidth > this.map.w ? Math.max(0, x - this.tip.offsetWidth - 12) : x + 16;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(y + 14)}px)`;
  }

  // Explaining is work for the server, so it is asked once for each vpod that is chosen.
  async explainWhy({ key }) {
    const vpod = get("vpod");
    this.detail.hidden = !vpod;
    const asked = `${key} ${vpod}`;
    if (!vpod || asked === this.asked) return;
    this.asked = asked;
    const close = link("Close", () => set({ vpod: "" }));
    const head = element("div", { class: "detail-head" }, element("h3", {}, vpod), close);
    this.detail.replaceChildren(head, element("p", { class: "hint" }, "…"));
    const path = `v1/vpods/${key.split("/").map(encodeURIComponent).join("/")}/explain?vpod=${encodeURIComponent(vpod)}`;
    const found = await ask(path).catch((error) => error);
    if (this.asked !== asked) return;
    this.detail.replaceChildren(head, ...(found instanceof Error ? [element("p", {}, found.message)] : explanation(found)));
    if (found instanceof Error) this.asked = "";
  }
}

const rowOf = ([name, wanted, placed, pending, reason, message, waits, moves, counts]) => ({ name, wanted, placed, pending, reason, message, waits, moves, counts });
const byNeed = (sets) => [...sets].sort((a, b) => b.pending - a.pending || b.expected - a.expected);

function figures(found) {
  const { statefulSet, replicas, usable, capacity, expected, placed, pending, free, spread, waiting: waits, drainingTo, scalingTo, policy, detail } = found;
  const figure = (value, text, isBad = false) => element("span", { class: isBad ? "bad" : undefined }, element("b", {}, value), ` ${text}`);
  const state = [scalingTo !== null && `scaling to ${scalingTo} replicas`, drainingTo !== null && `draining to ${drainingTo} replicas`].filter(Boolean);
  return [
    element("p", { class: "figures" }, figure(`${number(placed)} of ${number(expected)}`, "vreplicas placed"), figure(number(pending), `pending, of ${number(waits)} vpods`, pending > 0), figure(number(free), "free"), figure(`${number(usable)} of ${number(replicas)}`, "pods usable", usable < replicas), figure(number(spread), "more on the fullest pod than on the emptiest")),
    element("p", { class: "hint" }, `StatefulSet ${statefulSet}, ${number(capacity)} vreplicas a pod, policy ${policy}`, ...state.map((text) => `, ${text}`), detail && `. Nothing is decided here: ${detail}`),
  ];
}

function legend() {
  const item = (kind, text) => element("li", {}, element("span", { class: `heat-key ${kind}`, "aria-hidden": "true" }), text);
  return element("ul", { class: "heat-legend", "aria-label": "Legend" }, item("some", "few vreplicas"), item("many", "many"), item("comes", "on the way here"), item("goes", "on the way to another pod"), item("waits", "the vpod lacks room"), item("out", "the pod gets no vreplicas"));
}

const cut = (items, what) => (items.length > LINES ? [element("p", { class: "hint" }, `and ${number(items.length - LINES)} more ${what}`)] : []);

function moving(rows, { statefulSet }) {
  const moves = rows.flatMap(({ name, moves: own }) => own.map((move) => [name, ...move]));
  if (!moves.length) return null;
  const pod = (ordinal) => `${statefulSet}-${ordinal}`;
  const way = (source, target) => (source === null ? `new on ${pod(target)}` : target === null ? `leaving ${pod(source)}` : `from ${pod(source)} to ${pod(target)}`);
  const line = ([name, source, target, count]) => element("li", {}, element("b", {}, name), ` ${number(count)} ${way(source, target)}`);
  return element("section", {}, element("h3", {}, "Under way"), element("ul", { class: "vpods-list", tabindex: 0 }, ...moves.slice(0, LINES).map(line)), ...cut(moves, "moves"));
}

function waiting(rows) {
  const found = rows.filter(({ pending, message }) => pending > 0 || message).sort((a, b) => b.pending - a.pending || (a.name < b.name ? -1 : 1));
  const line = ({ name, wanted, pending, reason, message, waits }) => element("li", {}, link(name, () => set({ vpod: name })), ` ${number(pending)} of ${number(wanted)} pending${waits === null ? "" : `, for ${age(waits)} or more`}`, element("div", { class: "hint" }, `${reason}: ${message}`));
  return element("section", {}, element("h3", {}, "Waiting"), found.length ? element("ul", { class: "vpods-list", tabindex: 0 }, ...found.slice(0, LINES).map(line)) : element("p", { class: "hint" }, "No vpod waits."), ...cut(found, "vpods"));
}

function pods({ pods: all, statefulSet }) {
  const out = all.filter(([, , , stage]) => stage !== "usable");
  if (!out.length) return null;
  const line = ([ordinal, , , stage, why, held]) => element("li", {}, element("b", {}, `${statefulSet}-${ordinal}`), ` ${stage}, ${number(held)} on it`, element("div", { class: "hint" }, why));
  return element("section", {}, element("h3", {}, "Pods that get no vreplicas"), element("ul", { class: "vpods-list", tabindex: 0 }, ...out.slice(0, LINES).map(line)), ...cut(out, "pods"));
}

function explanation(found) {
  const texts = (title, items) => (items.length ? [element("h4", {}, title), element("ul", { class: "vpods-list" }, ...items.map((text) => element("li", {}, text)))] : []);
  return [
    facts([["Placed", `${number(found.placed)} of ${number(found.wanted)}`], ["Reason", found.message ? `${found.reason}: ${found.message}` : found.reason]]),
    ...texts("Why it waits", found.waits),
    ...texts("What would help", found.helps.map(({ text }) => text)),
    ...texts("Rules, in order of precedence", found.rules.map(({ rule, outcome, kept }) => `${rule}: ${outcome}${kept ? "" : " (not kept)"}`)),
    ...texts("Its pods", found.pods.filter(({ vreplicas }) => vreplicas > 0).slice(0, LINES).map(({ pod, vreplicas, why }) => `${pod}: ${vreplicas}, ${why}`)),
  ];
}
