"""Waggle as kube-scheduler's extender within a plan: the same state machine, called without HTTP.

The answers are those that `extender.web.verbs` would encode and `HttpExtender` would read. What the state machine wants
to be written besides (evictions, annotations, requeues) goes to `carry_out`; the answer of a bind comes from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from algorithm.suggested_nodes import SuggestedNodes
from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, FilterResult, MetaVictims, Victims
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.embedded.kubescheduler.offers import Offer
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    PreemptAnswer,
    PreemptRequested,
    PrioritizeAnswer,
    PrioritizeRequested,
)
from extender.scheduling.refused_nodes import refusal_texts

_NO_REASON = reason(Code.NO_NODE_FITS)


class _Refused(NamedTuple):
    """What the texts of refused nodes are made of."""

    reasons: Mapping[str, Reason]
    names: SuggestedNodes
    shared: Reason

    def is_same(self, other: _Refused) -> bool:
        """Whether the texts are the same, seen without looking at each node."""
        return self.reasons is other.reasons and self.names is other.names and self.shared == other.shared


class PlanExtender(Extender):
    """`handle` gives an event to the state machine, and returns the instructions that answer it; `record` gives the
    record that the state machine has of a pod."""

    def __init__(
        self,
        config: ExtenderConfig,
        handle: Callable[[Event], list[Instruction]],
        record: Callable[[SchedPod], Pod],
    ) -> None:
        super().__init__(config)
        self._handle = handle
        self._record = record
        self._requests = 0
        # Of the last offer, and of the last refusal: members of a gang are offered, and refused, the same nodes.
        self._offer: tuple[Sequence[SchedNode], SuggestedNodes] = ((), SuggestedNodes())
        self._refusal: tuple[_Refused, tuple[dict[str, str], dict[str, str]]] | None = None

    def forget(self) -> None:
        self._offer = ((), SuggestedNodes())
        self._refusal = None

    def filter(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> FilterResult:
        names = self._suggested(nodes)
        answer = next(
            each for each in self._handle(FilterRequested(self._record(pod), names)) if isinstance(each, FilterAnswer)
        )
        if answer.error:
            raise ExtenderError((answer.reason or _NO_REASON).text)
        if answer.pass_through:
            return self._passed(names, nodes)
        if answer.node is not None:
            return self._passed([answer.node], nodes)
        failed, unresolvable = self._texts(_Refused(answer.nodes, names, answer.reason or _NO_REASON))
        return FilterResult((), None, failed, unresolvable)

    def _suggested(self, nodes: Sequence[SchedNode]) -> SuggestedNodes:
        if self._offer[0] is not nodes:
            names = nodes.names if isinstance(nodes, Offer) else [node.name for node in nodes]
            self._offer = (nodes, SuggestedNodes(names))
        return self._offer[1]

    def _texts(self, refused: _Refused) -> tuple[dict[str, str], dict[str, str]]:
        known = self._refusal
        if known is None or not known[0].is_same(refused):
            known = self._refusal = (refused, refusal_texts(*refused))
        return known[1]

    def _passed(self, names: Sequence[str], nodes: Sequence[SchedNode]) -> FilterResult:
        if self.config.node_cache_capable:
            return FilterResult(tuple(names))
        passed = frozenset(names)
        return FilterResult((), tuple(node for node in nodes if node.name in passed))

    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        names = self._suggested(nodes)
        answers = self._handle(PrioritizeRequested(self._record(pod), names))
        scores = next(each.scores for each in answers if isinstance(each, PrioritizeAnswer))
        return [(name, scores.get(name, 0)) for name in names]

    def preempt(self, pod: SchedPod, candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
        asked = tuple(
            Candidate(name, tuple(each.uid for each in victims.pods), victims.pdb_violations)
            for name, victims in sorted(candidates.items())
        )
        answers = self._handle(PreemptRequested(self._record(pod), asked))
        answer = next(each for each in answers if isinstance(each, PreemptAnswer))
        if answer.error:
            url = self.config.url
            raise ExtenderError(f"failed {self.config.preempt_verb} with extender at URL {url}/preempt, code 503")
        chosen = asked if answer.pass_through else answer.candidates
        return {each.node: MetaVictims(each.victims, each.pdb_violations) for each in chosen}

    def bind(self, pod: SchedPod, node: str) -> None:
        self._requests += 1
        namespace, name = pod.key
        answers = self._handle(BindRequested(self._requests, namespace, name, pod.uid, node))
        answer = next((each for each in answers if isinstance(each, BindAnswer)), None)
        if answer is None:
            raise ExtenderError("the bind was not answered")
        if answer.error is not None:
            raise ExtenderError(answer.error.text or answer.error.code)
