// How the page's data come to be: whether this server answers, and whether it hears the API server.

import { byId } from "./dom.js";

export class Status {
  constructor(feed) {
    this.feed = feed;
    this.seen = null;
  }

  show(state, text, when) {
    if (when) this.seen = when;
    const since = this.seen ? `, as of ${this.seen.toLocaleTimeString()}` : "";
    const shown = state === "lost" ? `${text}${since}` : text;
    document.body.dataset.connection = state;
    byId("connection").dataset.state = state;
    byId("connection").title = shown;
    if (byId("connection-text").textContent !== shown) byId("connection-text").textContent = shown;
  }
}
