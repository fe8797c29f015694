// Mouse, wheel, touch and keyboard on the map. The keyboard has a cursor of its own: a cell, from which arrows lead to
// the next one, Enter inside and Escape outside; each is said to screen readers.

import { above, below } from "./world.js";
import { around, placeOf } from "./layout.js";

const CLICK = 4;
const STEP = 80;

export class Input {
  constructor(map, { onPoint, onSelect, onCursor }) {
    Object.assign(this, { map, onPoint, onSelect, onCursor, cursor: null });
    this.pointers = new Map();
    const { canvas } = map;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.up(event, true));
    canvas.addEventListener("pointerleave", () => onPoint(null));
    canvas.addEventListener("dblclick", (event) => map.zoom(2.2, event.offsetX, event.offsetY));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  down(event) {
    if (event.button > 0) return;
    this.map.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.travelled = this.pointers.size > 1 ? Infinity : 0;
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    const [x, y] = [event.offsetX, event.offsetY];
    if (!before) return this.onPoint(this.map.at(x, y), x, y);
    this.pointers.set(event.pointerId, { x, y });
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    if (others.length) return this.pinch(before, { x, y }, others[0]);
    this.travelled += Math.hypot(x - before.x, y - before.y);
    if (this.travelled < CLICK) return undefined;
    this.map.canvas.classList.add("dragging");
    this.onPoint(null);
    return this.map.pan(x - before.x, y - before.y);
  }

  pinch(before, after, other) {
    const distance = (point) => Math.max(10, Math.hypot(point.x - other.x, point.y - other.y));
    this.map.zoom(distance(after) / distance(before), (after.x + other.x) / 2, (after.y + other.y) / 2);
  }

  up(event, cancelled = false) {
    const known = this.pointers.delete(event.pointerId);
    this.map.canvas.classList.remove("dragging");
    if (!known || cancelled || this.travelled >= CLICK) return;
    this.choose(this.map.at(event.offsetX, event.offsetY));
  }

  wheel(event) {
    event.preventDefault();
    this.onPoint(null);
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) return this.map.pan(-event.deltaY * lines, 0);
    return this.map.zoom(Math.exp(-Math.max(-400, Math.min(400, event.deltaY * lines)) * 0.0016), event.offsetX, event.offsetY);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    this.onPoint(null);
    const done = event.shiftKey && event.key.startsWith("Arrow") ? this.scroll(event.key) : this.act(event.key);
    if (done !== false) event.preventDefault();
  }

  scroll(key) {
    const [dx, dy] = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
    this.map.pan(dx * STEP, dy * STEP);
  }

  act(key) {
    switch (key) {
      case "+":
      case "=":
        return void this.map.zoom(1.35);
      case "-":
      case "_":
        return void this.map.zoom(1 / 1.35);
      case "0":
      case "Home":
        return void this.map.fit();
      case "Enter":
      case " ":
        return void (this.cursor ? this.choose(below(this.cursor) || this.cursor) : this.choose(this.first()));
      case "Escape":
      case "Backspace":
        return void this.choose(this.cursor && above(this.cursor));
      default:
        return key.startsWith("Arrow") ? void this.choose(this.cursor ? this.neighbour(key) : this.first()) : false;
    }
  }

  first() {
    const [forest] = this.map.world.forests;
    return forest ? { forest, level: forest.top, index: 0 } : null;
  }

  // The next cell of the level in that direction, also across what is around it.
  neighbour(key) {
    const { forest, level, index } = this.cursor;
    const { x, y, w, h } = placeOf(this.cursor);
    const reach = around(forest, level).gap + 2;
    for (let far = reach; far < 400; far *= 2) {
      const [px, py] = { ArrowLeft: [x - far, y + h / 2], ArrowRight: [x + w + far, y + h / 2], ArrowUp: [x + w / 2, y - far], ArrowDown: [x + w / 2, y + h + far] }[key];
      const found = this.nearest(forest, level, px, py);
      if (found && found.index !== index) return found;
    }
    return this.cursor;
  }

  nearest(forest, level, px, py) {
    const { x, y, scale } = this.map.camera;
    const cell = this.map.at((px - x) * scale, (py - y) * scale);
    if (!cell || cell.forest !== forest) return null;
    let found = cell;
    while (found && found.level < level) found = above(found);
    return found && found.level === level ? found : null;
  }

  choose(cell) {
    this.cursor = cell;
    if (cell) this.map.reveal(cell);
    this.onSelect(cell);
    this.onCursor(cell);
  }
}
