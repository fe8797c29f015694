// What is looked at stands in the page's address: it can be sent to somebody, reloaded, and Back leads back.

const listeners = [];
let query = new URLSearchParams(location.search);

// What a link to another view takes along.
const KEPT = ["colour", "resource"];
const FILTERS = ["find", "ns", "tenant"];

export const get = (name) => query.get(name) || "";

// Changes the address; "" removes. With `push` the browser's Back undoes it.
export function set(changes, push = false) {
  go(changed(query, changes), push);
}

// An address that has nothing but `changes`, and how the map is coloured. With `filters`, what is filtered for stays, too.
export function href(changes, filters = false) {
  const kept = [...KEPT, ...(filters ? FILTERS : [])].map((name) => [name, get(name)]);
  return location.pathname + text(changed(new URLSearchParams(), { ...Object.fromEntries(kept), ...changes }));
}

// The present address with these changes.
export const here = (changes) => location.pathname + text(changed(query, changes));

// Follows a link of `href` or `here` without loading the page again.
export function follow(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(new URLSearchParams(new URL(event.currentTarget.href).search), true);
}

export function onChange(listener) {
  listeners.push(listener);
}

function changed(from, changes) {
  const next = new URLSearchParams(from);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

function go(next, push) {
  if (next.toString() === query.toString()) return;
  query = next;
  history[push ? "pushState" : "replaceState"](null, "", location.pathname + text(query));
  tell();
}

const text = (of) => (of.size ? "?" + of : "");

function tell() {
  for (const listener of listeners) listener();
}

addEventListener("popstate", () => {
  query = new URLSearchParams(location.search);
  tell();
});
