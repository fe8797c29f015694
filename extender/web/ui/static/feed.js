// Asks the server what changed since the last answer, again and again. Says how that goes: connecting, live, silent (the
// server answers, but does not hear the API server), unready (it may not serve kube-scheduler), warned (it serves, and has
// something to say to operators), frozen (a moment of a recording), refused (who looks may not), lost.

const PERIOD = 2000;
const LONGEST_PAUSE = 30000;
const PATIENCE = 20000;

// Relative to this file, so that a proxy may serve all of it under another path.
export function address(path) {
  return new URL("../" + path, import.meta.url);
}

export const ask = (path) => answered(path, {}, PATIENCE);

export function post(path, body, patience) {
  return answered(path, { method: "POST", body: JSON.stringify(body) }, patience);
}

async function answered(path, how, patience) {
  const headers = { Accept: "application/json", ...(how.body && { "Content-Type": "application/json" }) };
  const answer = await fetch(address(path), { ...how, signal: AbortSignal.timeout(patience), headers });
  const type = answer.headers.get("content-type") || "";
  const body = type.startsWith("application/json") ? await answer.json() : {};
  if (!answer.ok) {
    const error = new Error(body.error || `the server answered ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return body;
}

// A state and its text, of what the server says of itself.
function standing({ ready, detail, silent, replay }) {
  if (replay) return ["frozen", ready ? "frozen" : `frozen; then: ${detail}`];
  if (silent) return ["silent", `API server silent for ${silent} s`];
  if (!ready) return ["unready", detail];
  return detail ? ["warned", detail] : ["live", "live"];
}

export class Feed {
  constructor({ onPieces, onState }) {
    this.onPieces = onPieces;
    this.onState = onState;
    this.pieces = [];
    this.version = "";
    this.failures = 0;
    this.timer = 0;
    this.asking = false;
    this.bytes = 0;
  }

  start() {
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
    addEventListener("online", () => this.now());
    this.now();
  }

  async now() {
    if (this.asking) return;
    clearTimeout(this.timer);
    this.asking = true;
    try {
      this.take(await ask("v1/inspect/map?since=" + encodeURIComponent(this.version)));
      this.failures = 0;
    } catch (error) {
      this.failures += 1;
      this.tell(error);
    } finally {
      this.asking = false;
    }
    if (!document.hidden) this.timer = setTimeout(() => this.now(), this.pause());
  }

  pause() {
    return this.failures ? Math.min(LONGEST_PAUSE, PERIOD * 2 ** (this.failures - 1)) : PERIOD;
  }

  take({ version, size, pieces }) {
    const changed = Object.keys(pieces);
    for (const number of changed) this.pieces[number] = pieces[number];
    const shorter = this.pieces.length > size;
    this.pieces.length = size;
    this.version = version;
    if (changed.length || shorter) this.onPieces(this.pieces);
    this.onState(...standing(this.pieces[0]), new Date());
  }

  tell(error) {
    const known = error.status === 401 || error.status === 403;
    const text = error.status ? error.message : "no connection";
    this.onState(known ? "refused" : "lost", text, null);
  }
}
