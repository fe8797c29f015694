// How things look. A style is {fill, mark, of}: `mark` is drawn upon it where there is room for it:
//   ring  used without a guarantee    dot  somebody waits for it    cross  bad
// so that nothing is told by colour alone. What is not in focus is nearly as pale as what is free.

import { OPPORTUNISTIC } from "./world.js";

export const MODES = {
  tenant: "Tenant",
  priority: "Priority",
  state: "State",
  health: "Health",
};

// Where the map shows nodes.
export const NODE_MODES = { use: "Use", owner: "Namespace", health: "Health" };

const TENANTS = 12;
// Pixels from which on there may be text on a device.
const LARGE = 46;

export class Paint {
  constructor() {
    this.read();
  }

  // The values of the stylesheet, which differ in the dark.
  read() {
    const values = getComputedStyle(document.documentElement);
    const value = (name) => rgb(values.getPropertyValue("--" + name).trim());
    this.base = Object.fromEntries(
      ["page", "panel", "ink", "muted", "line", "accent", "rack", "machine", "edge", "free", "bad", "cross", "opportunistic", "used", "reserving", "reserved", "healthy"].map((name) => [name, value(name)]),
    );
    this.colours = Array.from({ length: TENANTS }, (_, i) => value("t" + i));
    this.ramp = Array.from({ length: 5 }, (_, i) => value("p" + i));
    this.css = Object.fromEntries(Object.entries(this.base).map(([name, colour]) => [name, css(colour)]));
  }

  // The colour of each tenant, by its place in the configuration.
  name(tenants) {
    this.tenants = new Map(tenants.map((tenant, i) => [tenant, this.nth(i)]));
  }

  nth(i) {
    const colour = this.colours[i % TENANTS];
    return i < TENANTS ? colour : mix(colour, this.base.ink, Math.min(0.6, 0.35 * Math.floor(i / TENANTS)));
  }

  // The colour of each owner: the first dozen has one, all others share a grey. An owner keeps its colour while others
  // come and go.
  nameOwners(names) {
    this.owners ||= new Map();
    for (const name of names) if (name && !this.owners.has(name)) this.owners.set(name, this.owners.size);
  }

  owner(name) {
    const place = this.owners?.get(name);
    return place === undefined || place >= TENANTS ? this.base.muted : this.nth(place);
  }

  tenant(name) {
    return this.tenants?.get(name) || this.base.muted;
  }

  // Priorities are few and far between: what counts is their order.
  rank(kinds) {
    const there = [...new Set(kinds.filter(({ priority, state }) => priority >= 0 && state !== "Free").map(({ priority }) => priority))];
    there.sort((a, b) => a - b);
    this.priorities = there;
  }

  priority(value) {
    if (value === OPPORTUNISTIC) return this.base.opportunistic;
    const place = this.priorities.length > 1 ? this.priorities.indexOf(value) / (this.priorities.length - 1) : 0.5;
    const at = Math.max(0, place) * 4;
    const low = Math.min(3, Math.floor(at));
    return mix(this.ramp[low], this.ramp[low + 1], at - low);
  }

  // Styles of all kinds of devices, and for each kind the number of its style: devices that look alike are drawn at once.
  // There may be a kind for each of thousands of groups, but few of them look different.
  styles(kinds, mode, inFocus) {
    const styles = [];
    const numbers = new Map();
    const of = kinds.map((kind) => {
      const focused = inFocus(kind);
      const key = `${kind.state}|${kind.priority}|${kind.healthy}|${kind.tenant}|${kind.waiterTenant}|${kind.owner}|${focused}`;
      if (!numbers.has(key)) numbers.set(key, styles.push(this.finished(this.style(kind, mode), kind.healthy, focused)) - 1);
      return numbers.get(key);
    });
    return { styles, of };
  }

