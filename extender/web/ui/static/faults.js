// What the algorithm did wrong in the last ten minutes, above everything else: a sentence for each kind of fault.

import { byId, element, keyed } from "./dom.js";

export class Faults {
  constructor(world) {
    this.world = world;
    this.root = byId("faults");
  }

  update() {
    const said = this.world.faults || [];
    this.root.hidden = !said.length;
    // A sentence says how long ago it was: its beginning tells it from others.
    keyed(this.root, said, (text) => text.replace(/ \d+ times?, last .*/s, ""), () => new Sentence());
  }
}

class Sentence {
  constructor() {
    this.root = element("p");
  }

  update(text) {
    if (this.root.textContent !== text) this.root.textContent = text;
  }
}
