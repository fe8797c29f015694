"""Which pod belonged to which claim, and when, as the API server wrote it: answers are held against it.

A spell is the time in which one pod belongs to one claim. The ledger listens to the API server's store on its event
loop, so that it misses no write. What must never be written goes to `faults`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.table import NODES, PODS

Object = dict[str, Any]
#: Published in docs/claims.md.
CLAIM, PHASE = "waggle.dev/claim", "waggle.dev/phase"
#: Every request asks for this annotation and this label, each with a name of its own: whose claim is it?
ASK = "adversary.example/ask"


@dataclass
class Spell:
    """`began`, `terminating` and `ended` by the monotonic clock; `expires` by the wall clock, as the pod said last."""

    uid: str
    pod: str
    pool: str
    claim: str
    ask: str
    tenant: str
    began: float
    expires: float
    labels: Mapping[str, str]
    images: Mapping[str, str]
    stopping: float | None = None
    terminating: float | None = None
    ended: float | None = None
    is_deleted: bool = False

    @property
    def is_live(self) -> bool:
        return self.over is None

    @property
    def over(self) -> float | None:
        """When somebody began to take the pod away from the claim."""
        times = [each for each in (self.stopping, self.terminating, self.ended) if each is not None]
        return min(times) if times else None


@dataclass
class PodRecord:
    """A pod as it is now, and its spells."""

    uid: str
    now: Object
    spells: list[Spell] = field(default_factory=list)
    is_gone: bool = False

    @property
    def name(self) -> str:
        return str(self.now["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.now["metadata"].get("labels") or {}

    @property
    def current(self) -> Spell | None:
        return self.spells[-1] if self.spells and self.spells[-1].ended is None else None

    @property
    def is_terminating(self) -> bool:
        return "deletionTimestamp" in self.now["metadata"]

    @property
    def is_ready(self) -> bool:
        status = self.now.get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return status.get("phase") == "Running" and conditions.get("Ready") == "True"


class Ledger:
    """`modes` has pools by name: recycle or detach; `caps` the pods that one tenant may have, 0 for any number."""

    def __init__(self, cluster: EmbeddedCluster, modes: Mapping[str, str]) -> None:
        self.modes = modes
        self.caps: dict[str, int] = {}
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, Object] = {}
        self.spells: list[Spell] = []
        self.faults: list[str] = []
        self.lock = threading.RLock()
        cluster._run(lambda served: served.store.listeners.append(self._notice))

    # -- what is asked ----------------------------------------------------------------------------------------------

    def claimable(self, pool: str) -> list[PodRecord]:
        """Pods that any request may have now."""
        with self.lock:
            return [pod for pod in self.pods.values() if self._is_claimable(pod, pool)]

    def _is_claimable(self, pod: PodRecord, pool: str) -> bool:
        idle = self.modes[pool] == "detach" or pod.labels.get(PHASE) == "idle"
        mine = pod.labels.get("pool") == pool and CLAIM not in pod.labels
        serves = pod.is_ready and not pod.is_terminating and not pod.is_gone
        return mine and idle and serves and self._serves(pod.now["spec"].get("nodeName", ""))

    def _serves(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None or node.get("spec", {}).get("unschedulable"):
            return False
        conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
        return conditions.get("Ready") == "True"

    def live(self) -> dict[str, list[Spell]]:
        """Spells that nobody ends yet, by claim."""
        found: dict[str, list[Spell]] = {}
        with self.lock:
            for pod in self.pods.values():
                if pod.current is not None and pod.current.is_live:
                    found.setdefault(pod.current.claim, []).append(pod.current)
        return found

    def of(self, claim: str) -> list[Spell]:
        with self.lock:
            return [spell for spell in self.spells if spell.claim == claim]

    def of_ask(self, ask: str) -> list[Spell]:
        with self.lock:
            return [spell for spell in self.spells if spell.ask == ask]

    def names(self, pool: str, *, claimed: bool) -> list[str]:
        """Pods that are there, of this pool, in the order of their names."""
        with self.lock:
            return sorted(
                pod.name
                for pod in self.pods.values()
                if not pod.is_gone
                and not pod.is_terminating
                and (
                    (pod.current is not None and pod.current.pool == pool) if claimed else self._is_claimable(pod, pool)
                )
            )

    # -- what is written --------------------------------------------------------------------------------------------

    def _notice(self, change: Change) -> None:
        if change.resource is NODES:
            with self.lock:
                if change.type == "DELETED":
                    self.nodes.pop(change.new.key[1], None)
                else:
                    self.nodes[change.new.key[1]] = change.new.fresh()
        elif change.resource is PODS:
            with self.lock:
                self._notice_pod(change)

    def _notice_pod(self, change: Change) -> None:
        now, pod = time.monotonic(), change.new.fresh()
        record = self.pods.setdefault(change.new.uid, PodRecord(change.new.uid, pod))
        before, record.now = record.now, pod
        claim = record.labels.get(CLAIM, "")
        current = record.current
        if change.type == "DELETED":
            record.is_gone = True
            if current is not None:
                current.ended, current.is_deleted = now, True
            return
        if current is not None and claim != current.claim:
            self._end(record, current, claim, now)
            current = None
        if claim and current is None:
            self._begin(record, before, claim, now)
        elif current is not None:
            self._go_on(record, current, now)

    def _begin(self, record: PodRecord, before: Object, claim: str, now: float) -> None:
        mark = self._mark(record)
        asked = record.now["metadata"].get("annotations", {}).get(ASK, "")
        pool, tenant = str(mark.get("pool", "")), str(mark.get("tenant", ""))
        containers = record.now["spec"]["containers"]
        spell = Spell(
            record.uid,
            record.name,
            pool,
            claim,
            asked,
            tenant,
            now,
            float(mark.get("expires", 0)),
            dict(record.labels),
            {each["name"]: each["image"] for each in containers},
        )
        name = f"pod {record.name} of claim {claim} ({asked})"
        labels = before["metadata"].get("labels", {})
        if record.now is before:
            # It was created for the claim (`on_empty: cold`), and never in the pool.
            record.spells.append(spell)
            self.spells.append(spell)
            return
        if mark.get("claim") != claim:
            self.faults.append(f"{name} is marked otherwise: {mark}")
        if labels.get("pool") != pool:
            self.faults.append(f"{name} was not in the pool {pool!r}: {labels}")
        if self.modes.get(pool) == "recycle" and labels.get(PHASE) != "idle":
            self.faults.append(f"{name} was not idle, but {labels.get(PHASE)}")
        if self.modes.get(pool) == "detach" and (record.spells or "pool" in record.labels):
            self.faults.append(f"{name} was claimed before, or is still in the pool: {dict(record.labels)}")
        if "deletionTimestamp" in before["metadata"]:
            self.faults.append(f"{name} was terminating when it was claimed")
        if not asked:
            self.faults.append(f"{name} has not the annotation that every request asks for")
        others = [each for each in self._of_tenant(pool, tenant) if each.is_live]
        if 0 < self.caps.get(pool, 0) <= len(others):
            self.faults.append(f"{name}: tenant {tenant!r} has {len(others)} pods already: {others}")
        record.spells.append(spell)
        self.spells.append(spell)

    def _of_tenant(self, pool: str, tenant: str) -> Iterable[Spell]:
        for record in self.pods.values():
            if (spell := record.current) is not None and (spell.pool, spell.tenant) == (pool, tenant):
                yield spell

    def _go_on(self, record: PodRecord, spell: Spell, now: float) -> None:
        if record.is_terminating and spell.terminating is None:
            spell.terminating = now
        if record.labels.get(PHASE) == "stopping" and spell.stopping is None:
            spell.stopping = now
        if spell.is_live:
            spell.expires = float(self._mark(record).get("expires", 0))

    def _end(self, record: PodRecord, spell: Spell, claim: str, now: float) -> None:
        spell.ended = now
        name = f"pod {record.name} of claim {spell.claim} ({spell.ask})"
        if claim:
            self.faults.append(f"{name} was given to claim {claim} without being idle in between")
            return
        if self.modes.get(spell.pool) == "detach":
            self.faults.append(f"{name} lost its claim's label, and detached pods are deleted instead")
        annotations = record.now["metadata"].get("annotations", {})
        left = {name for name in (CLAIM, ASK) if name in annotations} | ({ASK} & set(record.labels))
        if left or record.labels.get(PHASE) != "idle":
            self.faults.append(f"{name} is no longer claimed, and has {left}, {dict(record.labels)}")

    @staticmethod
    def _mark(record: PodRecord) -> Object:
        text = (record.now["metadata"].get("annotations") or {}).get(CLAIM, "{}")
        try:
            found = json.loads(text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
