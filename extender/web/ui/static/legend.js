// What the colours and marks of the map mean.

import { byId, element } from "./dom.js";
import { css, mix, swatch } from "./paint.js";
import { OPPORTUNISTIC } from "./world.js";

const OWNERS = 12;

export function showLegend({ world, paint, map, owners }) {
  const { base } = paint;
  const any = world.tenants.length ? paint.tenant(world.tenants[0].name) : base.used;
  const plain = (text, fill, mark = "", of = null) => [text, { fill: css(fill), mark, of: of && css(of), hole: css(mix(fill, base.machine, 0.78)), rim: paint.css.machine }];
  const bad = plain("bad", base.bad, "cross");
  const free = plain("free", base.free);
  const lost = plain("not ready", base.bad, "cross");
  const taken = () => {
    const found = owners.of(map.resource).map(([owner]) => owner).filter(Boolean);
    const rest = found.length > OWNERS || world.owners.has("") ? [plain("others", base.muted)] : [];
    return [...found.slice(0, OWNERS).map((owner) => plain(owner, paint.owner(owner))), ...rest];
  };
  const sets = {
    tenant: () => [plain("guaranteed", any), plain("without guarantee", any, "ring"), plain("somebody waits for it", base.free, "dot", any), plain("promised, idle", mix(base.free, any, 0.24)), free, bad],
    priority: () => [free, ...(world.kinds.some(({ priority, state }) => priority === OPPORTUNISTIC && state !== "Free") ? [plain("no guarantee", base.opportunistic)] : []), ...paint.priorities.slice(0, 8).map((value) => plain(String(value), paint.priority(value))), bad],
    state: () => [free, plain("Used", base.used), plain("Reserving", base.reserving, "dot", base.ink), plain("Reserved", base.reserved, "dot", base.ink), bad],
    health: () => (world.isNodes ? [plain("ready", base.healthy), lost] : [plain("healthy", base.healthy), bad]),
    use: () => [plain("free", base.machine), plain("taken", base.used), lost],
    owner: () => [...taken(), plain("free", base.machine), lost],
  };
  const item = ([text, style]) => {
    const canvas = element("canvas", { "aria-hidden": "true" });
    swatch(canvas, style, paint.css.cross);
    return element("li", {}, canvas, element("span", {}, text));
  };
  byId("legend").replaceChildren(...(sets[map.mode]?.() || []).map(item));
}
