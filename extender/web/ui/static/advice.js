// What the algorithm says about a group that waits. Groups that it names lead to where they run.

import { element, link } from "./dom.js";

// One paragraph for each sentence; the first one is the verdict.
export function advice(world, sentences, onGroup) {
  return sentences.map((sentence, i) => element("p", { class: i ? "advice" : "advice verdict" }, ...linked(world, sentence, onGroup)));
}

// "train-1 (priority 3, 8 devices)": a name is what is followed by such a bracket.
function linked(world, sentence, onGroup) {
  world.devicesOf("");
  const names = [...(world.groups?.keys() || [])].filter((name) => sentence.includes(name + " ("));
  if (!names.length) return [sentence];
  const longestFirst = names.sort((a, b) => b.length - a.length).map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const parts = sentence.split(new RegExp(`(?<![^\\s])(${longestFirst.join("|")})(?= \\()`));
  return parts.map((part, i) => (i % 2 ? link(part, () => onGroup(part)) : part));
}
