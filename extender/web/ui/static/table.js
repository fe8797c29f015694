// A table that the server filters, sorts and pages. Filters, order and page stand in the address (address.js), so a table
// holds no more than a page of rows, and can be sent to somebody.

import { get, onChange, set } from "./address.js";
import { element, keyed, number } from "./dom.js";
import { ask } from "./feed.js";

const PAGE = 50;
const PAUSE = 3000;
const WAIT = 250;

// `columns`: {key, title, number, long, order, cell(row)}; `order` is what the server calls it. `states`: [value, text], ...
export class Table {
  constructor(root, { view, path, title, columns, states, order, descending = false, keyOf, tenantName }) {
    Object.assign(this, { root, view, path, title, columns, states, order, descending, keyOf, tenantName, asked: 0, number: 0, answer: null });
    this.build();
    onChange(() => this.shown && this.refresh());
  }

  get shown() {
    return (get("view") || "map") === this.view;
  }

  // -- what stays ---------------------------------------------------------------------------------------------------

  build() {
    const id = (name) => `${this.view}-${name}`;
    this.find = element("input", { id: id("find"), type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", oninput: () => this.typed() });
    this.namespace = element("select", { id: id("namespace"), onchange: ({ target }) => this.filter({ ns: target.value }) });
    this.tenant = element("select", { id: id("tenant"), onchange: ({ target }) => this.filter({ tenant: target.value }) });
    this.state = element("select", { id: id("state"), onchange: ({ target }) => this.filter({ state: target.value }) });
    this.state.append(...this.states.map(([value, text]) => element("option", { value }, text)));
    const field = (text, control) => element("p", { class: "field" }, element("label", { for: control.id }, text), control);
    this.tenantField = field(this.tenantName, this.tenant);
    const filters = element("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("Find", this.find), field("Namespace", this.namespace), this.tenantField, field("State", this.state));
    this.count = element("p", { class: "count-line", role: "status" });
    this.head = element("tr", { role: "row" });
    this.body = element("tbody", { role: "rowgroup" });
    this.none = element("p", { class: "none" });
    this.none.hidden = true;
    const table = element("table", { role: "table", "aria-label": this.title }, element("thead", { role: "rowgroup" }, this.head), this.body);
    this.earlier = element("button", { type: "button", onclick: () => this.turn(-1) }, "Previous");
    this.later = element("button", { type: "button", onclick: () => this.turn(1) }, "Next");
    const pages = element("nav", { class: "pages", "aria-label": `Pages of ${this.title.toLowerCase()}` }, this.earlier, this.later);
    this.root.append(element("h2", {}, this.title), filters, element("div", { class: "line" }, this.count, pages), element("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": `Table of ${this.title.toLowerCase()}` }, table), this.none);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.filter({ find: this.find.value.trim() }), WAIT);
  }

  filter(changes) {
    set({ ...changes, page: "" });
  }

  turn(by) {
    const page = this.page + by;
    set({ page: page ? String(page + 1) : "" }, true);
    this.root.querySelector("h2").scrollIntoView({ block: "nearest" });
  }

  sort(column) {
    const wasDown = this.sortedBy === column.order ? this.isDown : !column.number;
    set({ order: column.order, desc: wasDown ? "0" : "1", page: "" });
  }

  // -- what the address says ------------------------------------------------------------------------------------------

  get page() {
    return Math.max(0, (parseInt(get("page"), 10) || 1) - 1);
  }

  get sortedBy() {
    const wanted = get("order");
    return this.columns.some(({ order }) => order === wanted) && wanted ? wanted : this.order;
  }

  get isDown() {
    return get("desc") ? get("desc") === "1" : this.descending;
  }

  get query() {
    const known = this.states.some(([value]) => value === get("state"));
    const wanted = { find: get("find").slice(0, 200), namespace: get("ns").slice(0, 253), tenant: get("tenant").slice(0, 253), state: known ? get("state") : "", order: this.sortedBy, descending: this.isDown ? "true" : "", offset: this.page * PAGE, limit: PAGE };
    return new URLSearchParams(Object.entries(wanted).filter(([, value]) => value !== "")).toString();
  }

  // -- rows -----------------------------------------------------------------------------------------------------------

  // Something has changed in the cluster: asked about again after a while. Rows may lead to what is known by now.
  changed() {
    if (!this.shown) return;
    if (performance.now() - this.asked > PAUSE) this.refresh();
    else if (this.answer) this.show(this.answer);
  }

  async refresh() {
    this.asked = performance.now();
    const own = ++this.number;
    if (document.activeElement !== this.find) this.find.value = get("find");
    try {
      const answer = await ask(`${this.path}?${this.query}`);
      if (own === this.number) this.show(answer);
    } catch (error) {
      if (own === this.number) this.count.textContent = error.message;
    }
  }

  show(answer) {
    const { items, matching, total, offset } = (this.answer = answer);
    if (!items.length && matching && offset) return set({ page: String(Math.ceil(matching / PAGE)) });
    choices(this.namespace, "all", answer.namespaces, get("ns"));
    choices(this.tenant, "all", answer.tenants, get("tenant"));
    this.state.value = this.states.some(([value]) => value === get("state")) ? get("state") : "";
    this.tenantField.hidden = !answer.tenants.length && !get("tenant");
    const columns = this.columns.filter(({ key }) => key !== "tenant" || !this.tenantField.hidden);
    this.showHead(columns);
    const shape = columns.map(({ key }) => key).join();
    keyed(this.body, items, (row) => `${shape}\u0000${this.keyOf(row)}`, () => new Row(columns));
    const text = matching ? `${number(offset + 1)}–${number(offset + items.length)} of ${number(matching)}` : "none";
    put(this.count, matching === total ? text : `${text} (${number(total)} without filters)`);
    put(this.none, total ? "Nothing matches these filters." : "There are none.");
    this.none.hidden = items.length > 0;
    this.earlier.disabled = offset === 0;
    this.later.disabled = offset + items.length >= matching;
    return undefined;
  }

  showHead(columns) {
    const key = [columns.map((column) => column.key), this.sortedBy, this.isDown].join();
    if (key === this.headed) return;
    this.headed = key;
    const held = this.head.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.head.replaceChildren(...columns.map((column) => this.heading(column)));
    if (held) [...this.head.querySelectorAll("button")].find((each) => each.textContent === held)?.focus();
  }

  heading(column) {
    const { title, order, number: right } = column;
    const sorted = order && order === this.sortedBy ? (this.isDown ? "descending" : "ascending") : order ? "none" : undefined;
    const inner = order ? element("button", { type: "button", onclick: () => this.sort(column) }, title) : title;
    return element("th", { scope: "col", role: "columnheader", "aria-sort": sorted, "data-title": title, class: right ? "number" : undefined }, inner);
  }
}

class Row {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map(({ title, number: right, long }) => element("td", { role: "cell", "data-title": title, class: right ? "number" : long ? "long" : undefined }));
    this.root = element("tr", { role: "row" }, ...this.cells);
  }

  // A cell that is the same is not written again: no focus is lost, no selection of its text.
  update(row) {
    this.columns.forEach(({ cell }, i) => {
      const made = element("td", {}, ...[cell(row)].flat());
      const old = this.cells[i];
      if (old.innerHTML !== made.innerHTML) old.replaceChildren(...made.childNodes);
      old.classList.toggle("empty", !old.hasChildNodes());
    });
  }
}

// What there is to choose from; what is chosen is among it even if nothing has it now.
function choices(select, all, names, chosen) {
  const wanted = [...new Set([...names, ...(chosen ? [chosen] : [])])].sort();
  const key = JSON.stringify(wanted);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    select.replaceChildren(element("option", { value: "" }, all), ...wanted.map((name) => element("option", { value: name }, name)));
  }
  select.value = chosen;
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
