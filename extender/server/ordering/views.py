"""What pages show of start-up ordering: the pods that are held back, and why one of them is."""

from __future__ import annotations

from typing import NamedTuple

from algorithm.reasons import Reason
from extender.ordering.engine import OrderingEngine
from extender.ordering.records import PodKey
from extender.ordering.state import Waiting
from extender.server.loop import LoopBusy
from extender.server.ordering.runtime import OrderingRuntime

#: Seconds that a page waits for the engine.
PATIENCE = 5.0


class HeldPod(NamedTuple):
    """A pod that is held back. `root`: the object at the root of what keeps its dependencies from being met; "": they
    may still be met. `after`: what it waits for. `seconds`: for how long it has been known."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    is_gated: bool
    root: str
    after: tuple[str, ...]
    seconds: float


class HeldExplanation(NamedTuple):
    """Why a pod is held back, in sentences. `pod` None: it is not; the sentences say what is known of it."""

    pod: HeldPod | None
    sentences: tuple[str, ...]


class OrderingViews:
    """Reads the engine. Raises LoopBusy if it is not free within `PATIENCE` seconds."""

    def __init__(self, runtime: OrderingRuntime) -> None:
        self._runtime = runtime

    def held(self, namespace: str = "") -> list[HeldPod]:
        """Return the pods that are held back, by namespace and name; those of one namespace, unless it is ""."""
        found = self._runtime.look(lambda engine, now: _all(engine, now, namespace), PATIENCE)
        return sorted(found)

    def explain(self, namespace: str, name: str) -> HeldExplanation:
        """Return why a pod is held back."""
        return self._runtime.look(lambda engine, now: _explained(engine, now, PodKey(namespace, name)), PATIENCE)

    def sentences(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return why a pod is held back, in sentences; none if the engine is busy."""
        try:
            return self.explain(namespace, name).sentences
        except LoopBusy:
            return ()


def _all(engine: OrderingEngine, now: float, namespace: str) -> list[HeldPod]:
    return [
        _held(waiting, waiting.held, now)
        for waiting in engine.state.waiting.values()
        if waiting.held is not None and namespace in ("", waiting.record.key.namespace)
    ]


def _explained(engine: OrderingEngine, now: float, key: PodKey) -> HeldExplanation:
    uid = engine.state.tree.uids.get(key, "")
    waiting = engine.state.waiting.get(uid)
    why = waiting.held if waiting is not None else None
    pod = _held(waiting, why, now) if waiting is not None and why is not None else None
    return HeldExplanation(pod, tuple(engine.explain(key)))


def _held(waiting: Waiting, why: Reason, now: float) -> HeldPod:
    record = waiting.record
    names = {f"{each.target} to be {each.state}" for clause in waiting.unmet for each in clause}
    return HeldPod(
        record.key.namespace,
        record.key.name,
        record.uid,
        why,
        record.is_gated,
        "" if waiting.root is None else str(waiting.root),
        tuple(sorted(names)),
        max(0.0, now - waiting.since),
    )
