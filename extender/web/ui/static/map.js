// Draws the hardware: what is to be seen, in as much detail as can be seen. Rectangles of one style are drawn together;
// text and marks only where there is room for them; cells whose devices are too small to be told apart as bands.

import { around, cellAt, placeOf } from "./layout.js";
import { ownName } from "./world.js";
import { addCross, drawMark } from "./paint.js";

// Pixels from which on something is drawn; a machine whose smaller devices all look alike is one rectangle.
const DEVICE = 1.4;
const WHOLE = 3.6;
const MARK = 5;
const FRAME = 7;
const TEXT = 9;

export class HardwareMap {
  constructor(canvas, world, paint) {
    Object.assign(this, { canvas, world, paint, mode: "tenant", resource: "", inFocus: () => true });
    this.context = canvas.getContext("2d", { alpha: false });
    this.camera = { x: 0, y: 0, scale: 1 };
    this.bounds = { w: 1, h: 1 };
    this.fits = true;
    this.batches = [];
    this.outlines = [];
    this.frame = 0;
    this.drawn = 0;
    this.milliseconds = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  // -- the camera -------------------------------------------------------------------------------------------------

  resize() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(w * this.ratio));
    this.canvas.height = Math.max(1, Math.round(h * this.ratio));
    [this.w, this.h] = [w, h];
    if (this.fits) this.fit();
    this.draw();
  }

  // Room is left for the buttons above and the legend below.
  fit() {
    this.fits = true;
    this.look({ x: 0, y: 0, w: this.bounds.w, h: this.bounds.h }, { above: 52, below: this.h > 480 ? 52 : 12, beside: 16 });
    this.smallest = this.camera.scale * 0.6;
    this.draw();
  }

  look({ x, y, w, h }, { above, below, beside }) {
    const scale = Math.min((this.w - 2 * beside) / w, (this.h - above - below) / h);
    this.camera = this.centred(x + w / 2, y + h / 2, Math.max(1e-4, Math.min(scale, 12)), (above - below) / 2);
  }

  centred(x, y, scale, lower = 0) {
    return { scale, x: x - this.w / 2 / scale, y: y - (this.h / 2 + lower) / scale };
  }

  // So that a cell is seen well, with what is around it.
  show(cell) {
    this.fits = false;
    const place = placeOf(cell);
    const margin = 0.5 + (cell.level === 1 ? 5 : 0);
    const wide = { x: place.x - place.w * margin, y: place.y - place.h * margin, w: place.w * (1 + 2 * margin), h: place.h * (1 + 2 * margin) };
    this.look(wide, { above: 52, below: 52, beside: 16 });
    this.draw();
  }

  // So that a cell is inside of the window; nothing moves if it is.
  reveal(cell) {
    const { x, y, w, h } = this.onScreen(placeOf(cell));
    if (x >= 0 && y >= 50 && x + w <= this.w && y + h <= this.h - 50) return;
    this.fits = false;
    const place = placeOf(cell);
    const scale = Math.min(this.camera.scale, (0.8 * this.w) / place.w, (0.7 * this.h) / place.h);
    this.camera = this.centred(place.x + place.w / 2, place.y + place.h / 2, scale);
    this.draw();
  }

  pan(dx, dy) {
    this.fits = false;
    this.camera.x -= dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.keepInside();
    this.draw();
  }

  zoom(factor, px = this.w / 2, py = this.h / 2) {
    this.fits = false;
    const { x, y, scale } = this.camera;
    const next = Math.max(this.smallest || 1e-3, Math.min(16, scale * factor));
    this.camera = { scale: next, x: x + px / scale - px / next, y: y + py / scale - py / next };
    this.keepInside();
    this.draw();
  }

  // Something always remains to be seen.
  keepInside() {
    const { camera, bounds } = this;
    const [w, h] = [this.w / camera.scale, this.h / camera.scale];
    camera.x = Math.max(-0.7 * w, Math.min(bounds.w - 0.3 * w, camera.x));
    camera.y = Math.max(-0.7 * h, Math.min(bounds.h - 0.3 * h, camera.y));
  }

  onScreen({ x, y, w, h }) {
    const { camera } = this;
    return { x: (x - camera.x) * camera.scale, y: (y - camera.y) * camera.scale, w: w * camera.scale, h: h * camera.scale };
  }

  at(px, py) {
    const { camera } = this;
    return cellAt(this.world.forests, camera.x + px / camera.scale, camera.y + py / camera.scale, 3 / camera.scale);
  }

  // -- drawing ----------------------------------------------------------------------------------------------------

  restyle() {
    const { styles, of } = this.paint.styles(this.world.kinds, this.mode, this.inFocus);
    this.styles = styles;
    this.styleOf = Uint16Array.from(of);
    this.batches = styles.map(() => []);
    this.draw();
  }

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const begun = performance.now();
      this.paintAll();
      this.milliseconds = performance.now() - begun;
      this.drawn += 1;
    });
  }

  paintAll() {
    const { context, paint, camera } = this;
    const k = camera.scale * this.ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = paint.css.page;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.styles) return;
    this.k = k;
    this.texts = [];
    this.racks = [];
    this.machines = [];
    this.nodes = [];
    for (const batch of this.batches) batch.length = 0;
    for (const forest of this.world.forests) this.forest(forest);
    this.flush();
    this.frames();
    this.write();
  }

  // Coordinates from here on are pixels of the canvas.
  forest(forest) {
    const { k, camera } = this;
    const [x, y] = [(forest.x - camera.x) * k, (forest.y - camera.y) * k];
    if (x > this.canvas.width || y > this.canvas.height || x + forest.w * k < 0 || y + forest.h * k < 0) return;
    if (forest.name) this.text(forest.name, x, y + forest.block.head * k * 0.45, forest.w * k, Math.min(forest.block.head * k, 15 * this.ratio), true);
    this.children(forest, forest.top, 0, forest.count, x, y);
  }

  // The cells of `level` from number `first` on, in something whose corner is at x, y.
  children(forest, level, first, count, x, y) {
    const { k } = this;
    const { w, h } = forest.sizes[level];
    const { cols, gap, pad, head } = around(forest, level);
    const [stepX, stepY] = [(w + gap) * k, (h + gap) * k];
    const [left, up] = [x + pad * k, y + (pad + head) * k];
    const low = Math.max(0, Math.floor(-left / stepX));
    const high = Math.min(cols - 1, Math.floor((this.canvas.width - left) / stepX));
    const last = Math.min(Math.ceil(count / cols) - 1, Math.floor((this.canvas.height - up) / stepY));
    for (let row = Math.max(0, Math.floor(-up / stepY)); row <= last; row++) {
      for (let column = low; column <= high; column++) {
        const number = row * cols + column;
        if (number >= count) break;
        this.cell(forest, level, first + number, left + column * stepX, up + row * stepY, w * k, h * k);
      }
    }
  }

  cell(forest, level, index, x, y, w, h) {
    if (level === 1) {
      if (forest.nodes) this.nodes.push(forest.nodes[index], x, y, w, h);
      else this.batches[this.styleOf[forest.kind[index]]].push(x, y, w, h);
      return;
    }
    const { fanout, leafs } = forest.levels[level - 1];
    if (level <= forest.machineLevel && forest.sizes[1].h * this.k < WHOLE * this.ratio) {
      const style = this.common(forest, index * leafs, leafs);
      if (style >= 0) return void this.batches[style].push(x, y, w, h);
    }
    if (level >= forest.machineLevel && h > FRAME * this.ratio) (level > forest.machineLevel ? this.racks : this.machines).push(x, y, w, h);
    if (forest.sizes[1].h * this.k < DEVICE && level === forest.machineLevel) return this.bands(forest, index * leafs, leafs, x, y, w, h);
    if (forest.sizes[level].h * this.k < 3 && level > forest.machineLevel) return this.bands(forest, index * leafs, leafs, x, y, w, h);
    this.children(forest, level - 1, index * fanout, fanout, x, y);
    const { head, pad } = forest.sizes[level];
    if (head * this.k >= TEXT * this.ratio * 0.8) this.text(ownName({ forest, level, index }), x + pad * this.k, y + (pad + head) * this.k * 0.5, w - 2 * pad * this.k, Math.min(head * this.k * 0.78, 15 * this.ratio), level > forest.machineLevel);
  }

  // The style of all these devices; -1 if they have several.
  common(forest, first, count) {
    const style = this.styleOf[forest.kind[first]];
    for (let leaf = first + 1; leaf < first + count; leaf++) if (this.styleOf[forest.kind[leaf]] !== style) return -1;
    return style;
  }

  // Devices that cannot be told apart: as much of the width as there are devices of a style.
  bands(forest, first, count, x, y, w, h) {
    const numbers = new Uint32Array(this.styles.length);
    for (let leaf = first; leaf < first + count; leaf++) numbers[this.styleOf[forest.kind[leaf]]] += 1;
    for (let style = 0; style < numbers.length; style++) {
      if (!numbers[style]) continue;
      const width = (w * numbers[style]) / count;
      this.batches[style].push(x, y, width, h);
      x += width;
    }
  }

  flush() {
    const { context, paint } = this;
    this.rectangles(this.racks, paint.css.edge, paint.css.rack);
    this.rectangles(this.machines, paint.css.edge, paint.css.machine);
    this.styles.forEach((style, i) => {
      const batch = this.batches[i];
      context.fillStyle = style.fill;
      for (let at = 0; at < batch.length; at += 4) context.fillRect(batch[at], batch[at + 1], batch[at + 2], batch[at + 3]);
    });
    this.styles.forEach((style, i) => style.mark && this.marks(style, this.batches[i]));
    this.devices();
    this.fillNodes();
  }

  rectangles(found, line, fill) {
    const { context } = this;
    context.fillStyle = fill;
    context.strokeStyle = line;
    context.lineWidth = this.ratio;
    for (let at = 0; at < found.length; at += 4) {
      context.fillRect(found[at], found[at + 1], found[at + 2], found[at + 3]);
      if (found[at + 3] > 14 * this.ratio) context.strokeRect(found[at], found[at + 1], found[at + 2], found[at + 3]);
    }
  }

  marks(style, batch) {
    const { context } = this;
    if (!batch.length || batch[3] < MARK * this.ratio || this.tooSmall()) return;
    for (let at = 0; at < batch.length; at += 4) drawMark(context, style, batch[at], batch[at + 1], batch[at + 2], batch[at + 3]);
    if (style.mark !== "cross") return;
    context.strokeStyle = this.paint.css.cross;
    context.lineWidth = Math.max(1.2, batch[3] * 0.12);
    context.beginPath();
    for (let at = 0; at < batch.length; at += 4) addCross(context, batch[at], batch[at + 1], batch[at + 2], batch[at + 3]);
    context.stroke();
  }

  tooSmall() {
    return this.world.forests.every(({ sizes }) => sizes[1].h * this.k < DEVICE);
  }

  // What is written on devices, if they are large enough: number, group and priority.
  devices() {
    const { k, camera, world } = this;
    if (world.isNodes || 10 * k < 30 * this.ratio) return;
    for (const forest of world.forests) this.devicesOf(forest, k, camera);
  }

  devicesOf(forest, k, camera) {
    const from = { x: camera.x, y: camera.y, w: this.w / camera.scale, h: this.h / camera.scale };
    for (const leaf of visibleLeafs(forest, from)) {
      const kind = this.world.kindAt(forest, leaf);
      const { x, y, w } = placeOf({ forest, level: 1, index: leaf });
      const [px, py, width] = [(x - camera.x) * k, (y - camera.y) * k, w * k];
      const size = Math.min(13 * this.ratio, width * 0.2);
      const colour = contrast(this.styles[this.styleOf[forest.kind[leaf]]]);
      const lines = [ownName({ forest, level: 1, index: leaf }), (kind.group || kind.waiter).split("/").pop(), kind.state === "Free" ? "" : priorityText(kind.priority)];
      lines.forEach((line, i) => line && this.text(line, px + width * 0.07, py + size * (0.9 + 1.25 * i), width * 0.88, size, i === 0, colour));
    }
  }

  fillNodes() {
    const { context, paint, nodes } = this;
    for (let at = 0; at < nodes.length; at += 5) {
      const [node, x, y, w, h] = nodes.slice(at, at + 5);
      const [taken, there] = node.room[this.resource] || [0, 0];
      const health = this.mode === "health";
      const bad = !node.ready || !node.known;
      context.fillStyle = bad ? paint.css.bad : health ? paint.css.healthy : paint.css.free;
      context.fillRect(x, y, w, h);
      if (!health && there > 0) slots(context, paint, taken, there, x, y, w, h, bad);
      if (bad || node.cordoned) this.struck(x, y, w, h, bad);
      if (h > 24 * this.ratio) this.nodeText(node, taken, there, x, y, w, h, bad);
    }
  }

  struck(x, y, w, h, bad) {
    const { context } = this;
    context.strokeStyle = bad ? this.paint.css.cross : this.paint.css.ink;
    context.lineWidth = Math.max(1.2, h * 0.07);
    context.beginPath();
    context.moveTo(x + w * 0.3, y + h * 0.75);
    context.lineTo(x + w * 0.7, y + h * 0.25);
    if (bad) {
      context.moveTo(x + w * 0.3, y + h * 0.25);
      context.lineTo(x + w * 0.7, y + h * 0.75);
    }
    context.stroke();
  }

  nodeText(node, taken, there, x, y, w, h, bad) {
    const size = Math.min(13 * this.ratio, h * 0.2);
    const colour = bad ? this.paint.css.page : this.paint.css.ink;
    this.text(node.name, x + w * 0.06, y + h * 0.17, w * 0.88, size, true, colour);
    if (h > 46 * this.ratio) this.text(there ? `${amount(this.resource, taken)} / ${amount(this.resource, there)}` : `${node.pods} pods`, x + w * 0.06, y + h * 0.36, w * 0.88, size * 0.92, false, colour);
  }

  // What is chosen, pointed at or bound to a virtual cell.
  frames() {
    const { context, ratio } = this;
    for (const { cell, colour, width, dash = [], text = "" } of this.outlines) {
      const { x, y, w, h } = this.onScreen(placeOf(cell));
      const edge = (width * ratio) / 2;
      context.setLineDash(dash.map((length) => length * ratio));
      context.strokeStyle = colour;
      context.lineWidth = width * ratio;
      context.strokeRect(x * ratio - edge, y * ratio - edge, w * ratio + 2 * edge, h * ratio + 2 * edge);
      if (text) this.text(text, x * ratio, y * ratio - 9 * ratio, 400 * ratio, 12 * ratio, true, colour);
    }
    context.setLineDash([]);
  }

  text(text, x, y, width, size, bold = false, colour = this.paint.css.ink) {
    if (x > this.canvas.width || x + width < 0 || size < 7 * this.ratio) return;
    this.texts.push([text, x, y, width, size, bold, colour]);
  }

  write() {
    const { context } = this;
    context.textBaseline = "middle";
    for (const [text, x, y, width, size, bold, colour] of this.texts) {
      context.font = `${bold ? "600 " : ""}${Math.round(size)}px system-ui, "DejaVu Sans", sans-serif`;
      context.fillStyle = colour;
      context.fillText(shortened(context, text, width), x, y);
    }
  }
}

