"""Begins and ends leader terms.

    TermEnded: unwritten proposals are withdrawn, preemptions are given up; writes in flight are followed to their end
    TermBegan: nothing of earlier terms is held; waiting pods are nudged, as nudges may have been lost with a leader

Outside a term, informer events, reports and live reads are handled as always. The state stays current, so that the next
term can begin at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from algorithm.reasons import Code, reason
from extender.core.freshness import latest
from extender.core.ledger import HoldState
from extender.scheduling.commands import Evict, RecordPreemption, Write
from extender.scheduling.events import Instruction, TermBegan, TermEnded
from extender.scheduling.informer_handler import InformerHandler
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.verbs.bind import BindHandler

#: Why a replica outside any term does not decide.
NOT_LEADING = "another replica leads, or is about to"


@dataclass(frozen=True, slots=True)
class HandoverVersions:
    """The highest resourceVersions of the known nodes and pods; "0" where there are none.

    These are versions of objects, not of lists: a replica that watches has reached them as soon as it has received the
    last of these objects.
    """

    nodes: str
    pods: str


class TermHandler:
    """Changes the current term, `SchedulingState.term`."""

    def __init__(
        self, transitions: SchedulingState, informed: InformerHandler, binding: BindHandler, waking: Requeuer
    ) -> None:
        self.t = transitions
        self._informed = informed
        self._binding = binding
        self._waking = waking
        self._last = 0
        #: How many writes of preemptions were sent and not reported yet: they may still change pods.
        self.unreported = 0

    def began(self, event: TermBegan, now: float) -> list[Instruction]:
        """Handle TermBegan: end the current term if there is one, begin the new one, and nudge all waiting pods."""
        if event.term <= self._last:
            return []
        out = [] if self.t.term is None else self.ended(TermEnded(self.t.term), now)
        self.t.term = self._last = event.term
        for entry in sorted(self.t.roster, key=lambda entry: -entry.pod.priority):
            if entry.state is State.WAITING:
                self._waking.line_up(entry, now)
        return out + self._waking.nudge(now)

    def ended(self, event: TermEnded, now: float) -> list[Instruction]:
        """Handle TermEnded: withdraw unwritten proposals and give up preemptions. Only the current term can end."""
        if event.term != self.t.term:
            return []
        self.t.term = None
        why = reason(Code.NOT_READY, detail=NOT_LEADING)
        for entry in self.t.roster:
            if entry.state is State.PREEMPTING:
                self.t.move(entry, State.WAITING, now, TransitionContext(why.text, reason=why))
            elif entry.state is State.BINDING and self._is_only_held(entry):
                self._informed.let_go(entry, why, now)
        self._binding.forget_passed()
        return []

    def _is_only_held(self, entry: PodInfo) -> bool:
        """Whether nothing is being written for the pod now. An unanswered write does not keep a place beyond its term:
        the next leader does not know of that write, and may have given the room away."""
        hold = self.t.ledger.get(entry.token)
        return hold is None or hold.state is HoldState.HELD

    def known(self) -> HandoverVersions | None:
        """Return the versions that the next leader must have seen; None while a write may still change them.

        They cover all pods and nodes that were reported here. Call it when the term is over.
        """
        if self.unreported:
            return None
        for entry in self.t.roster:
            unseen = entry.state is State.BOUND and not entry.pod.node_name
            if unseen or entry.state is State.BINDING:
                return None
        nodes = latest(node.resource_version for node in self.t.cache.nodes())
        pods = latest(entry.pod.resource_version for entry in self.t.roster)
        return None if nodes is None or pods is None else HandoverVersions(nodes, pods)

    def stamp(self, instructions: list[Instruction]) -> list[Instruction]:
        """Return the instructions stamped with the current term. Outside any term, commands that write are dropped."""
        if self.t.term == 0 or not instructions:
            return instructions
        stamped = [item for each in instructions if (item := self._stamped(each)) is not None]
        self.unreported += sum(isinstance(item, Evict | RecordPreemption) for item in stamped)
        return stamped

    def reported(self) -> None:
        """A write of a preemption was reported."""
        self.unreported -= self.t.term != 0

    def _stamped(self, item: Instruction) -> Instruction | None:
        if not isinstance(item, Write):
            return item
        return None if self.t.term is None else replace(item, term=self.t.term)
