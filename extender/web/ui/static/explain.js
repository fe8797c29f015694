// All that the server knows of one pod, for the list of those that wait and for tables. Explaining is work for the server,
// so it is asked only about what is open.

import { advice } from "./advice.js";
import { element, number } from "./dom.js";
import { ask } from "./feed.js";

const LINES = 8;
const LONGEST = 300;

const pathOf = (namespace, name) => `v1/explain/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export const explained = (namespace, name) => ask(pathOf(namespace, name));

// The same for other programs, in a tab of its own.
export const jsonLink = (namespace, name) =>
  element("a", { href: pathOf(namespace, name), target: "_blank", rel: "noopener" }, "as JSON");

// Elements with headings of this level.
export function explanation(world, { pod, reason, advice: sentences, nodes, nearest, story }, { onGroup, heading = "h3", lines = LINES }) {
  const part = (title, texts) => (texts.length ? [element(heading, {}, title), ...texts.map((text) => element("div", {}, shortened(text)))] : []);
  const scheduler = pod.kubeScheduler && !reason?.text.includes(pod.kubeScheduler) ? [pod.kubeScheduler] : [];
  return [
    ...advice(world, sentences, onGroup),
    ...part("Pod", [`${pod.namespace}/${pod.name}, priority ${pod.priority}, ${number(pod.attempts)} attempt${pod.attempts === 1 ? "" : "s"}`]),
    ...part("kube-scheduler says", scheduler),
    ...part("Nodes", sentences.length ? [] : byReason(nodes)),
    ...part("Nearest", nearest),
    ...part("Story", story.slice(-lines)),
  ];
}

const shortened = (line) => (line.length > LONGEST ? `${line.slice(0, LONGEST)} …` : line);

// Thousands of nodes say a few things.
function byReason(nodes) {
  const found = new Map();
  for (const [name, { text }] of Object.entries(nodes)) found.set(text, [...(found.get(text) || []), name]);
  const sorted = [...found].sort(([, a], [, b]) => b.length - a.length).slice(0, LINES);
  return sorted.map(([text, names]) => `${names.length === 1 ? names[0] : `${number(names.length)} nodes`}: ${text}`);
}
