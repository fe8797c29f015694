// A heat map of one set: pods are columns, by zone and ordinal, vpods are rows. Above it, how full each pod is. Where
// there are more pods or vpods than can be told apart, several are one column or one row, and that is said.
//
// Marks, so that nothing is told by colour alone: a hollow cell gets what moves there, a dot leaves; a pod that takes
// none is crossed out above; a bar at the left of a row says that the vpod waits.

import { css, inkOn, mix } from "./paint.js";

// Pixels: of a row and of a column at least and at most, of the names, of the load above, and of the whole at most.
const ROW = [3, 20];
const COLUMN = [3, 44];
const NAMES = 170;
const SHORT_NAMES = 96;
const NARROW = 12;
const LOAD = 34;
const ZONE = 16;
const TALL = 620;
const TEXT = 11;
const LABEL = 22;

export class HeatMap {
  // `say(text lines, x, y)` shows what is pointed at, "" nothing; `choose(vpod)` gets the name of the row that is clicked.
  constructor(canvas, paint, { say, choose, tell }) {
    Object.assign(this, { canvas, paint, say, choose, tell, set: null, rows: [], cursor: null, frame: 0, drawn: 0 });
    this.context = canvas.getContext("2d");
    canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => this.point(this.at(offsetX, offsetY), offsetX, offsetY));
    canvas.addEventListener("pointerleave", () => this.say([]));
    canvas.addEventListener("click", ({ offsetX, offsetY }) => this.take(this.at(offsetX, offsetY)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.move(null));
    new ResizeObserver(() => this.arrange()).observe(canvas.parentElement);
  }

  show(set, rows) {
    Object.assign(this, { set, rows });
    this.arrange();
  }

  // -- where everything is ----------------------------------------------------------------------------------------

