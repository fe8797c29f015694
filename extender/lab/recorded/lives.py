"""The lives of pods and nodes in a recording: when each came, got its place and went, and how it ended.

    waiting --> placed --> finished | deleted | evicted | its node went | still there when the recording ends
       +------> deleted, or still waiting

Times are seconds from the beginning of the workload. Nothing here depends on an algorithm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from algorithm.reasons import Reason
from extender.core.outcomes import OutcomeKind
from extender.lab.recorded.offers import Offers
from extender.scheduling.commands import BindFinished, EvictFinished
from extender.scheduling.events import (
    DependenciesChanged,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptAnswer,
    Reconfigured,
    TermEnded,
)
from extender.scheduling.policy import Policy
from extender.scheduling.reads import GANG_ANNOTATION

#: Seconds after the loss of a node within which the end of a pod on it counts as caused by that; seconds, and its grace
#: period, after a pod was chosen as a victim.
NODE_LOST_WITHIN = EVICTED_WITHIN = 600.0
#: Labels that differ between the pods of one controller.
_ORDINALS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)
#: Seconds by which the end of a pod may be seen before that of its node, or before the report of its eviction.
REPORTED_AFTER = 60.0


class How(StrEnum):
    """How a pod's life ended."""

    FINISHED = "finished"
    DELETED = "deleted"
    EVICTED = "evicted"
    NODE_LOST = "its node went"
    #: Another pod of its gang was evicted, or lost its node.
    RESTARTED = "restarted"


@dataclass(slots=True)
class PodLife:
    """One pod. `record` is as it was when it came. `placed` None: it never had a place; `end` None: it is still there.

    `ran_before`: it had its place when the recording began.
    """

    record: Pod
    arrival: float
    ran_before: bool = False
    placed: float | None = None
    node: str = ""
    end: float | None = None
    how: How | None = None
    #: Why it was refused last.
    why: Reason | None = None
    #: When it was chosen last to make room for another one; when it was seen first that it is being deleted.
    chosen: float = -math.inf
    terminating: float = math.inf
    is_gated: bool = False

    @property
    def leaves(self) -> float:
        """From when on its controller may make it again: it is being deleted, was evicted, or is gone."""
        gone = math.inf if self.end is None else self.end
        return min(gone, self.terminating, self.chosen if self.how is How.EVICTED else math.inf)


@dataclass(slots=True)
class NodeLife:
    """One node: its first and its latest record, when it was there (None: to the end), and how it changed."""

    record: Node
    latest: Node
    there: list[tuple[float, float | None]] = field(default_factory=list)
    #: When it was cordoned, not ready, or otherwise changed, and its record then.
    changes: list[tuple[float, Node]] = field(default_factory=list)

    @property
    def is_there(self) -> bool:
        return bool(self.there) and self.there[-1][1] is None


