"""The engine of claims by itself: what one claim's whole life costs it, without sockets, threads or JSON.

    ClaimAsked -> TakePod ... PodTaken -> Answered ... PodSeen (the watch tells the same) ... PodSeen (the replacement)

Claims come in batches, and each stage of a batch is timed by itself; the records that other rooms make (requests by the
HTTP layer, pods by the informers) are made outside of what is timed. `waiting`: so many requests are always in line
before an idle pod comes; with 0 an idle pod is there for each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from extender.claims.engine import ClaimEngine
from extender.claims.events import Answered, ClaimAsked, ClaimEvent, NodeSeen, PodSeen, PoolsConfigured, Synced
from extender.claims.records import Pool, PoolKey, WarmPod
from extender.claims.writes.take import PodTaken, TakePod
from extender.core.outcomes import Outcome, OutcomeKind

POOL = PoolKey("default", "warm")
STAGES = ("asked", "taken", "seen", "replaced")
_NODES, _BATCH = 50, 64
_LABELS = {"pool": "warm", "app": "sandbox", "pod-template-hash": "5c689d88bb"}


@dataclass
class Life:
    """What one claim costs: CPU seconds by stage, for each round; calls of Python functions and of built-in ones."""

    waiting: int
    rounds: list[dict[str, float]] = field(default_factory=list)
    calls: float = 0.0
    builtin_calls: float = 0.0

    @property
    def rates(self) -> list[float]:
        """Claims per second of CPU, round by round."""
        return [1.0 / sum(each.values()) for each in self.rounds]


class Bench:
    """One engine and the pods that it knows. `time_stage` runs events through the engine and accounts for them."""

    def __init__(self, pods: int, waiting: int, tenants: int) -> None:
        self.engine = ClaimEngine(window=512.0)
        self._made = self._asked = 0
        self._tenants = tenants
        self._now = 0.0
        self._handle_all([PoolsConfigured((Pool(key=POOL, selector={"pool": "warm"}),))])
        self._handle_all([NodeSeen(f"node-{number}", serves=True) for number in range(_NODES)])
        self._handle_all(list(self._pods(0 if waiting else pods)))
        self._handle_all([Synced()])
        self._handle_all(list(self._asks(waiting)))

    def batch(self, run: Callable[[str, list[ClaimEvent]], list[Any]], *, is_waiting: bool) -> int:
        """Let a batch of claims live, each stage by `run`. Returns how many were claimed."""
        self._now += 0.001 * _BATCH
        sent = run("asked", list(self._asks(_BATCH)))
        if is_waiting:
            sent += run("replaced", list(self._pods(_BATCH)))
        claimed = [(take, self._claimed(take)) for take in sent if type(take) is TakePod]
        done = Outcome(OutcomeKind.DONE)
        answers = run("taken", [PodTaken(take.token, done, pod) for take, pod in claimed])
        run("seen", [PodSeen(pod) for _, pod in claimed])
        if not is_waiting:
            run("replaced", list(self._pods(_BATCH)))
        return sum(type(each) is Answered for each in answers)

    def _handle_all(self, events: list[ClaimEvent]) -> list[Any]:
        handle, now = self.engine.handle, self._now
        found: list[Any] = []
        for event in events:
            found += handle(event, now)
        return found

    def timed(self, into: dict[str, float]) -> Callable[[str, list[ClaimEvent]], list[Any]]:
        def run(stage: str, events: list[ClaimEvent]) -> list[Any]:
            began = time.process_time()
            found = self._handle_all(events)
            into[stage] = into.get(stage, 0.0) + time.process_time() - began
            return found

        return run

    def counted(self, calls: dict[str, int]) -> Callable[[str, list[ClaimEvent]], list[Any]]:
        def count(_frame: object, what: str, _argument: object) -> None:
            calls[what] = calls.get(what, 0) + 1

        def run(_stage: str, events: list[ClaimEvent]) -> list[Any]:
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                return self._handle_all(events)
            finally:
                sys.setprofile(before)

        return run

    # -- what others make -----------------------------------------------------------------------------------------

    def _asks(self, number: int) -> Iterator[ClaimEvent]:
        for _ in range(number):
            self._asked += 1
            tenant = f"tenant-{self._asked % self._tenants}"
            yield ClaimAsked(
                request=f"r{self._asked}", claim=f"claim-{self._asked}", pool=POOL, tenant=tenant, wait_seconds=30.0
            )

    def _pods(self, number: int) -> Iterator[ClaimEvent]:
        for _ in range(number):
            self._made += 1
            yield PodSeen(
                WarmPod(
                    uid=f"uid-{self._made}",
                    namespace="default",
                    name=f"warm-{self._made}",
                    resource_version=str(10_000_000 + self._made),
                    labels=dict(_LABELS),
                    node=f"node-{self._made % _NODES}",
                    owner="replicaset",
                )
            )

    def _claimed(self, take: TakePod) -> WarmPod:
        self._made += 1
        before = self.engine.state.pods[take.uid]
        return WarmPod(
            uid=before.uid,
            namespace=before.namespace,
            name=before.name,
            resource_version=str(10_000_000 + self._made),
            labels={"app": "sandbox", "waggle.dev/claim": take.mark.claim},
            node=before.node,
            mark=take.mark,
        )


def measure(*, claims: int, rounds: int, waiting: int = 0, tenants: int = 10) -> Life:
    """Return what a claim costs, in `rounds` engines of their own with so many claims each."""
    life = Life(waiting)
    batches = max(1, claims // _BATCH)
    for _ in range(rounds):
        bench = Bench(4 * _BATCH, waiting, tenants)
        took: dict[str, float] = {}
        claimed = sum(bench.batch(bench.timed(took), is_waiting=waiting > 0) for _ in range(batches))
        assert claimed == batches * _BATCH, f"{claimed} of {batches * _BATCH} were claimed"
        bench.engine.validate()
        life.rounds.append({stage: took[stage] / claimed for stage in STAGES})
    bench = Bench(4 * _BATCH, waiting, tenants)
    calls: dict[str, int] = {}
    number = sum(bench.batch(bench.counted(calls), is_waiting=waiting > 0) for _ in range(4))
    life.calls, life.builtin_calls = calls["call"] / number, calls.get("c_call", 0) / number
    return life