  finished({ fill, mark, of }, healthy, focused) {
    if (!focused) return { fill: css(mix(fill, this.base.machine, healthy ? 0.86 : 0.7)), mark: "" };
    return { fill: css(fill), mark, of: of && css(of), hole: css(mix(fill, this.base.machine, 0.78)), rim: this.css.machine };
  }

  style(kind, mode) {
    const fill = this.fill(kind, mode);
    if (!kind.healthy) return { fill: this.base.bad, mark: "cross", of: kind.tenant && mode === "tenant" ? fill : null };
    if (mode === "health") return { fill: this.base.healthy, mark: "", of: null };
    const waits = kind.waiter && mode !== "priority" ? (mode === "state" ? this.base.ink : this.tenant(kind.waiterTenant)) : null;
    if (waits) return { fill, mark: "dot", of: waits };
    const borrowed = kind.state === "Used" && kind.priority === OPPORTUNISTIC;
    return { fill, mark: borrowed ? "ring" : "", of: null };
  }

  fill({ state, priority, tenant, owner }, mode) {
    const { base } = this;
    const idle = state === "Free" || (state === "Reserved" && mode === "tenant");
    if (idle) return mode === "tenant" && owner ? mix(base.free, this.tenant(owner), 0.24) : base.free;
    if (mode === "priority") return this.priority(priority);
    if (mode === "state") return base[state.toLowerCase()];
    return this.tenant(tenant);
  }

  // How full a node is: one hue, so that only lightness tells.
  load(share) {
    return css(mix(mix(this.base.free, this.base.used, 0.35), this.base.used, Math.min(1, share)));
  }
}

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Black or white, whichever is read more easily on a colour: at least 4.6 to 1 on any.
export function inkOn(colour) {
  const light = luminance(colour);
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

// As WCAG 2.1 defines it.
function luminance(colour) {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function mix(a, b, share) {
  return a.map((value, i) => Math.round(value + (b[i] - value) * share));
}

function rgb(text) {
  const digits = text.replace("#", "");
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
}

// One device as it is drawn on the map; also for the legend.
export function swatch(canvas, style, cross) {
  const scale = devicePixelRatio || 1;
  canvas.width = canvas.height = 14 * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = style.fill;
  context.fillRect(0, 0, 14, 14);
  drawMark(context, style, 0, 0, 14, 14, cross);
}

// In the middle; on what is large in the lower right corner, as there is text above.
export function drawMark(context, style, x, y, w, h, cross) {
  const least = Math.min(w, h);
  if (style.mark === "ring") {
    const edge = Math.max(1, Math.min(least * 0.22, 7));
    context.fillStyle = style.hole;
    context.fillRect(x + edge, y + edge, w - 2 * edge, h - 2 * edge);
    return;
  }
  const side = least > LARGE ? Math.min(least * 0.36, 40) : least * 0.72;
  const [left, up] = least > LARGE ? [x + w - 1.2 * side, y + h - 1.2 * side] : [x + (w - side) / 2, y + (h - side) / 2];
  if (style.mark === "dot") {
    context.fillStyle = style.rim;
    context.fillRect(left, up, side, side);
    context.fillStyle = style.of;
    context.fillRect(left + side * 0.24, up + side * 0.24, side * 0.52, side * 0.52);
  } else if (style.mark === "cross") {
    if (style.of) whose(context, style.of, x, y, w, h);
    context.strokeStyle = cross;
    context.lineWidth = Math.max(1.2, side * 0.16);
    context.beginPath();
    addCross(context, left, up, side, side);
    context.stroke();
  }
}

// Bad hardware on which somebody runs all the same.
function whose(context, colour, x, y, w, h) {
  context.fillStyle = colour;
  context.fillRect(x, y + h * 0.82, w, h * 0.18);
}

export function addCross(context, x, y, w, h) {
  context.moveTo(x + w * 0.12, y + h * 0.12);
  context.lineTo(x + w * 0.88, y + h * 0.88);
  context.moveTo(x + w * 0.88, y + h * 0.12);
  context.lineTo(x + w * 0.12, y + h * 0.88);
}
