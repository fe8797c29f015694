// The virtual clusters: what each was promised, what it uses of that and beyond, and which hardware its cells are.

import { byId, element, keyed, number } from "./dom.js";
import { leafPlaces } from "./layout.js";
import { css, drawMark } from "./paint.js";

// Pixels for a unit of layout.js: as many as let all cells fit into some HEIGHT pixels.
const SMALLEST = 0.42;
const LARGEST = 1.3;
const HEIGHT = 90;
const GAP = 4;

export class TenantList {
  constructor({ world, paint, onCell, onFocus, onPoint }) {
    Object.assign(this, { world, paint, onCell, onFocus, onPoint, focus: "", open: new Set() });
    this.root = byId("tenants");
    this.none = element("p", { class: "none" }, "No virtual cluster is configured.");
  }

  update(map) {
    this.map = map;
    const { tenants } = this.world;
    if (tenants.length) this.none.remove();
    else this.root.append(this.none);
    keyed(this.root, tenants, ({ name }) => name, (tenant) => new Card(this, tenant));
  }
}

class Card {
  constructor(list, { name }) {
    Object.assign(this, { list, name, cursor: -1, places: new Map() });
    this.swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    this.side = element("span", { class: "side" });
    this.bar = element("canvas", { class: "bar", "aria-hidden": "true" });
    this.figures = element("div", { class: "figures" });
    this.head = element(
      "button",
      { type: "button", "aria-expanded": "false", onclick: () => this.toggle() },
      element("span", { class: "row" }, this.swatch, element("span", { class: "name", title: name }, name), this.side),
      this.bar,
    );
    this.cells = element("canvas", {
      class: "cells",
      tabindex: "0",
      role: "application",
      "aria-label": `Cells of ${name}: left and right go to the next one, Enter shows its hardware`,
      onpointermove: (event) => this.point(event),
      onpointerleave: () => list.onPoint(null),
      onclick: (event) => this.click(event),
      onkeydown: (event) => this.key(event),
    });
    this.cells.hidden = true;
    this.root = element("div", { class: "item" }, this.head, this.figures, this.cells);
  }

  update(tenant) {
    this.tenant = tenant;
    const { paint } = this.list;
    const { guaranteed, used, borrowed, bad } = tenant;
    this.swatch.style.background = css(paint.tenant(this.name));
    this.side.textContent = `${number(used)} of ${number(guaranteed)} used`;
    const figure = (title, value, kind) => element("span", { class: kind }, `${title} `, element("b", {}, number(value)));
    this.figures.replaceChildren(figure("idle", guaranteed - used, ""), figure("borrowed", borrowed, ""), figure("bad", bad, bad ? "bad" : ""), figure("cells", tenant.cells.length, ""));
    this.drawBar();
    if (!this.cells.hidden) this.drawCells();
  }

  toggle() {
    this.cells.hidden = !this.cells.hidden;
    this.head.setAttribute("aria-expanded", String(!this.cells.hidden));
    this.list.onFocus(this.cells.hidden ? "" : this.name);
    if (!this.cells.hidden) this.drawCells();
  }

  // Used, idle and bad within the promise, with a line where it ends; beyond it what is borrowed.
  drawBar() {
    const { paint } = this.list;
    const { guaranteed, used, borrowed, bad } = this.tenant;
    const [context, w, h] = sized(this.bar, this.bar.clientWidth || 340, 12);
    const unit = w / Math.max(1, guaranteed + borrowed);
    const colour = paint.tenant(this.name);
    let x = 0;
    const band = (count, fill) => {
      context.fillStyle = fill;
      context.fillRect(x, 0, count * unit, h);
      x += count * unit;
    };
    band(used, css(colour));
    band(Math.max(0, guaranteed - used - bad), paint.css.free);
    band(Math.min(bad, guaranteed - used), paint.css.bad);
    x = guaranteed * unit;
    band(borrowed, css(colour));
    context.fillStyle = paint.css.panel;
    if (borrowed * unit > 3) context.fillRect(guaranteed * unit + 2, 3, borrowed * unit - 4, h - 6);
    context.fillStyle = paint.css.ink;
    if (borrowed) context.fillRect(Math.min(w - 1.5, guaranteed * unit), 0, 1.5, h);
  }

