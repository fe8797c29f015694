// One pod beside a table: all that the server knows of it. It stands in the address as `pod`.

import { get, here, href, onChange, set } from "./address.js";
import { anchor, byId, element, facts, link, number } from "./dom.js";
import { explained, explanation, jsonLink } from "./explain.js";
import { badge } from "./lists.js";

const AGAIN = 10000;
const LINES = 30;

export class Detail {
  constructor({ world, onGroup }) {
    Object.assign(this, { world, onGroup, pod: "", asked: 0, content: null });
    this.root = byId("detail");
    onChange(() => this.update());
  }

  update() {
    const pod = get("view") && get("view") !== "map" ? get("pod") : "";
    this.root.hidden = !pod;
    if (pod === this.pod) return;
    [this.pod, this.content] = [pod, null];
    if (!pod) return void this.root.replaceChildren();
    this.fill(element("p", { class: "hint" }, "asking …"));
    this.ask();
    this.root.focus({ preventScroll: matchMedia("(min-width: 1000px)").matches });
  }

  // Something has changed in the cluster: what it says may lead to more groups by now, and is asked again after a while.
  changed() {
    if (this.pod && performance.now() - this.asked > AGAIN) this.ask();
    else if (this.content) this.fill(...this.content());
  }

  async ask() {
    const pod = this.pod;
    this.asked = Infinity;
    const slash = pod.indexOf("/");
    const [namespace, name] = [pod.slice(0, slash), pod.slice(slash + 1)];
    const content = await explained(namespace, name).then(
      (known) => () => this.told(namespace, name, known),
      (error) => () => [element("p", { class: "hint" }, error.message)],
    );
    this.asked = performance.now();
    if (pod !== this.pod) return;
    this.content = content;
    this.fill(...content());
  }

  fill(...content) {
    const close = link("close", () => this.close());
    const made = element("div", {}, element("div", { class: "detail-head" }, element("h2", {}, this.pod), close), ...content);
    if (this.root.firstElementChild?.innerHTML !== made.innerHTML) this.root.replaceChildren(made);
  }

  // The focus goes back to the table.
  close() {
    set({ pod: "" });
    document.querySelector(".view:not([hidden]) .sheet")?.focus();
  }

  told(namespace, name, known) {
    const { state, node, reason, gang, sinceSeconds } = known.pod;
    const list = facts([
      ["state", [badge(state), ` for ${number(Math.floor(sinceSeconds / 60))} min`]],
      ["reason", reason && `${reason.code}: ${reason.text}`],
      ["node", node && anchor(node, href({ cell: node }))],
      ["group", gang && anchor(gang, here({ view: "groups", find: gang, ns: namespace, state: "", page: "" }))],
    ]);
    const more = explanation(this.world, known, { onGroup: this.onGroup, lines: LINES });
    return [list, ...more, element("p", { class: "actions" }, link("ask again", () => this.ask()), " · ", jsonLink(namespace, name))];
  }
}
