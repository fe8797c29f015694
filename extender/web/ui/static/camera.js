// Which part of the hardware is to be seen, and how large. Units are those of layout.js, pixels are CSS pixels.

import { placeOf } from "./layout.js";

// What stays free around everything.
const EDGES = { above: 14, below: 14, beside: 14 };
const LARGEST = 16;

export class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.bounds = { w: 1, h: 1 };
    this.fits = true;
    this.arrange = () => this.bounds;
    // The first answer of the server may be quicker than the observer.
    this.measure();
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  measure() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(w * this.ratio));
    this.canvas.height = Math.max(1, Math.round(h * this.ratio));
    [this.w, this.h] = [w, h];
  }

  resize() {
    this.measure();
    if (this.fits) this.fill();
    this.draw();
  }

  // Lays everything out anew for this window, and shows all of it. `arrange` does that and says how large it is.
  fill() {
    this.bounds = this.arrange(Math.max(0.6, this.w / Math.max(1, this.h - EDGES.above - EDGES.below)));
    this.fit();
  }

  fit() {
    this.fits = true;
    this.look({ x: 0, y: 0, w: this.bounds.w, h: this.bounds.h }, EDGES);
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
    this.look(wide, EDGES);
    this.draw();
  }

  // So that a cell is inside of the window; nothing moves if it is.
  reveal(cell) {
    const { x, y, w, h } = this.onScreen(placeOf(cell));
    if (x >= 0 && y >= EDGES.above && x + w <= this.w && y + h <= this.h - EDGES.below) return;
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
    const next = Math.max(this.smallest || 1e-3, Math.min(LARGEST, scale * factor));
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
}
