"""Every write of the API server that matters to vpods, in order, from its store: no watch can miss one."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver.store import Change

Object = dict[str, Any]
KINDS = ("vpods", "vpodsets", "statefulsets", "pods", "nodes")


@dataclass(frozen=True)
class Write:
    """`body` is the object after it; of a deletion, the object that is gone. `at`: the monotonic clock."""

    revision: int
    at: float
    kind: str
    name: str
    is_deletion: bool
    body: Object


class History:
    """`own` has the revisions that the adversary wrote itself. Other writes are Waggle's, or a controller's."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.writes: list[Write] = []
        self.own: set[int] = set()
        self._lock = threading.Lock()
        cluster._run(lambda served: served.store.listeners.append(self._notice))

    def _notice(self, change: Change) -> None:
        kind = change.resource.plural
        if kind not in KINDS:
            return
        namespace, name = change.new.key
        full = f"{namespace}/{name}" if namespace else name
        is_deletion = change.type == "DELETED"
        with self._lock:
            self.writes.append(Write(change.revision, time.monotonic(), kind, full, is_deletion, change.new.fresh()))

    def since(self, number: int) -> list[Write]:
        with self._lock:
            return self.writes[number:]

    def __len__(self) -> int:
        with self._lock:
            return len(self.writes)

    def line(self, write: Write) -> str:
        """A write for people: what of it matters to vpods."""
        spec, status = write.body.get("spec") or {}, write.body.get("status") or {}
        what: Object = {name: spec[name] for name in ("vreplicas", "replicas", "unschedulable") if name in spec}
        if write.kind == "vpods":
            what |= {name: status.get(name) for name in ("placements", "reason")}
        if write.kind == "pods":
            what |= {each["type"]: each["status"] for each in status.get("conditions", ())}
        by = "adversary" if write.revision in self.own else "deleted" if write.is_deletion else ""
        return f"    version {write.revision} at {write.at:.3f}: {write.kind} {write.name} {by} {what}"

    def now(self, kind: str) -> dict[str, Object]:
        """The objects of a kind, by namespace and name."""
        found: dict[str, Object] = {}
        for write in self.since(0):
            if write.kind == kind:
                if write.is_deletion:
                    found.pop(write.name, None)
                else:
                    found[write.name] = write.body
        return found