  arrange() {
    const width = this.canvas.parentElement.clientWidth;
    if (!this.set || !width) return;
    this.pods = [...this.set.pods].map(podOf).sort((a, b) => (a.zone === b.zone ? a.ordinal - b.ordinal : a.zone < b.zone ? -1 : 1));
    this.top = LOAD + (this.pods.some(({ zone }) => zone) ? ZONE : 0);
    const height = Math.floor((TALL - this.top) / Math.max(1, this.rows.length));
    this.perRow = Math.ceil((this.rows.length * ROW[0]) / (TALL - this.top)) || 1;
    this.rowHeight = this.perRow > 1 ? ROW[0] : Math.min(ROW[1], height);
    this.hasNames = this.rowHeight >= NARROW && width > 2 * SHORT_NAMES;
    this.isShort = width <= 600; // a narrow page leaves the namespace out
    this.left = !this.hasNames ? 8 : this.isShort ? SHORT_NAMES : NAMES;
    const room = width - this.left - 4;
    this.perColumn = Math.ceil((this.pods.length * COLUMN[0]) / room) || 1;
    this.columns = chunks(this.pods, this.perColumn);
    this.bands = chunks(this.rows, this.perRow);
    this.columnWidth = Math.min(COLUMN[1], room / Math.max(1, this.columns.length));
    this.place = new Map(this.columns.flatMap((pods, column) => pods.map(({ ordinal }) => [ordinal, column])));
    this.w = width;
    this.h = this.top + this.bands.length * this.rowHeight + 2;
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.h * this.ratio);
    this.canvas.style.height = `${this.h}px`;
    this.cells = this.bands.map((band) => this.sumOf(band));
    this.most = Math.max(1, ...this.cells.flatMap((cells) => [...cells.values()].map(({ vreplicas }) => vreplicas)));
    if (this.cursor) this.cursor = this.held(this.cursor.column, this.cursor.row);
    this.draw();
  }

  // What the vpods of a band have in each column: vreplicas, and what comes and goes.
  sumOf(band) {
    const found = new Map();
    const cell = (ordinal) => {
      const column = this.place.get(ordinal);
      if (!found.has(column)) found.set(column, { vreplicas: 0, comes: 0, goes: 0 });
      return found.get(column);
    };
    for (const { counts, moves } of band) {
      for (let i = 0; i < counts.length; i += 2) if (this.place.has(counts[i])) cell(counts[i]).vreplicas += counts[i + 1];
      for (const [source, target, number] of moves) {
        if (this.place.has(source)) cell(source).goes += number;
        if (this.place.has(target)) cell(target).comes += number;
      }
    }
    return found;
  }

  x = (column) => this.left + column * this.columnWidth;
  y = (row) => this.top + row * this.rowHeight;

  at(px, py) {
    const column = Math.floor((px - this.left) / this.columnWidth);
    const row = Math.floor((py - this.top) / this.rowHeight);
    return py < this.top ? this.held(column, -1) : this.held(Math.max(column, px < this.left ? -1 : 0), row);
  }

  // A place on the map: row -1 are the pods, column -1 the names; null outside.
  held(column, row) {
    if (!this.columns || column >= this.columns.length || row >= this.bands.length || column < -1 || row < -1) return null;
    return column < 0 && row < 0 ? null : { column, row };
  }

  // -- drawing ----------------------------------------------------------------------------------------------------

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paintAll();
      this.drawn += 1;
    });
  }

  paintAll() {
    const { context, paint } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.w, this.h);
    context.textBaseline = "middle";
    this.columns.forEach((pods, column) => this.paintPod(pods, column));
    this.paintZones();
    this.bands.forEach((band, row) => this.paintRow(band, row));
    if (!this.cursor) return;
    const { column, row } = this.cursor;
    context.strokeStyle = paint.css.ink;
    context.lineWidth = 2;
    if (row < 0) context.strokeRect(this.x(column), 1, this.columnWidth, LOAD - 4);
    else context.strokeRect(this.x(column), this.y(row), this.columnWidth, this.rowHeight);
  }

  // How full the pods of a column are; a cross where one of them takes none.
  paintPod(pods, column) {
    const { context, paint, set } = this;
    const [x, width, high] = [this.x(column), this.gap(this.columnWidth), LOAD - 6];
    const share = Math.min(1, pods.reduce((sum, { held }) => sum + held, 0) / (pods.length * set.capacity));
    const isOut = pods.some(({ stage }) => stage !== "usable");
    context.fillStyle = isOut ? css(mix(paint.base.free, paint.base.muted, 0.35)) : paint.css.free;
    context.fillRect(x, 2, width, high);
    context.fillStyle = isOut ? paint.css.muted : paint.css.used;
    context.fillRect(x, 2 + high * (1 - share), width, high * share);
    if (pods.length === 1 && width >= LABEL) {
      context.font = `${TEXT}px system-ui, sans-serif`;
      context.fillStyle = inkOn(share > 0.3 ? (isOut ? paint.base.muted : paint.base.used) : paint.base.free);
      context.fillText(String(pods[0].ordinal), x + 4, high - 6); // at the bottom, where the load begins
    }
    if (isOut) {
      context.strokeStyle = paint.css.cross;
      context.lineWidth = 1.5;
      context.beginPath();
      for (const [from, to] of [[2, 2 + high], [2 + high, 2]]) {
        context.moveTo(x, from);
        context.lineTo(x + width, to);
      }
      context.stroke();
    }
  }

  paintZones() {
    if (this.top === LOAD) return;
    const { context, paint } = this;
    context.font = `${TEXT}px system-ui, sans-serif`;
    const zones = [...new Set(this.pods.map(({ zone }) => zone))];
    zones.forEach((zone, number) => {
      const there = this.columns.flatMap((pods, column) => (pods.some((pod) => pod.zone === zone) ? [column] : []));
      const [x, width] = [this.x(there[0]), there.length * this.columnWidth - 1];
      const fill = mix(paint.base.page, paint.base.muted, number % 2 ? 0.35 : 0.18);
      context.fillStyle = css(fill);
      context.fillRect(x, LOAD, width, ZONE - 3);
      const text = zone || "no zone";
      if (context.measureText(text).width < width - 6) {
        context.fillStyle = inkOn(fill);
        context.fillText(text, x + 4, LOAD + (ZONE - 3) / 2 + 0.5);
      }
    });
  }

  paintRow(band, row) {
    const { context, paint } = this;
    const y = this.y(row);
    const high = this.gap(this.rowHeight);
    context.fillStyle = css(mix(paint.base.page, paint.base.free, 0.55));
    context.fillRect(this.left, y, this.columns.length * this.columnWidth - 1, high);
    for (const [column, cell] of this.cells[row]) this.paintCell(cell, this.x(column), y, this.gap(this.columnWidth), high);
    const waits = band.some(({ pending }) => pending > 0);
    if (waits) {
      context.fillStyle = paint.css.reserving;
      context.fillRect(this.left - 6, y, 4, high);
    }
    if (!this.hasNames) return;
    context.font = `${TEXT}px system-ui, sans-serif`;
    context.fillStyle = paint.css.ink;
    const name = this.isShort ? band[0].name.split("/").at(-1) : band[0].name;
    context.fillText(shortened(context, name, this.left - 16), 2, y + high / 2 + 0.5);
  }

  paintCell({ vreplicas, comes, goes }, x, y, w, h) {
    const { context, paint } = this;
    const fill = mix(mix(paint.base.free, paint.base.used, 0.3), paint.base.used, vreplicas / this.most);
    if (vreplicas) {
      context.fillStyle = css(fill);
      context.fillRect(x, y, w, h);
    }
    if (comes) {
      context.strokeStyle = paint.css.reserving;
      context.lineWidth = Math.max(1, Math.min(2.5, w * 0.2));
      context.strokeRect(x + 1, y + 1, Math.max(1, w - 2), Math.max(1, h - 2));
    }
    if (goes) {
      context.fillStyle = paint.css.cross;
      context.fillRect(x + w * 0.3, y + h * 0.3, Math.max(1.5, w * 0.4), Math.max(1.5, h * 0.4));
    } else if (vreplicas && w >= 16 && h >= NARROW) {
      context.font = `${TEXT}px system-ui, sans-serif`;
      context.fillStyle = inkOn(fill);
      const text = String(vreplicas);
      const wide = context.measureText(text).width;
      if (wide < w - 2) context.fillText(text, x + (w - wide) / 2, y + h / 2 + 0.5);
    }
  }

  gap = (size) => (size >= 5 ? size - 1 : size);

  // -- what is pointed at -------------------------------------------------------------------------------------------

  point(place, x, y) {
    this.say(place ? this.lines(place) : [], x, y);
  }

  take(place) {
    const band = place && place.row >= 0 ? this.bands[place.row] : null;
    if (band?.length === 1) this.choose(band[0].name);
  }

  key(event) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] || [];
    if (event.key === "Enter") this.take(this.cursor);
    else if (event.key === "Escape") this.move(null);
    else if (dx === undefined) return;
    else if (this.columns?.length) {
      const { column, row } = this.cursor || { column: 0, row: -1 - dy };
      const last = [this.columns.length - 1, this.bands.length - 1];
      this.move({ column: Math.min(last[0], Math.max(0, column + dx)), row: Math.min(last[1], Math.max(-1, row + dy)) });
    }
    event.preventDefault();
  }

  move(place) {
    this.cursor = place;
    this.tell(place ? this.lines(place).join(", ") : "");
    this.say(place ? this.lines(place) : [], place ? this.x(place.column) : 0, place ? this.y(Math.max(0, place.row)) : 0);
    this.draw();
  }

  lines({ column, row }) {
    const pods = column >= 0 ? this.columns[column] : [];
    const band = row >= 0 ? this.bands[row] : [];
    const cell = row >= 0 && column >= 0 ? this.cells[row].get(column) : null;
    const found = [];
    if (band.length === 1) found.push(band[0].name, `${band[0].placed} of ${band[0].wanted} vreplicas placed`);
    else if (band.length) found.push(`${band.length} vpods: ${band[0].name} to ${band.at(-1).name}`);
    if (cell || (row >= 0 && column >= 0)) found.push(`${cell?.vreplicas || 0} here${cell?.comes ? `, ${cell.comes} of them on the way here` : ""}${cell?.goes ? `, ${cell.goes} on the way to another pod` : ""}`);
    if (band.some(({ pending }) => pending > 0)) found.push(`${band.reduce((sum, { pending }) => sum + pending, 0)} vreplicas wait`);
    return [...found, ...this.podLines(pods)];
  }

  podLines(pods) {
    const { capacity, statefulSet } = this.set;
    if (!pods.length) return [];
    if (pods.length > 1) {
      const held = pods.reduce((sum, pod) => sum + pod.held, 0);
      return [`${pods.length} pods: ${statefulSet}-${pods[0].ordinal} to ${statefulSet}-${pods.at(-1).ordinal}`, `they hold ${held} of ${pods.length * capacity}`];
    }
    const [{ ordinal, zone, node, stage, why, held }] = pods;
    return [`pod ${statefulSet}-${ordinal}${zone ? `, zone ${zone}` : ""}${node ? `, node ${node}` : ""}`, `it holds ${held} of ${capacity}${stage === "usable" ? "" : `; ${stage}: ${why}`}`];
  }
}

const podOf = ([ordinal, zone, node, stage, why, held]) => ({ ordinal, zone, node, stage, why, held });

const chunks = (items, size) => Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
