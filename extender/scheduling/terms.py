"""Begins and ends leader terms.

    TermEnded: unwritten proposals are withdrawn, preemptions are given up; writes in flight are followed to their end
    TermBegan: nothing of earlier terms is held; waiting pods are requeued, as nudges may have been lost with a leader

Outside a term, informer events, reports and live reads are handled as always. The state stays current, so that the next
term can begin at once.
"""

from __future__ import annotations

from msgspec.structs import replace

from algorithm.reasons import Code, reason
from extender.core.freshness import HandoverVersions, latest
from extender.core.ledger import HoldState
from extender.scheduling.commands import KINDS, Write
from extender.scheduling.events import Event, Instruction, TermBegan, TermEnded
from extender.scheduling.informer_handler import InformerHandler
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.verbs.bind import BindHandler

#: Why a replica outside any term does not decide.
NOT_LEADING = "another replica leads, or is about to"

_DELAYING = tuple(kind.command for kind in KINDS if kind.delays_handover)
_REPORTS = tuple(kind.reported_as for kind in KINDS if kind.delays_handover)


class TermHandler:
    """Changes the current term, `SchedulingState.term`."""

    def __init__(
        self, state: SchedulingState, informer_handler: InformerHandler, bind: BindHandler, requeuer: Requeuer
    ) -> None:
        self.state = state
        self._informer_handler = informer_handler
        self._bind = bind
        self._requeuer = requeuer
        self._last = 0
        #: How many writes were sent and not reported yet that the next leader must have seen.
        self.unreported = 0

    def began(self, event: TermBegan, now: float) -> list[Instruction]:
        """Handle TermBegan: end the current term if there is one, begin the new one, and requeue all waiting pods."""
        if event.term <= self._last:
            return []
        out = [] if self.state.term is None else self.ended(TermEnded(self.state.term), now)
        self.state.term = self._last = event.term
        for pod_info in sorted(self.state.pods, key=lambda pod_info: -pod_info.pod.priority):
            if pod_info.state is State.WAITING:
                self._requeuer.enqueue(pod_info, now)
        return out + self._requeuer.requeue_due(now)

    def ended(self, event: TermEnded, now: float) -> list[Instruction]:
        """Handle TermEnded: withdraw unwritten proposals and give up preemptions. Only the current term can end."""
        if event.term != self.state.term:
            return []
        self.state.term = None
        why = reason(Code.NOT_READY, detail=NOT_LEADING)
        for pod_info in self.state.pods:
            if pod_info.state is State.PREEMPTING:
                self.state.move(pod_info, State.WAITING, now, TransitionContext(why.text, reason=why))
            elif pod_info.state is State.BINDING and self._is_only_held(pod_info):
                self._informer_handler.let_go(pod_info, why, now)
        self._bind.forget_passed()
        return []

    def _is_only_held(self, pod_info: PodInfo) -> bool:
        """Whether nothing is being written for the pod now. An unanswered write does not keep a place beyond its term:
        the next leader does not know of that write, and may have given the room away."""
        hold = self.state.ledger.get(pod_info.token)
        return hold is None or hold.state is HoldState.HELD

    def known(self) -> HandoverVersions | None:
        """Return the versions that the next leader must have seen; None while a write may still change them.

        They cover all pods and nodes that were reported here. Call it when the term is over.
        """
        if self.unreported:
            return None
        for pod_info in self.state.pods:
            unseen = pod_info.state is State.BOUND and not pod_info.pod.node_name
            if unseen or pod_info.state is State.BINDING:
                return None
        nodes = latest(node.resource_version for node in self.state.cache.nodes())
        pods = latest(pod_info.pod.resource_version for pod_info in self.state.pods)
        return None if nodes is None or pods is None else {"nodes": nodes, "pods": pods}

    def stamp(self, instructions: list[Instruction], event: Event) -> list[Instruction]:
        """Return the instructions of this event stamped with the current term, and count writes and their reports.

        Outside any term, commands that write are dropped. Not needed without leader election.
        """
        self.unreported -= isinstance(event, _REPORTS)
        if not instructions:
            return instructions
        stamped = [item for each in instructions if (item := self._stamped(each)) is not None]
        self.unreported += sum(isinstance(item, _DELAYING) for item in stamped)
        return stamped

    def _stamped(self, item: Instruction) -> Instruction | None:
        if not isinstance(item, Write):
            return item
        return None if self.state.term is None else replace(item, term=self.state.term)
