// Elements. Whatever comes from the cluster becomes text: nothing here reads HTML.

export const byId = (id) => document.getElementById(id);

// element("div", { class: "row", onclick }, "text", child, ...)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "background") made.style.background = value;
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export const link = (text, onclick) => element("button", { type: "button", class: "link", onclick }, text);

export const number = (value) => value.toLocaleString("en");

export function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) if (value !== "" && value !== null && value !== undefined) list.append(element("dt", {}, name), element("dd", {}, ...[value].flat()));
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
