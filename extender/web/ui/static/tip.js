// What is said beside the pointer.

import { byId, element } from "./dom.js";

export function showTip(map, lines, x = 0, y = 0) {
  const tip = byId("tip");
  tip.hidden = !lines.length;
  if (!lines.length) return;
  tip.replaceChildren(element("b", {}, lines[0]), ...lines.slice(1).map((line) => element("div", {}, line)));
  const left = x + 16 + tip.offsetWidth > map.w ? Math.max(4, x - tip.offsetWidth - 14) : x + 16;
  const top = y + 18 + tip.offsetHeight > map.h ? Math.max(4, y - tip.offsetHeight - 12) : y + 18;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
