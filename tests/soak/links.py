"""How the actors of the simulation are connected: watches that lag, lose and repeat; calls that fail; the faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from algorithm.interface import SuggestedNodes
from extender.core.events import Candidate, FilterAnswer, FilterRequested, PreemptAnswer, PreemptRequested
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.store import Store, Stored
from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, FilterResult, MetaVictims, Victims
from extender.embedded.kubescheduler.model import SchedNode, SchedPod


class Informer:
    """Reflects one resource as `extender.kube.reflector` does: a list, then a watch that goes on where it was.

    `seen` and `gone` are told; `step` moves by one event. A swallowed event is what no informer can notice: only the
    next list heals it.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        *,
        seen: Callable[[bytes], None],
        gone: Callable[[bytes], None],
        faults: Faults | None = None,
    ) -> None:
        self._store = store
        self._resource = resource
        self._seen = seen
        self._gone = gone
        self._faults = faults
        self._known: dict[tuple[str, str], Stored] = {}
        self._revision = 0
        self._past: list[tuple[str, Stored]] = []
        self.relist()

    @property
    def behind(self) -> bool:
        return bool(self._pending())

    def _pending(self) -> list[Any]:
        return self._store.collection(self._resource).since(self._revision)

    def relist(self) -> None:
        """A complete, consistent list; what is missing in it is told as gone."""
        listed = {stored.key: stored for stored in self._store.collection(self._resource)}
        self._revision = self._store.revision
        for key, old in list(self._known.items()):
            if key not in listed or listed[key].uid != old.uid:
                self._tell("DELETED", old)
        for key, stored in listed.items():
            if key not in self._known or self._known[key].revision != stored.revision:
                self._tell("MODIFIED", stored)

    def step(self) -> None:
        """The next event, or what goes wrong with it."""
        pending = self._pending()
        fault = self._faults.draw("watch") if self._faults else ""
        if fault == "expired":
            self.relist()
        elif fault == "repeated" and self._past and self._faults:
            self._pass_on(*self._faults.rng.choice(self._past[-20:]))
        elif pending:
            self._revision = pending[0].revision
            if fault == "swallowed":
                return
            self._tell(pending[0].type, pending[0].new)

    def _tell(self, kind: str, stored: Stored) -> None:
        if kind == "DELETED":
            self._known.pop(stored.key, None)
        else:
            self._known[stored.key] = stored
        self._past.append((kind, stored))
        del self._past[:-50]
        self._pass_on(kind, stored)

    def _pass_on(self, kind: str, stored: Stored) -> None:
        (self._gone if kind == "DELETED" else self._seen)(stored.raw)


class Faults:
    """Draws what goes wrong, and counts it. `rate` is how often something does; `only` one operation and fault."""

    KINDS: Mapping[str, Sequence[str]] = {
        "watch": ("swallowed", "repeated", "expired"),
        "bind": (
            "applied, no answer",
            "not applied, no answer",
            "throttled",
            "forbidden",
            "conflict",
            "slow",
            "applied late",
        ),
        "read": ("no answer", "slow"),
        "hint": ("lost",),
        "call": ("refused", "answer lost"),
        "bind call": ("answer lost",),
    }

    def __init__(self, rng: Random, rate: float, only: tuple[str, str] | None = None) -> None:
        self.rng = rng
        self.rate = rate
        self.only = only
        self.counts: Counter[str] = Counter()

    def draw(self, operation: str) -> str:
        """The fault that strikes this operation, "" if none does."""
        if self.rng.random() >= self.rate or (self.only and self.only[0] != operation):
            return ""
        fault = self.only[1] if self.only else self.rng.choice(self.KINDS[operation])
        self.counts[f"{operation}: {fault}"] += 1
        return fault


def pairs() -> list[tuple[str, str]]:
    """Every operation with everything that can go wrong with it."""
    return [(operation, fault) for operation, faults in Faults.KINDS.items() for fault in faults]


class Line(Extender):
    """kube-scheduler's HTTP line to Waggle, as function calls. `ask` hands an event to the heart."""

    def __init__(
        self,
        ask: Callable[[FilterRequested | PreemptRequested], FilterAnswer | PreemptAnswer],
        config: ExtenderConfig,
        faults: Faults,
        proposed: Callable[[str, str], None],
    ) -> None:
        super().__init__(config)
        self._ask = ask
        self._faults = faults
        self._proposed = proposed

    def _call(self, event: FilterRequested | PreemptRequested) -> FilterAnswer | PreemptAnswer:
        fault = self._faults.draw("call")
        if fault == "refused":
            raise ExtenderError("connection refused")
        answer = self._ask(event)
        if fault == "answer lost":
            raise ExtenderError("context deadline exceeded")
        return answer

    def filter(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> FilterResult:
        names = tuple(node.name for node in nodes)
        answer = self._call(FilterRequested(pod.pod, SuggestedNodes(names)))
        assert isinstance(answer, FilterAnswer)
        if answer.error:
            raise ExtenderError(str(answer.reason))
        if answer.untouched:
            return FilterResult(names)
        if answer.node is not None:
            assert answer.node in names, f"{answer.node} was not offered"
            self._proposed(pod.uid, answer.node)
            return FilterResult((answer.node,))
        assert answer.reason is not None
        reasons = {name: answer.nodes.get(name, answer.reason) for name in names}
        return FilterResult(
            failed={name: why.text for name, why in reasons.items() if why.preemptible},
            failed_and_unresolvable={name: why.text for name, why in reasons.items() if not why.preemptible},
        )

    def preempt(self, pod: SchedPod, candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
        asked = tuple(Candidate(name, tuple(p.uid for p in v.pods), v.pdb_violations) for name, v in candidates.items())
        answer = self._call(PreemptRequested(pod.pod, asked))
        assert isinstance(answer, PreemptAnswer)
        return {c.node: MetaVictims(c.victims, c.pdb_violations) for c in answer.candidates}

    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        raise ExtenderError("not configured")

    def bind(self, pod: SchedPod, node: str) -> None:
        raise AssertionError("binds take time: the world lets them go through the heart")
