// Plans: what would happen if a manifest were applied, or something else changed. The server makes a plan when it is asked,
// and changes nothing. What was typed stays on this page: it does not stand in the address.

import { byId, element, link, number } from "./dom.js";
import { post } from "./feed.js";
import { badge } from "./lists.js";
import { picture } from "./picture.js";

// Rows, and lines of each list. A plan may take a minute.
const ROWS = 500;
const LINES = 20;
const PATIENCE = 90000;
const SIGNS = { "+": ["runs", "plan-runs"], "~": ["moves", "plan-moves"], "-": ["evicted", "plan-evicted"], "?": ["waits", "plan-waits"], "=": ["stays", ""] };
const EXAMPLE = `apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: default}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: example.com/train
          resources: {requests: {cpu: "4"}, limits: {example.com/gpu: 8}}
`;
// Name, label, what it becomes in the request; "" in none.
const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const FIELDS = [
  ["drain", "Drain nodes", "gpu-00, gpu-01", words],
  ["cordon", "Cordon nodes", "gpu-00", words],
  ["delete", "Delete", "Job/default/train", words],
  ["add_nodes", "Add nodes: how many", "4", Number],
  ["node_shape", "of this shape", "cpu=64,memory=256Gi,example.com/gpu=8", String],
  ["algorithm", "Another algorithm", "packing", String],
];

export class Plans {
  constructor() {
    this.root = byId("view-plan");
    this.text = element("textarea", { id: "plan-text", spellcheck: "false", autocomplete: "off", placeholder: "YAML or JSON, any number of documents. Empty: what waits now." });
    this.fields = FIELDS.map(([name, , example]) => element("input", { id: `plan-${name}`, name, placeholder: example, maxlength: 4000, autocomplete: "off", spellcheck: "false" }));
    const ifs = FIELDS.map(([name, label], index) => element("label", { for: `plan-${name}` }, label, this.fields[index]));
    this.button = element("button", { type: "submit" }, "Plan");
    this.state = element("span", { class: "hint", role: "status" });
    const example = link("An example", () => ((this.text.value = EXAMPLE), this.text.focus()));
    const form = element(
      "form",
      { class: "plan-form", onsubmit: (event) => (event.preventDefault(), this.ask()) },
      element("label", { for: "plan-text" }, "What would happen if this were applied?"),
      this.text,
      element("details", {}, element("summary", {}, "What if something else changed, too?"), element("div", { class: "plan-ifs" }, ...ifs)),
      element("div", { class: "plan-buttons" }, this.button, example, this.state),
    );
    this.result = element("div", { class: "plan-result" });
    this.root.append(element("h2", {}, "Plan"), form, this.result);
  }

  request() {
    const given = FIELDS.map(([name, , , read], index) => [name, this.fields[index].value.trim(), read]).filter(([, text]) => text);
    const changes = Object.fromEntries(given.map(([name, text, read]) => [name, read(text)]));
    return { manifests: this.text.value, ...changes, compare: given.length > 0, graph: true };
  }

  async ask() {
    if (this.button.disabled) return;
    this.button.disabled = true;
    this.state.textContent = "planning…";
    const began = performance.now();
    const found = await post("v1/plan", this.request(), PATIENCE).catch((error) => error);
    this.button.disabled = false;
    const isFault = found instanceof Error;
    this.state.textContent = isFault ? "there is no plan" : `planned in ${((performance.now() - began) / 1000).toFixed(1)} s`;
    this.result.replaceChildren(...(isFault ? [element("p", { class: "plan-fault", role: "alert" }, found.message)] : shown(found)));
  }
}

function shown({ plan, difference, graph }) {
  // What the manifests make comes first: on a busy cluster much else waits.
  const rows = [...(plan.rows || [])].sort((a, b) => Number(!a.origin) - Number(!b.origin));
  return [
    element("p", { class: "plan-verdict" }, verdict(plan)),
    difference && differs(difference),
    plan.stopped && element("p", { class: "plan-fault" }, `It was stopped: ${plan.stopped}`),
    rows.length > 0 && table(rows),
    rows.length > ROWS && element("p", { class: "hint" }, `and ${number(rows.length - ROWS)} more`),
    graph && rows.length > 0 && element("section", {}, element("h3", {}, "Waves and what waits for what"), element("div", { class: "plan-graph", tabindex: 0, role: "group", "aria-label": "Graph of the plan" }, picture(graph))),
    notes("Kinds that plans do not know", plan.unknown || []),
    notes("What this plan does not consider", plan.warnings || []),
    element("p", { class: "hint" }, `Nothing was changed. Algorithm ${plan.algorithm || "unknown"}, ${number(plan.attempts || 0)} attempts, state ${plan.fingerprint || "unknown"}.`),
  ].filter(Boolean);
}

function verdict({ total, rows }) {
  const parts = [["runs", "run"], ["moves", "move"], ["evicted", "be evicted"], ["waits", "wait"]].map(([name, text]) => total && total[name] > 0 && `${number(total[name])} will ${text}`);
  return parts.filter(Boolean).join(", ") || (rows?.length ? "nothing changes" : "nothing waits, and nothing changes");
}

// The words are those of `waggle plan`.
function differs({ gangs_more, gangs_fewer, pods_more, pods_fewer, pods_deleted, changed }) {
  const others = (changed || []).length;
  if (!others) return element("p", {}, "The change makes no difference.");
  const more = (what, plus, minus) => (plus || minus) && `${number(plus)} ${what}${plus === 1 ? "" : "s"} more would run, ${number(minus)} fewer`;
  const parts = [more("gang", (gangs_more || []).length, (gangs_fewer || []).length), more("pod", pods_more || 0, pods_fewer || 0)].filter(Boolean);
  if (pods_deleted) parts.push(`${number(pods_deleted)} pod${pods_deleted === 1 ? " is" : "s are"} deleted by the change`);
  const same = `as much would run; ${number(others)} object${others === 1 ? "" : "s"} would have another place, order or reason`;
  return element("p", {}, "Against the same without these changes: ", parts.join("; ") || same);
}

const COLUMNS = ["What", "Object", "Node", "Why", "What would help"];

function table(rows) {
  const head = element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)));
  const cell = (name, content, kind) => element("td", { "data-title": name, class: kind }, content);
  const line = ({ sign, kind, namespace, name, node, before, code, text, fix }) => {
    const [word, colour] = SIGNS[sign] || [sign, ""];
    const contents = [badge(`${sign} ${word}`, colour), `${kind} ${namespace ? `${namespace}/` : ""}${name}`, before && node !== before ? `${before} → ${node || "nowhere"}` : node, text || code, fix];
    return element("tr", {}, ...COLUMNS.map((title, index) => cell(title, contents[index] || "", index > 2 ? "long" : undefined)));
  };
  return element("div", { class: "sheet", tabindex: 0, role: "group", "aria-label": "The plan" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.slice(0, ROWS).map(line))));
}

function notes(title, texts) {
  if (!texts.length) return null;
  const more = texts.length > LINES ? [element("li", {}, `and ${number(texts.length - LINES)} more`)] : [];
  return element("section", {}, element("h3", {}, title), element("ul", { class: "plan-notes" }, ...texts.slice(0, LINES).map((text) => element("li", {}, text)), ...more));
}
