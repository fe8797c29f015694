// The tables of pods and of groups: which columns they have, and where their rows lead.

import { here, href } from "./address.js";
import { age, anchor, element, number } from "./dom.js";
import { Table } from "./table.js";

export const badge = (text, kind = text.toLowerCase()) => element("span", { class: `badge ${kind}` }, text);

// Where a pod is told of, beside the table that is shown.
export const podLink = (namespace, name, text = name) => anchor(text, here({ pod: `${namespace}/${name}` }), { title: `why ${namespace}/${name} is where it is` });

// HiveD's tenants run below all priorities what they have no guarantee for.
const priority = (row) => (row.tenant && row.priority < 0 ? "no guarantee" : number(row.priority));

export function podTable(root, tenantName) {
  const node = (row) => (row.node ? anchor(row.node, href({ cell: row.node })) : "");
  const state = ({ state, code }) => [badge(state), code && element("span", { class: "code" }, ` ${code}`)];
  const columns = [
    { key: "name", title: "Pod", long: true, order: "name", cell: (row) => podLink(row.namespace, row.name) },
    { key: "namespace", title: "Namespace", long: true, order: "namespace", cell: ({ namespace }) => namespace },
    { key: "state", title: "State", long: true, order: "state", cell: state },
    { key: "node", title: "Node", order: "node", cell: node },
    { key: "group", title: "Group", long: true, order: "group", cell: ({ namespace, group }) => (group ? anchor(group, href({ view: "groups", find: group, ns: namespace })) : "") },
    { key: "tenant", title: tenantName, long: true, order: "tenant", cell: ({ tenant }) => tenant },
    { key: "devices", title: "Devices", order: "devices", number: true, cell: ({ devices }) => number(devices) },
    { key: "priority", title: "Priority", order: "priority", number: true, cell: priority },
    { key: "age", title: "Age", order: "age", number: true, cell: (row) => age(row.age) },
    { key: "explain", title: "Why", cell: (row) => podLink(row.namespace, row.name, "explain") },
  ];
  const states = [["", "all"], ["Waiting", "Waiting"], ["Preempting", "Preempting"], ["Binding", "Binding"], ["Bound", "Bound"]];
  return new Table(root, { view: "pods", path: "v1/inspect/table/pods", title: "Pods", columns, states, order: "name", keyOf: ({ namespace, name }) => `${namespace}/${name}`, tenantName });
}

export function groupTable(root, world, tenantName) {
  const name = (row) => [anchor(row.name, row.alone ? href({ view: "pods", pod: `${row.namespace}/${row.name}`, find: row.name, ns: row.namespace }) : href({ view: "pods", find: row.name, ns: row.namespace }), { title: `pods of ${row.name}` }), row.alone && element("span", { class: "code" }, " one pod")];
  const state = (row) => (row.preempting ? [badge("Preempting"), why(row)] : row.waiting ? [badge(row.pods > row.waiting ? "Partly" : "Waiting"), why(row)] : badge(row.binding ? "Binding" : "Running"));
  const why = ({ code }) => code && element("span", { class: "code" }, ` ${code}`);
  const map = (row) => (world.isNodes || !world.devicesOf(row.name).length ? [] : [anchor("map", href({ group: row.name })), " "]);
  const columns = [
    { key: "name", title: "Group", long: true, order: "name", cell: name },
    { key: "namespace", title: "Namespace", long: true, order: "namespace", cell: ({ namespace }) => namespace },
    { key: "tenant", title: tenantName, long: true, order: "tenant", cell: ({ tenant }) => tenant },
    { key: "state", title: "State", long: true, cell: state },
    { key: "running", title: "Running", order: "running", number: true, cell: ({ running, pods }) => `${number(running)} of ${number(pods)}` },
    { key: "devices", title: "Devices", order: "devices", number: true, cell: ({ devices }) => number(devices) },
    { key: "nodes", title: "Nodes", order: "nodes", number: true, cell: ({ nodes }) => number(nodes) },
    { key: "priority", title: "Priority", order: "priority", number: true, cell: priority },
    { key: "age", title: "Age", order: "age", number: true, cell: (row) => age(row.age) },
    { key: "explain", title: "Why", cell: (row) => [...map(row), podLink(row.namespace, row.example, "explain")] },
  ];
  const states = [["", "all"], ["running", "some pods run"], ["waiting", "some pods wait"]];
  return new Table(root, { view: "groups", path: "v1/inspect/table/groups", title: "Groups", columns, states, order: "devices", descending: true, keyOf: ({ namespace, name, alone }) => `${namespace}/${name}/${alone}`, tenantName });
}
