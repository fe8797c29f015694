// A small picture of one figure over the last hour, or the last `span` seconds. Right is now; what was before the process began is left empty.

import { drawing, element, number } from "./dom.js";

const HOUR = 3600;
const [W, H] = [240, 40];

// `points` are [seconds, value], oldest first; `most` is drawn as a line above. null without two points.
export function spark(points, { name, most = 0, say = number, span = HOUR, over = "the last hour" }) {
  if (points.length < 2) return null;
  const end = points.at(-1)[0];
  const values = points.map(([, value]) => value);
  const [least, peak] = [Math.min(...values), Math.max(...values)];
  const top = Math.max(most, peak, 1) * 1.06;
  const x = (at) => +(W - ((end - at) / span) * W).toFixed(1);
  const y = (value) => +(H - (value / top) * H).toFixed(1);
  // Steps: nobody knows what was between two samples.
  const line = points.map(([at, value], i) => (i ? `H${x(at)}V${y(value)}` : `M${x(at)},${y(value)}`)).join("");
  const label = `${name} over ${over}: least ${say(least)}, most ${say(peak)}, now ${say(values.at(-1))}`;
  const picture = drawing("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "spark" });
  picture.append(drawing("title", {}, label), drawing("path", { class: "area", d: `${line}V${H}H${x(points[0][0])}Z` }), drawing("path", { class: "line", d: line }));
  if (most) picture.append(drawing("path", { class: "most", d: `M0,${y(most)}H${W}` }));
  return element("div", { class: "graph" }, picture, element("span", { class: "peak", "aria-hidden": "true" }, `max ${say(peak)}`));
}
