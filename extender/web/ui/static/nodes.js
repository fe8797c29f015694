// Nodes, where an algorithm has no cells: each with what is taken of the resource that is shown.

import { addCross } from "./paint.js";

const TEXT = 24;
const MORE_TEXT = 46;

// `nodes` are those to be seen: node, x, y, w, h in turn.
export function drawNodes(map, nodes) {
  const { context, paint, mode } = map;
  for (let at = 0; at < nodes.length; at += 5) {
    const [node, x, y, w, h] = nodes.slice(at, at + 5);
    const [taken, there] = node.room[map.resource] || [0, 0];
    const bad = !node.ready || !node.known;
    context.fillStyle = bad ? paint.css.bad : mode === "health" ? paint.css.healthy : paint.css.free;
    context.fillRect(x, y, w, h);
    if (mode !== "health" && there > 0) slots(context, paint, taken, there, x, y, w, h, bad);
    if (bad || node.cordoned) strike(map, x, y, w, h, bad);
    if (h > TEXT * map.ratio) label(map, node, taken, there, x, y, w, h, bad);
  }
}

// A cross: not ready. One stroke: cordoned. In a corner if there is something to read.
function strike({ context, paint, ratio }, x, y, w, h, bad) {
  const corner = h > TEXT * ratio;
  const side = h * (corner ? 0.3 : 0.75);
  const [left, up] = corner ? [x + w - side * 1.15, y + side * 0.15] : [x + (w - side) / 2, y + (h - side) / 2];
  context.strokeStyle = bad ? paint.css.cross : paint.css.ink;
  context.lineWidth = Math.max(1.2, side * 0.16);
  context.beginPath();
  if (bad) {
    addCross(context, left, up, side, side);
  } else {
    context.moveTo(left + side * 0.2, up + side * 0.8);
    context.lineTo(left + side * 0.8, up + side * 0.2);
  }
  context.stroke();
}

function label(map, node, taken, there, x, y, w, h, bad) {
  const size = Math.min(13 * map.ratio, h * 0.2);
  const colour = bad ? map.paint.css.page : map.paint.css.ink;
  map.text(node.name, x + w * 0.06, y + h * 0.17, w * (bad || node.cordoned ? 0.7 : 0.88), size, true, colour);
  if (h > MORE_TEXT * map.ratio && there) map.text(share(map.resource, taken, there), x + w * 0.06, y + h * 0.36, w * 0.88, size * 0.92, false, colour);
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

// "25 of 64 cores"
export function share(resource, taken, there) {
  const [divisor, unit] = unitOf(resource, there);
  const shown = (value) => +(value / divisor).toFixed(1);
  return `${shown(taken)} of ${shown(there)}${unit}`;
}

function unitOf(resource, value) {
  if (resource === "cpu") return [1000, " cores"];
  if (resource !== "memory" && !resource.endsWith("storage")) return [1, ""];
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return [1024 ** power, " " + ["B", "KiB", "MiB", "GiB", "TiB"][power]];
}
