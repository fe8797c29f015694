// Draws the hardware: what is to be seen, in as much detail as can be seen. Rectangles of one style are drawn together;
// text and marks only where there is room for them; cells whose devices are too small to be told apart as bands.

import { View } from "./camera.js";
import { around, cellAt, placeOf } from "./layout.js";
import { drawNodes } from "./nodes.js";
import { ownName } from "./world.js";
import { drawMark, inkOn } from "./paint.js";

// Pixels from which on something is drawn; a machine whose smaller devices all look alike is one rectangle.
const DEVICE = 1.4;
const WHOLE = 3.6;
const MARK = 5;
const FRAME = 7;
const TEXT = 9;
const WORDS = 110;

export class HardwareMap extends View {
  constructor(canvas, world, paint) {
    super(canvas);
    Object.assign(this, { world, paint, mode: "", resource: "", focusOwner: "", inFocus: () => true });
    this.context = canvas.getContext("2d", { alpha: false });
    this.batches = [];
    this.outlines = [];
    this.frame = 0;
    this.drawn = 0;
    this.milliseconds = 0;
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
    drawNodes(this, this.nodes);
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
    const cross = this.paint.css.cross;
    for (let at = 0; at < batch.length; at += 4) drawMark(context, style, batch[at], batch[at + 1], batch[at + 2], batch[at + 3], cross);
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
      const style = this.styles[this.styleOf[forest.kind[leaf]]];
      const left = style.mark === "ring" ? 10 : width * 0.07;
      const priority = width > WORDS * this.ratio ? priorityText(kind.priority) : kind.priority < 0 ? "" : `p${kind.priority}`;
      const lines = [ownName({ forest, level: 1, index: leaf }), (kind.group || kind.waiter).split("/").pop(), kind.state === "Free" ? "" : priority];
      lines.forEach((line, i) => line && this.text(line, px + left, py + size * (1.1 + 1.25 * i), width - 2 * left, size, i === 0, contrast(style)));
    }
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

function* visibleLeafs(forest, view, level = forest.top, first = 0, count = forest.count) {
  for (let index = first; index < first + count; index++) {
    const { x, y, w, h } = placeOf({ forest, level, index });
    if (x > view.x + view.w || y > view.y + view.h || x + w < view.x || y + h < view.y) continue;
    if (level === 1) yield index;
    else yield* visibleLeafs(forest, view, level - 1, index * forest.levels[level - 1].fanout, forest.levels[level - 1].fanout);
  }
}

export const priorityText = (priority) => (priority < 0 ? "no guarantee" : `priority ${priority}`);

const contrast = ({ fill, mark, hole }) => inkOn((mark === "ring" ? hole : fill).match(/\d+/g).map(Number));

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
