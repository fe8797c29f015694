// The owners, where the map shows nodes: namespaces with what they take of the resource that is shown.

import { href } from "./address.js";
import { anchor, byId, element, keyed, number } from "./dom.js";
import { amount, unit } from "./nodes.js";
import { css } from "./paint.js";

const SHOWN = 200;

export class OwnerList {
  constructor({ world, paint, onFocus }) {
    Object.assign(this, { world, paint, onFocus, focus: "" });
    this.root = byId("owners");
    this.none = element("p", { class: "none" }, "No pod takes any of it.");
  }

  // [owner, amount] of the resource, the largest first; the small ones of crowded nodes together as "".
  of(resource) {
    const found = [...this.world.owners].map(([owner, amounts]) => [owner, amounts[resource] || 0]).filter(([, taken]) => taken > 0);
    return found.sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  }

  update(resource) {
    const [, there] = this.world.total(resource);
    const found = this.of(resource);
    this.none.remove();
    keyed(this.root, found.slice(0, SHOWN).map(([owner, taken]) => ({ owner, taken, there, resource })), ({ owner }) => owner, (each) => new Line(this, each.owner));
    if (!found.length) this.root.append(this.none);
  }

  toggle(owner) {
    this.focus = this.focus === owner ? "" : owner;
    this.onFocus(this.focus);
  }
}

class Line {
  constructor(list, owner) {
    Object.assign(this, { list, owner });
    this.swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    this.side = element("span", { class: "side" });
    this.fill = element("span", { class: "fill" });
    const name = owner || "others, on crowded nodes";
    this.head = element("button", { type: "button", "aria-pressed": "false", onclick: () => list.toggle(owner) }, element("span", { class: "row" }, this.swatch, element("span", { class: "name", title: name }, name), this.side), element("span", { class: "meter", "aria-hidden": "true" }, this.fill));
    const links = owner && element("p", { class: "actions" }, anchor("groups", href({ view: "groups", ns: owner })), " · ", anchor("pods", href({ view: "pods", ns: owner })));
    this.root = element("div", { class: "item" }, this.head, links);
  }

  update({ owner, taken, there, resource }) {
    const colour = css(this.list.paint.owner(owner));
    const percent = there ? (100 * taken) / there : 0;
    this.side.textContent = `${amount(resource, taken, there)}${unit(resource, there)} · ${number(Math.floor(percent))} %`;
    this.swatch.style.background = this.fill.style.background = colour;
    this.fill.style.width = `${Math.min(100, percent).toFixed(1)}%`;
    this.head.setAttribute("aria-pressed", String(this.list.focus === owner));
  }
}
