// Nodes, where an algorithm has no cells: each with what is taken of the resource that is shown.

import { addCross, css, inkOn, mix } from "./paint.js";

const TEXT = 24;
const MORE_TEXT = 46;

// `nodes` are those to be seen: node, x, y, w, h in turn.
export function drawNodes(map, nodes) {
  const { context, paint, mode } = map;
  for (let at = 0; at < nodes.length; at += 5) {
    const [node, x, y, w, h] = nodes.slice(at, at + 5);
    const [taken, there] = node.room[map.resource] || [0, 0];
    const bad = !node.ready || !node.known;
    const fill = bad ? paint.base.bad : mode === "health" ? paint.base.healthy : paint.base.free;
    context.fillStyle = css(fill);
    context.fillRect(x, y, w, h);
    if (mode !== "health" && there > 0) slots(map, shares(map, node, taken, there), there, x, y, w, h, bad);
    if (bad || node.cordoned) strike(map, x, y, w, h, bad);
    if (h > TEXT * map.ratio) label(map, node, taken, there, x, y, w, h, bad, inkOn(fill));
  }
}

// How much of a resource each owner takes, with its colour: [amount, colour], ...
function shares(map, node, taken, there) {
  const { paint, mode, focusOwner } = map;
  const pale = css(mix(paint.base.used, paint.base.machine, 0.8));
  if (mode !== "owner") {
    const of = focusOwner ? amountOf(node, focusOwner, map.resource) : taken;
    return [[of, paint.load(taken / there)], [taken - of, pale]];
  }
  return node.owners.map(([owner, amounts]) => [amounts[map.resource] || 0, !focusOwner || focusOwner === owner ? css(paint.owner(owner)) : pale]);
}

const amountOf = (node, owner, resource) => node.owners.find(([name]) => name === owner)?.[1][resource] || 0;

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

function label(map, node, taken, there, x, y, w, h, bad, colour) {
  const size = Math.min(13 * map.ratio, h * 0.2);
  map.text(node.name, x + w * 0.06, y + h * 0.17, w * (bad || node.cordoned ? 0.7 : 0.88), size, true, colour);
  if (h > MORE_TEXT * map.ratio && there) map.text(share(map.resource, taken, there), x + w * 0.06, y + h * 0.36, w * 0.88, size * 0.92, false, colour);
}

// A node's room: single devices if they are few, else a bar from below that leaves the text free.
function slots({ context, paint, ratio }, parts, there, x, y, w, h, bad) {
  if (there > 16 || w < 14) return void (bad || bar(context, parts, there, x, h > TEXT * ratio ? y + h * 0.5 : y, w, h > TEXT * ratio ? h * 0.5 : h));
  const top = h > TEXT * ratio ? (h > MORE_TEXT * ratio ? 0.5 : 0.36) : 0.12;
  const cols = Math.min(there, 8);
  const rows = Math.ceil(there / cols);
  const [stepX, stepY] = [(w * 0.88) / cols, (h * (0.92 - top)) / rows];
  const colours = parts.flatMap(([amount, colour]) => Array(Math.max(0, Math.min(amount, there))).fill(colour));
  for (let i = 0; i < there; i++) {
    context.fillStyle = colours[i] || paint.css.machine;
    context.fillRect(x + w * 0.06 + (i % cols) * stepX, y + h * top + Math.floor(i / cols) * stepY, stepX * 0.82, stepY * 0.84);
  }
}

function bar(context, parts, there, x, y, w, h) {
  let up = y + h;
  for (const [amount, colour] of parts) {
    const height = Math.min(up - y, h * Math.min(1, amount / there));
    context.fillStyle = colour;
    context.fillRect(x, up - height, w, height);
    up -= height;
  }
}

// "25 of 64 cores"
export function share(resource, taken, there) {
  return `${amount(resource, taken, there)} of ${amount(resource, there, there)}${unit(resource, there)}`;
}

// A figure in the unit that suits `there`, and that unit: " cores", " GiB", or nothing for devices.
export const amount = (resource, value, there) => (+(value / unitOf(resource, there)[0]).toFixed(1)).toLocaleString("en");
export const unit = (resource, there) => unitOf(resource, there)[1];

function unitOf(resource, value) {
  if (resource === "cpu") return [1000, " cores"];
  if (resource !== "memory" && !resource.endsWith("storage")) return [1, ""];
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return [1024 ** power, " " + ["B", "KiB", "MiB", "GiB", "TiB"][power]];
}
