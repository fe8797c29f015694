// Where everything is, in units of which a device is 10 wide: cells of a level are equally large, so a place is computed,
// never stored, whatever the number of machines.

const DEVICE = { w: 10, h: 10 };
const NODE = { w: 69, h: 46 };
const BETWEEN = 40;
// So many forests stand beside each other at most.
const WIDEST = 24;

// For each forest: `sizes[level]` of a cell {w, h, cols, gap, pad, head}, and its own {x, y, w, h}. Of several ways to
// divide the window between the forests the one that shows them largest is taken. The size of all together.
export function arrange(forests, aspect) {
  for (const forest of forests) forest.sizes = sizesOf(forest);
  const aspects = forests.length === 1 ? [aspect] : [0.6, 1, 1.6, 2.6, 4].map((each) => Math.min(aspect * 4, each));
  let best = null;
  for (const each of aspects) {
    for (const forest of forests) block(forest, each, forests.length === 1);
    const wide = forests.map(({ w }) => w);
    for (let number = 1; number <= Math.min(WIDEST, forests.length); number++) {
      const width = wide.slice(0, number).reduce((sum, w) => sum + w + BETWEEN, 1);
      const { w, h } = shelves(forests, width);
      const scale = Math.min(aspect / w, 1 / h);
      if (!best || scale > best.scale) best = { scale, each, width };
    }
  }
  for (const forest of forests) block(forest, best.each, forests.length === 1);
  return best ? shelves(forests, best.width) : { w: 1, h: 1 };
}

function sizesOf(forest) {
  const sizes = [null];
  forest.levels.forEach(({ fanout }, i) => {
    const level = i + 1;
    if (level === 1) {
      sizes.push(forest.nodes ? NODE : DEVICE);
      return;
    }
    const machine = level === forest.machineLevel;
    const higher = level > forest.machineLevel;
    const gap = level === 2 ? 1.4 : higher ? 4 + 4 * (level - forest.machineLevel) : 3;
    const pad = higher ? 4 + 2 * (level - forest.machineLevel) : machine ? 2.5 : 0;
    const head = higher ? 12 : machine ? 4.5 : 0;
    sizes.push(grid(sizes[level - 1], fanout, { gap, pad, head }, higher ? 1.5 : 2.2));
  });
  return sizes;
}

function grid(cell, count, { gap, pad, head }, aspect) {
  let best = null;
  for (let cols = 1; cols <= count; cols++) {
    const rows = Math.ceil(count / cols);
    const w = cols * (cell.w + gap) - gap + 2 * pad;
    const h = rows * (cell.h + gap) - gap + 2 * pad + head;
    const cost = Math.abs(Math.log(w / h / aspect)) + (1.5 * (rows * cols - count)) / (rows * cols);
    if (!best || cost < best.cost) best = { w, h, cols, gap, pad, head, cost };
  }
  return best;
}

function block(forest, aspect, alone) {
  const cell = forest.sizes[forest.top];
  const gap = forest.top > forest.machineLevel ? 16 : forest.nodes ? 6 : 7;
  const head = Math.max(18, (alone ? 0.03 : 0.06) * Math.sqrt(cell.w * cell.h * forest.count));
  forest.block = grid(cell, forest.count, { gap, pad: 0, head }, aspect);
  forest.w = forest.block.w;
  forest.h = forest.block.h;
}

function shelves(forests, width) {
  let [x, y, height, right] = [0, 0, 0, 0];
  for (const forest of forests) {
    if (x > 0 && x + forest.w > width) [x, y, height] = [0, y + height + BETWEEN, 0];
    [forest.x, forest.y] = [x, y];
    x += forest.w + BETWEEN;
    height = Math.max(height, forest.h);
    right = Math.max(right, forest.x + forest.w);
  }
  return { w: right, h: y + height };
}

// How the cells of `level` stand in what is around them; for those of the highest level that is the forest.
export const around = (forest, level) => (level === forest.top ? forest.block : forest.sizes[level + 1]);

// {x, y, w, h} of a cell.
export function placeOf({ forest, level, index }) {
  const { w, h } = forest.sizes[level];
  const outer = around(forest, level);
  const fanout = level === forest.top ? forest.count : forest.levels[level].fanout;
  const number = index % fanout;
  const base = level === forest.top ? forest : placeOf({ forest, level: level + 1, index: Math.floor(index / fanout) });
  return {
    x: base.x + outer.pad + (number % outer.cols) * (w + outer.gap),
    y: base.y + outer.pad + outer.head + Math.floor(number / outer.cols) * (h + outer.gap),
    w,
    h,
  };
}

// Where the leafs of a cell are in it.
export function leafPlaces(forest, level) {
  const places = [];
  for (let i = 0; i < forest.levels[level - 1].leafs; i++) {
    const { x, y } = placeOf({ forest, level: 1, index: i });
    const { x: left, y: up } = placeOf({ forest, level, index: 0 });
    places.push([x - left, y - up]);
  }
  return places;
}

// The innermost cell at a point of which at least `least` units are to be seen; null beside all cells.
export function cellAt(forests, x, y, least) {
  for (const forest of forests) {
    if (x < forest.x || y < forest.y || x > forest.x + forest.w || y > forest.y + forest.h) continue;
    return innermost(forest, x - forest.x, y - forest.y, least);
  }
  return null;
}

function innermost(forest, x, y, least) {
  let found = null;
  let count = forest.count;
  for (let level = forest.top; level >= 1 && (!found || forest.sizes[level].h >= least); level--) {
    const { w, h } = forest.sizes[level];
    const { cols, gap, pad, head } = around(forest, level);
    const column = Math.floor((x - pad) / (w + gap));
    const row = Math.floor((y - pad - head) / (h + gap));
    const number = row * cols + column;
    x -= pad + column * (w + gap);
    y -= pad + head + row * (h + gap);
    if (column < 0 || row < 0 || column >= cols || number >= count || x > w || y > h) break;
    found = { forest, level, index: (found ? found.index * count : 0) + number };
    count = forest.levels[level - 1].fanout;
  }
  return found;
}
