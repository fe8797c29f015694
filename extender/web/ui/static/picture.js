// A picture that the server drew as SVG. Names of strangers stand in it, so it is drawn anew from a list of what a picture
// may consist of: no script, no link, no style, nothing that is loaded.

import { drawing, element } from "./dom.js";

const TAGS = new Set(["svg", "g", "rect", "path", "text", "title", "defs", "marker", "line", "circle"]);
const ATTRIBUTES = new Set(["width", "height", "viewBox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "d", "fill", "stroke", "stroke-width", "font-size", "font-family", "font-weight", "text-anchor", "id", "refX", "refY", "markerWidth", "markerHeight", "orient", "marker-end", "role"]);
const MOST = 50000;

export function picture(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.tagName !== "svg" || root.querySelectorAll("*").length > MOST) return element("p", { class: "hint" }, "The picture cannot be shown.");
  return copied(root);
}

function copied(from) {
  const kept = [...from.attributes].filter(({ name, value }) => ATTRIBUTES.has(name) && (!/url\s*\(/i.test(value) || /^url\(#[\w-]+\)$/.test(value)));
  const children = [...from.childNodes].map((child) => (child.nodeType === Node.TEXT_NODE ? child.textContent : TAGS.has(child.tagName) ? copied(child) : ""));
  return drawing(from.tagName, Object.fromEntries(kept.map(({ name, value }) => [name, value])), ...children);
}
