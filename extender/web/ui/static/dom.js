// Elements. Whatever comes from the cluster becomes text: nothing here reads HTML.

import { follow } from "./address.js";

export const byId = (id) => document.getElementById(id);

// element("div", { class: "row", onclick }, "text", child, ...)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "background") made.style.background = value;
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
  return made;
}

export const link = (text, onclick) => element("button", { type: "button", class: "link", onclick }, text);

// A link to another part of this page; `href` is one of address.js.
export const anchor = (text, href, attributes = {}) => element("a", { href, onclick: follow, ...attributes }, text);

// Elements of pictures: drawing("path", { d: "..." }, child, ...)
export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// As kubectl writes it: 45s, 12m, 3h10m, 5d4h.
export function age(seconds) {
  if (seconds === null) return "";
  if (seconds < 120) return `${seconds}s`;
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (minutes < 120) return `${minutes}m`;
  if (hours < 48) return `${hours}h${minutes % 60 ? `${minutes % 60}m` : ""}`;
  return days < 10 && hours % 24 ? `${days}d${hours % 24}h` : `${days}d`;
}

export const number = (value) => value.toLocaleString("en");

export function facts(pairs) {
  const list = element("dl", { class: "facts" });
  for (const [name, value] of pairs) if (value !== "" && value !== null && value !== undefined && value !== false) list.append(element("dt", {}, name), element("dd", {}, ...[value].flat()));
  return list;
}

// Children of `parent` by key: those that stay keep their element, so that nothing that is open closes, no focus is lost
// and nothing jumps. `make` makes one that has `update(item)`.
export function keyed(parent, items, keyOf, make) {
  const known = (parent.known ||= new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, child] of known) if (!wanted.has(key)) known.delete(key), child.root.remove();
  let after = null;
  for (const item of items) {
    const key = keyOf(item);
    if (!known.has(key)) known.set(key, make(item));
    const child = known.get(key);
    child.update(item);
    const place = after ? after.nextSibling : parent.firstChild;
    if (place !== child.root) parent.insertBefore(child.root, place);
    after = child.root;
  }
}