// A node's room: single devices if they are few, else a bar.
function slots(context, paint, taken, there, x, y, w, h, bad) {
  const colour = paint.load(taken / there);
  if (there > 16 || w < 14) {
    context.fillStyle = colour;
    const share = Math.min(1, taken / there);
    return void (bad || context.fillRect(x, y + h * (1 - share), w, h * share));
  }
  const top = h > 40 ? 0.5 : 0.12;
  const cols = Math.min(there, 8);
  const rows = Math.ceil(there / cols);
  const [stepX, stepY] = [(w * 0.88) / cols, (h * (0.92 - top)) / rows];
  for (let i = 0; i < there; i++) {
    context.fillStyle = i < taken ? paint.css.used : paint.css.machine;
    context.fillRect(x + w * 0.06 + (i % cols) * stepX, y + h * top + Math.floor(i / cols) * stepY, stepX * 0.82, stepY * 0.84);
  }
}

function* visibleLeafs(forest, view, level = forest.top, first = 0, count = forest.count) {
  for (let index = first; index < first + count; index++) {
    const { x, y, w, h } = placeOf({ forest, level, index });
    if (x > view.x + view.w || y > view.y + view.h || x + w < view.x || y + h < view.y) continue;
    if (level === 1) yield index;
    else yield* visibleLeafs(forest, view, level - 1, index * forest.levels[level - 1].fanout, forest.levels[level - 1].fanout);
  }
}

export const priorityText = (priority) => (priority < 0 ? "no guarantee" : `priority ${priority}`);

export function amount(resource, value) {
  if (resource === "cpu") return `${+(value / 1000).toFixed(1)} cores`;
  if (resource === "memory" || resource.endsWith("storage")) {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
    return `${+(value / 1024 ** power).toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
  }
  return String(value);
}

function contrast({ fill, mark, hole }) {
  const [r, g, b] = (mark === "ring" ? hole : fill).match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171b" : "#ffffff";
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? text.slice(0, low) + "…" : "";
}
