"""How kube-scheduler of the simulation is connected: its informers, and its HTTP line to Waggle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from algorithm.interface import SuggestedNodes
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.store import Store
from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, FilterResult, MetaVictims, Victims
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.scheduling.events import Candidate, FilterAnswer, FilterRequested, PreemptAnswer, PreemptRequested
from tests.soak.wire import Draws


class Informer:
    """What kube-scheduler hears of one resource: everything, in order, and late. `step` moves by one event."""

    def __init__(
        self, store: Store, resource: Resource, *, seen: Callable[[bytes], None], gone: Callable[[bytes], None]
    ) -> None:
        self._store = store
        self._resource = resource
        self._seen = seen
        self._gone = gone
        self._revision = store.revision
        for stored in store.collection(resource):
            seen(stored.raw)

    @property
    def behind(self) -> bool:
        return bool(self._pending())

    def _pending(self) -> list[Any]:
        return self._store.collection(self._resource).since(self._revision)

    def step(self) -> None:
        pending = self._pending()
        if pending:
            change = pending[0]
            self._revision = change.revision
            (self._gone if change.type == "DELETED" else self._seen)(change.new.raw)


class Line(Extender):
    """kube-scheduler's HTTP line to Waggle, as function calls. `ask` hands an event to the engine.

    `ask` raises ExtenderError if nobody answers.
    """

    def __init__(
        self,
        ask: Callable[[FilterRequested | PreemptRequested], FilterAnswer | PreemptAnswer],
        config: ExtenderConfig,
        draws: Draws,
        proposed: Callable[[str, str], None],
    ) -> None:
        super().__init__(config)
        self._ask = ask
        self._draws = draws
        self._proposed = proposed

    def _call(self, event: FilterRequested | PreemptRequested) -> FilterAnswer | PreemptAnswer:
        fault = self._draws.call("filter")
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
        if answer.pass_through:
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
        if answer.error:
            raise ExtenderError(str(answer.reason))
        return {c.node: MetaVictims(c.victims, c.pdb_violations) for c in answer.candidates}

    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        raise ExtenderError("not configured")

    def bind(self, pod: SchedPod, node: str) -> None:
        raise AssertionError("binds take time: the world lets them go through the engine")