class Lives:
    """Takes the steps of a recording in their order; `begin` first, with the state that they begin from."""

    def __init__(self, policy: Policy, begin: float) -> None:
        self._policy, self._begin = policy, begin
        self.now = 0.0
        #: By UID, in order of arrival. Only pods that Waggle manages; of others, what takes room on nodes.
        self.pods: dict[str, PodLife] = {}
        self.others: dict[str, PodLife] = {}
        self.nodes: dict[str, NodeLife] = {}
        self.offers = Offers()
        #: What a simulation does not have, by a sentence, with how often it happened.
        self.left_out: Counter[str] = Counter()
        self._synced = False

    def begin(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Take the state of a checkpoint: these are there when the recording begins."""
        for node in nodes:
            self._node_seen(node)
        for pod in pods:
            self._pod_seen(pod)

    def synced(self) -> None:
        """What comes from now on is new; what came before was there already."""
        self._synced = True

    def take(self, at: float, event: Event, instructions: Sequence[Instruction]) -> None:
        """Take one step, with what the engine said to it."""
        self.now = max(self.now, at - self._begin)
        match event:
            case PodSeen():
                self._pod_seen(event.pod)
            case PodGone():
                self._pod_gone(event)
            case NodeSeen():
                self._node_seen(event.node)
            case NodeGone():
                self._node_gone(event.name)
            case FilterRequested():
                self._asked(event.pod, event.nodes, instructions)
            case EvictFinished(dry_run=False) if event.outcome.kind is OutcomeKind.DONE:
                self._chosen(event.uid)
            case BindFinished() if event.outcome.kind in (OutcomeKind.REJECTED, OutcomeKind.LOST):
                self.left_out["a binding failed on the API server"] += 1
            case TermEnded():
                self.left_out["this replica stopped leading; what another one decided counts as it came"] += 1
            case DependenciesChanged() if event.reason is not None:
                self.left_out["start-up ordering gave a pod a reason to wait"] += 1
        for each in instructions:
            self._said(each)

    # -- what the engine said -------------------------------------------------------------------------------------

    def _asked(self, pod: Pod, nodes: SuggestedNodes, instructions: Sequence[Instruction]) -> None:
        """A pod may be known from kube-scheduler before the informer shows it."""
        life = self.pods.get(pod.uid)
        if life is None and self._policy.should_schedule(pod):
            life = self.pods[pod.uid] = PodLife(pod, self.now)
        if life is not None:
            self.offers.asked(likeness(life.record), pod, nodes, self.now)
        for each in instructions:
            if life is not None and isinstance(each, FilterAnswer) and each.node is None:
                life.why = each.reason or next(iter(each.nodes.values()), None)

    def _said(self, instruction: Instruction) -> None:
        match instruction:
            case PreemptAnswer(pass_through=False):
                for candidate in instruction.candidates:
                    for uid in candidate.victims:
                        self._chosen(uid)
            case Reconfigured(refused=""):
                self.left_out["the settings were changed while it was recorded; those of the beginning count"] += 1

    def _chosen(self, uid: str) -> None:
        life = self.pods.get(uid) or self.others.get(uid)
        if life is None:
            return
        life.chosen = self.now
        if life.how is How.DELETED and life.placed is not None and self.now - (life.end or 0.0) <= REPORTED_AFTER:
            life.how = How.EVICTED  # its end was seen before the report of the eviction

    # -- pods -----------------------------------------------------------------------------------------------------

    def _pod_seen(self, pod: Pod) -> None:
        lives = self.pods if self._policy.manages(pod) else self.others
        life = lives.get(pod.uid)
        if life is None:
            if pod.finished or (pod.terminating and not pod.node_name):
                return
            life = lives[pod.uid] = PodLife(pod, self.now, ran_before=bool(pod.node_name) and not self._synced)
            life.is_gated = pod.gated
        if life.is_gated and not pod.gated:  # only now can it be scheduled
            life.is_gated, life.arrival, life.record = False, self.now, pod
        if pod.node_name and life.placed is None:
            life.placed, life.node = self.now, pod.node_name
            self.offers.placed(pod, pod.node_name)
            self.offers.ran(likeness(life.record), pod.node_name)
        if pod.terminating:
            life.terminating = min(life.terminating, self.now)
        if pod.finished:
            self._ends(life, How.FINISHED)

    def _pod_gone(self, event: PodGone) -> None:
        for lives in (self.pods, self.others):
            life = lives.get(event.uid)
            if life is not None:
                self._ends(life, How.DELETED)

    def _ends(self, life: PodLife, how: How) -> None:
        if life.end is not None:
            return
        life.end, life.how = self.now, how
        self.offers.left(life.record.uid, self.now)
        was_chosen = self.now - life.chosen <= EVICTED_WITHIN + life.record.grace_period
        if how is How.DELETED and life.placed is not None and was_chosen:
            life.how = How.EVICTED

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _node_seen(self, node: Node) -> None:
        life = self.nodes.get(node.name)
        if life is None:
            life = self.nodes[node.name] = NodeLife(node, node)
        elif life.is_there and _differs(life.latest, node):
            life.changes.append((self.now, node))
        life.latest = node
        self.offers.node(node, self.now)
        if not life.is_there:
            life.there.append((self.now, None))

    def _node_gone(self, name: str) -> None:
        life = self.nodes.get(name)
        if life is not None and life.is_there:
            life.there[-1] = (life.there[-1][0], self.now)
            self.offers.node_gone(name)

    def settle(self) -> None:
        """Call it at the end: pods that went with their nodes are known only now, since they may go before them."""
        for life in self.pods.values():
            if life.how is How.DELETED and life.placed is not None and self._was_lost(life.node, life.end or 0.0):
                life.how = How.NODE_LOST

    def _was_lost(self, name: str, at: float) -> bool:
        node = self.nodes.get(name)
        ends = [end for _, end in node.there if end is not None] if node is not None else []
        return any(-REPORTED_AFTER <= at - end <= NODE_LOST_WITHIN for end in ends)


def likeness(pod: Pod) -> Hashable:
    """Equal for pods of one controller."""
    labels = tuple(pair for pair in pod.labels if pair[0] not in _ORDINALS)
    return pod.namespace, pod.requests, pod.priority, labels, pod.group, pod.annotation(GANG_ANNOTATION)


def _differs(known: Node, node: Node) -> bool:
    """Whether the change matters to scheduling. Taints do not: nobody knows who tolerates them."""
    return (known.ready, known.unschedulable, known.labels, known.allocatable) != (
        node.ready,
        node.unschedulable,
        node.labels,
        node.allocatable,
    )
