"""Holds back pods that wait for others, as start-up ordering says, and requeues them when they need not wait any more.

    declares dependencies --> [not judged] --- met -------------> [let go] --> decided on like any other pod
                                   |                                ^
                                   +--- it waits for others --> [waits] --> met: requeued

Only start-up ordering (`extender/ordering`) knows what a pod waits for. This engine knows whether a pod declares
anything (`waggle.dev/after`), and what start-up ordering said about it last. It is safe by default: while start-up
ordering is switched on, a pod that declares dependencies waits until it was judged. So does a pod that may inherit
some, from its Job or its gang for example. Start-up ordering judges each of them as soon as its watch shows the pod.

A pod that has a place already, or for which others are being evicted, keeps it: it was let go before.
"""

from __future__ import annotations

from collections import Counter

from algorithm.model import Pod, lookup
from algorithm.reasons import Code, Reason, reason
from algorithm.tables import Table
from extender.core.ordering_names import AFTER, GROUP_ANNOTATIONS, GROUP_LABELS
from extender.scheduling.events import DependenciesChanged, DependenciesForgotten, Instruction
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState

#: Why a pod waits that declares dependencies, while start-up ordering has not said anything about it.
NOT_JUDGED = reason(Code.WAITS_FOR_DEPENDENCY, dependencies="its dependencies, which are not known yet")


class DependencyHandler:
    """What start-up ordering said about pods, by UID. It says when it has nothing more to say about one."""

    def __init__(self, state: SchedulingState, requeuer: Requeuer, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.requeuer = requeuer
        self.counts = counts
        self._is_on = state.policy.ordering
        self.judged: Table[str, DependenciesChanged] = Table()

    def blocks(self, pod: Pod) -> Reason | None:
        """Return why the pod has to wait for others; None if it need not."""
        if not self._is_on:
            return None
        said = self.judged.get(pod.uid)
        if said is not None:
            return said.reason
        return NOT_JUDGED if declares(pod) or may_inherit(pod) else None

    def refuse(self, pod_info: PodInfo, now: float) -> Reason | None:
        """Return why a pod that kube-scheduler asks about is refused, and record that; None if it need not wait.

        Room that becomes free does not requeue it.
        """
        if not self._is_on or pod_info.state is not State.WAITING:
            return None
        waits = self.blocks(pod_info.pod)
        if waits is None:
            return None
        self.state.wait_index.drop(pod_info.uid)
        self.requeuer.asked(pod_info)
        self._tell(pod_info, waits, now)
        pod_info.tried = ""
        self.counts["attempts", "unschedulable"] += 1
        self.counts["dependencies", "refused"] += 1
        return waits

    def changed(self, event: DependenciesChanged, now: float) -> list[Instruction]:
        """Handle DependenciesChanged, unless it is late. A pod that waits for nothing more is requeued at once."""
        before = self.judged.get(event.uid)
        if before is not None and before.number > event.number:
            return []
        self.judged[event.uid] = event
        pod_info = self.state.pods.get(event.uid)
        if not self._is_on or pod_info is None or pod_info.state is not State.WAITING:
            return []
        if event.reason is not None:
            return self._another_reason(pod_info, event.reason, now)
        if pod_info.reason is None or pod_info.reason.code not in CODES:
            return []  # kube-scheduler has not been told to wait for dependencies: it asks by itself
        pod_info.record(now, "waits for no other pod any more", self.state.sequence)
        pod_info.reason = None
        self.counts["dependencies", "requeued"] += 1
        self.requeuer.enqueue(pod_info, now, at_once=True)
        return self.requeuer.requeue_due(now)

    def _another_reason(self, pod_info: PodInfo, why: Reason, now: float) -> list[Instruction]:
        """Record why the pod waits. kube-scheduler, which has written another code on it, is made to ask again."""
        known = pod_info.reason
        self._tell(pod_info, why, now)
        if known is None or known.code not in CODES or known.code is why.code:
            return []
        self.requeuer.enqueue(pod_info, now)
        return self.requeuer.requeue_due(now)

    def forgotten(self, event: DependenciesForgotten) -> list[Instruction]:
        """Handle DependenciesForgotten."""
        self.judged.pop(event.uid, None)
        return []

    def _tell(self, pod_info: PodInfo, why: Reason, now: float) -> None:
        if why != pod_info.reason:
            pod_info.record(now, f"refused: {why.text}", self.state.sequence)
        pod_info.reason, pod_info.nodes = why, {}


#: The codes of pods that wait for others.
CODES = frozenset(
    {
        Code.WAITS_FOR_DEPENDENCY,
        Code.DEPENDENCY_NOT_FOUND,
        Code.DEPENDENCY_FAILED,
        Code.DEPENDENCY_CYCLE,
        Code.DEPENDENCY_INVALID,
    }
)


def may_inherit(pod: Pod) -> bool:
    """Whether the pod belongs to something that may declare dependencies for it: a controller, or a gang of Waggle or
    of another scheduler."""
    if pod.controlled or pod.group:
        return True
    if any(lookup(pod.labels, label) for label in GROUP_LABELS):
        return True
    annotations = pod.annotations
    if not annotations:
        return False
    # Of the annotations of others only the names are read.
    return bool(lookup(annotations, GANG_ANNOTATION)) or any(
        lookup(annotations, name) is not None for name in GROUP_ANNOTATIONS
    )


def declares(pod: Pod) -> bool:
    """Whether the pod declares dependencies of its own."""
    return bool(pod.annotations) and lookup(pod.annotations, AFTER) is not None