  // The places of the cells in rows, as the hardware is arranged.
  arrange(width) {
    let [x, y, row] = [1, 1, 0];
    const area = this.tenant.cells.reduce((sum, { forest, level }) => sum + forest.sizes[level].w * forest.sizes[level].h, 1);
    const fair = Math.max(SMALLEST, Math.min(LARGEST, Math.sqrt((width * HEIGHT) / area)));
    this.spots = this.tenant.cells.map((cell) => {
      const { w, h } = cell.forest.sizes[cell.level];
      const scale = Math.min(fair, (width - 2) / w);
      if (x > 1 && x + w * scale > width - 1) [x, y, row] = [1, y + row + GAP, 0];
      const spot = { cell, x, y, w: w * scale, h: h * scale, scale };
      x += w * scale + GAP;
      row = Math.max(row, h * scale);
      return spot;
    });
    return y + row + 1;
  }

  drawCells() {
    const width = this.root.clientWidth - 28;
    const [context] = sized(this.cells, width, Math.max(8, this.arrange(width)));
    this.spots.forEach((spot, i) => this.drawCell(context, spot, i === this.cursor));
  }

  drawCell(context, { cell, x, y, w, h, scale }, marked) {
    const { paint, map } = this.list;
    context.setLineDash(cell.first < 0 ? [2, 2] : []);
    context.strokeStyle = marked ? paint.css.ink : cell.bad ? paint.css.cross : paint.css.edge;
    context.lineWidth = marked || cell.bad ? 2 : 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    context.setLineDash([]);
    const places = this.placesOf(cell);
    const side = Math.max(1, 10 * scale);
    places.forEach(([left, up], number) => {
      const offset = cell.leafs[number] ?? -1;
      const style = offset < 0 ? null : map.styles[map.styleOf[cell.forest.kind[cell.first + offset]]];
      context.fillStyle = style ? style.fill : paint.css.free;
      context.fillRect(x + left * scale, y + up * scale, side, side);
      if (style && side > 3) drawMark(context, style, x + left * scale, y + up * scale, side, side, paint.css.cross);
    });
  }

  placesOf({ forest, level }) {
    const key = `${forest.name}/${level}/${forest.sizes[level].w}`;
    if (!this.places.has(key)) this.places.set(key, leafPlaces(forest, level));
    return this.places.get(key);
  }

  spotAt({ offsetX, offsetY }) {
    return this.spots.find(({ x, y, w, h }) => offsetX >= x && offsetX <= x + w && offsetY >= y && offsetY <= y + h);
  }

  point(event) {
    const spot = this.spotAt(event);
    this.list.onPoint(spot ? spot.cell : null, event, spot ? describe(spot.cell) : []);
  }

  click(event) {
    const spot = this.spotAt(event);
    if (spot) this.go(this.spots.indexOf(spot));
  }

  key(event) {
    const last = this.spots.length - 1;
    const next = { ArrowRight: this.cursor + 1, ArrowLeft: this.cursor - 1, Home: 0, End: last }[event.key];
    if (next !== undefined) this.cursor = Math.max(0, Math.min(last, next));
    else if (event.key === "Enter" && this.cursor >= 0) this.go(this.cursor);
    else return;
    event.preventDefault();
    this.list.onPoint(this.spots[this.cursor].cell, null, describe(this.spots[this.cursor].cell));
    this.drawCells();
  }

  go(index) {
    this.cursor = index;
    this.list.onCell(this.spots[index].cell);
    this.drawCells();
  }
}

export function describe(cell) {
  const type = cell.forest.levels[cell.level - 1].type;
  const bound = cell.leafs.filter((offset) => offset >= 0).length;
  return [
    cell.address,
    `${type} of ${cell.tenant}${cell.pinned ? `, pinned ${cell.pinned}` : ""}`,
    cell.first < 0 ? "no hardware in particular" : `${cell.used} of ${cell.size} used${cell.bad ? ", bad hardware in it" : ""}`,
    bound && bound < cell.size ? `${bound} devices are bound` : "",
  ].filter(Boolean);
}

export function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return [context, width, height];
}
