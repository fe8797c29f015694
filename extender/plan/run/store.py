"""The cluster of a plan: every write succeeds, and everybody sees it at once.

    writes: create, bind, evict, delete, patch --> PlanCluster --> changes --> listeners, in the order of the writes

A change waits until `deliver`: a listener that writes while it handles a change, or while it decides, is told of its
own write afterwards, as a client of the API server is.

A bound pod runs and is ready at once. A pod that is evicted is made again at once if it has an owner, under its own
name and with a new UID.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from algorithm.model import Pairs, Pod
from algorithm.reasons import Reason
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, ScheduledCondition
from extender.plan.records import PlanPod, World
from extender.plan.run.listeners import Listener


class Gone(StrEnum):
    """How a pod left its node, or the cluster."""

    #: Somebody else needs its room, or its node is drained or deleted.
    EVICTED = "evicted"
    #: The changes delete it.
    DELETED = "deleted"
    #: It was being deleted already.
    LEAVING = "leaving"


@dataclass(slots=True)
class PodStory:
    """What happened to one pod, under all the UIDs that it had. `first` is its UID at the beginning."""

    first: str
    #: The node that it was on at the beginning; "": none.
    before: str
    #: Its record as it is now, or was when it went for good.
    latest: PlanPod
    #: Whether the changes create it.
    is_new: bool = False
    #: Whether it began with a scheduling gate that is not that of start-up ordering.
    has_others_gate: bool = False
    #: How it left its place last; None: it never did.
    gone: Gone | None = None
    #: Why; and whether it is still there, or was made again.
    why: Reason | None = None
    exists: bool = True
    #: How often it was made again.
    times: int = 0
    #: It ran on a node at some time during the plan.
    ran: bool = False

    @property
    def stayed(self) -> bool:
        """Whether it is where it was at the beginning, or was about to go anyway."""
        return bool(self.before) and self.gone is None

    @property
    def pod(self) -> Pod:
        return self.latest.pod.pod


def _as_it_is(pod: PlanPod) -> PlanPod:
    """Return the pod itself. It has a name, unlike a lambda: checkpoints of simulations refer to it by that."""
    return pod


class PlanCluster:
    """Nodes, pods and budgets as they are in the plan."""

    def __init__(
        self, decisions: frozenset[str] = frozenset(), as_made: Callable[[PlanPod], PlanPod] = _as_it_is
    ) -> None:
        """`as_made`: returns a pod as its owner makes it, without what engines have written on it."""
        self.nodes: dict[str, SchedNode] = {}
        self.pods: dict[str, PlanPod] = {}
        self.budgets: dict[str, Budget] = {}
        #: By the UID that the pod had first.
        self.stories: dict[str, PodStory] = {}
        self.listeners: list[Listener] = []
        #: UIDs of pods in the order in which they were bound since the list was replaced last.
        self.newly_bound: list[str] = []
        #: How many pods were bound, or left their places: what waits may be tried again.
        self.progress = 0
        #: The pod that was made again most often; None: none was.
        self.most_often: PodStory | None = None
        self._story: dict[str, PodStory] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._decisions = decisions
        self._as_made = as_made
        self._version = 0
        self._changes: deque[tuple[str, object]] = deque()

    # -- the world ------------------------------------------------------------------------------------------------

    def begin(self, world: World, obeyed: Callable[[PlanPod], PlanPod]) -> None:
        """Take the world as it is. Nobody is told: listeners load it. All versions to come are younger.

        `obeyed`: returns a pod with the dependencies that count.
        """
        versions = [node.resource_version for node in world.nodes]
        versions += [pod.pod.resource_version for pod in world.pods]
        self._version = max((int(each) for each in versions if each.isdigit()), default=0)
        for node in world.nodes:
            self.add_node(node)
        for budget in world.budgets:
            self.set_budget(budget)
        for pod in world.pods:
            self.add(obeyed(pod))
        self._changes.clear()

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def add_node(self, node: SchedNode) -> None:
        """A node as the world has it, or a new or changed one."""
        self.nodes[node.name] = node
        self._changes.append(("node_seen", node))

    def cordon(self, name: str) -> None:
        """Let no further pods on this node."""
        known = self.nodes[name]
        if not known.node.unschedulable:
            changed = replace(known.node, unschedulable=True, resource_version=self._next_version())
            self.add_node(replace(known, node=changed))

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._changes.append(("node_gone", name))

    def set_budget(self, budget: Budget) -> None:
        self.budgets[budget.key] = budget
        self._changes.append(("budget_seen", budget))

    def may_evict(self, pod: SchedPod) -> bool:
        """Whether no budget forbids to evict the pod now. The API server refuses a pod that has several."""
        of_pod = [budget for budget in self.budgets.values() if budget.covers(pod)]
        return len(of_pod) <= 1 and all(budget.allowed > 0 for budget in of_pod)

    def _count_in_budgets(self, pod: SchedPod, change: int) -> None:
        """What a budget still allows: one less for each of its running pods that goes, one more for each that comes."""
        for budget in list(self.budgets.values()):
            if budget.covers(pod):
                self.set_budget(budget.changed_by(change))

    # -- pods -----------------------------------------------------------------------------------------------------

    def add(self, pod: PlanPod, *, is_new: bool = False) -> None:
        """A pod as the world has it, or one that the changes create. One that waits for others is gated."""
        has_others_gate = pod.pod.pod.gated and not pod.has_own_gate
        if waits_for_others(pod) and not pod.pod.pod.node_name:
            pod = _with(pod, gated=True)
        story = PodStory(pod.pod.uid, pod.pod.pod.node_name, pod, is_new, has_others_gate)
        self.stories[story.first] = self._story[pod.pod.uid] = story
        self._put(pod)

    def create(self, pod: PlanPod, *, priority: int | None = None) -> None:
        """A pod that the changes create; with another priority than its own if one is given."""
        given = pod.pod.priority if priority is None else priority
        uid = pod.pod.uid or f"new-{len(self.stories)}"
        self.add(_with(pod, uid=uid, priority=given, resource_version=self._next_version()), is_new=True)

    def named(self, namespace: str, name: str) -> PlanPod | None:
        uid = self._keys.get((namespace, name))
        return None if uid is None else self.pods[uid]

    def story(self, uid: str) -> PodStory | None:
        """What happened to the pod that has or had this UID."""
        return self._story.get(uid)

    def waiting(self) -> Iterator[PlanPod]:
        """The pods without a node."""
        return (pod for pod in self.pods.values() if not pod.pod.pod.node_name)

    def _put(self, pod: PlanPod) -> None:
        self.pods[pod.pod.uid] = pod
        self._keys[pod.pod.key] = pod.pod.uid
        self._story[pod.pod.uid].latest = pod
        self._changes.append(("pod_seen", pod))

    def bind(self, uid: str, node: str, annotations: Pairs = ()) -> bool:
        """Whether the pod is on the node now: False if it is gone, or bound elsewhere."""
        pod = self.pods.get(uid)
        if pod is None or node not in self.nodes or pod.pod.pod.node_name not in ("", node):
            return False
        if not pod.pod.pod.node_name:
            placed = replace(pod.pod.pod.placed(node, annotations), phase="Running", nominated_node_name="")
            placed = replace(placed, resource_version=self._next_version())
            self._put(replace(pod, pod=replace(pod.pod, pod=placed), ready=True))
            self._story[uid].ran = True
            self.newly_bound.append(uid)
            self.progress += 1
            self._count_in_budgets(pod.pod, 1)
        return True

    def patch(
        self,
        uid: str,
        *,
        annotation: tuple[str, str | None] | None = None,
        condition: ScheduledCondition | None = None,
        nominated: str | None = None,
    ) -> bool:
        """Change fields of a pod; False if it is gone. None as the annotation's text removes it."""
        pod = self.pods.get(uid)
        if pod is None:
            return False
        changed = replace(pod.pod.pod, resource_version=self._next_version())
        if annotation is not None:
            changed = replace(changed, annotations=_annotated(changed.annotations, *annotation))
        if nominated is not None:
            changed = replace(changed, nominated_node_name=nominated)
        sched = replace(pod.pod, pod=changed)
        if condition is not None:
            sched = replace(sched, scheduled_condition=condition)
        self._put(replace(pod, pod=sched))
        return True

    def set_priority(self, uid: str, priority: int) -> None:
        """Give the pod another priority, as if it had been created with it."""
        self._put(_with(self.pods[uid], priority=priority, resource_version=self._next_version()))

    def relabel(self, uid: str, labels: Pairs, *, leaves_owner: bool = False) -> None:
        """Give the pod these labels; one that leaves its owner is not made again after an eviction."""
        pod = self.pods[uid]
        self._put(
            replace(
                _with(pod, labels=labels, resource_version=self._next_version()),
                owner=None if leaves_owner else pod.owner,
                above=() if leaves_owner else pod.above,
            )
        )
        self.progress += 1

    def create_like(self, pod: PlanPod, name: str) -> None:
        """The owner of a pod makes another one, of this name."""
        made = self._fresh(pod, f"new-{len(self.stories)}")
        self.add(replace(_with(made, name=name, created=""), origin="", behind=""), is_new=True)

    def open_gate(self, uid: str) -> None:
        """Remove the pod's scheduling gate, unless it has one that others have to remove."""
        pod = self.pods.get(uid)
        if pod is not None and pod.pod.pod.gated and not self._story[uid].has_others_gate:
            self._put(_with(pod, gated=False, resource_version=self._next_version()))

    def end(self, uid: str) -> None:
        """The pod has run to its end: it gives its room back, and stays as an object."""
        pod = self.pods.get(uid)
        if pod is not None and not pod.pod.pod.finished:
            self._put(replace(_with(pod, phase="Succeeded", resource_version=self._next_version()), ready=False))
            self.progress += 1

    def delete(self, uid: str, how: Gone, why: Reason | None = None) -> bool:
        """The pod goes at once. An evicted one with an owner is made again. False if it is gone already."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return False
        if self._keys.get(pod.pod.key) == uid:
            del self._keys[pod.pod.key]
        story = self._story[uid]
        story.gone, story.why = how, why
        story.exists = how is Gone.EVICTED and pod.owner is not None
        self._changes.append(("pod_gone", pod))
        if pod.pod.pod.node_name:
            self.progress += 1
            self._count_in_budgets(pod.pod, -1)
        if story.exists:
            self._make_again(story, pod)
        return True

    def remove_terminating(self) -> bool:
        """The pods that are being deleted go, as they would without any plan; their controllers have replaced them.
        False if there are none."""
        going = [uid for uid, pod in self.pods.items() if pod.pod.pod.terminating]
        for uid in going:
            self.delete(uid, Gone.LEAVING)
        return bool(going)

    def _make_again(self, story: PodStory, pod: PlanPod) -> None:
        story.times += 1
        if self.most_often is None or story.times > self.most_often.times:
            self.most_often = story
        again = self._fresh(pod, f"{story.first}~{story.times}")
        self._story[again.pod.uid] = story
        self._put(again)

    def _fresh(self, pod: PlanPod, uid: str) -> PlanPod:
        """The pod as its controller makes it: without a place, and without what a binding has written."""
        pod = self._as_made(pod)
        kept = tuple(pair for pair in pod.pod.pod.annotations if pair[0] not in self._decisions)
        made = _with(
            pod,
            uid=uid,
            resource_version=self._next_version(),
            annotations=kept,
            node_name="",
            nominated_node_name="",
            terminating=False,
            gated=waits_for_others(pod),
            phase="Pending",
        )
        sched = replace(made.pod, scheduled_condition=None, disrupted=False, started="")
        return replace(made, pod=sched, ready=False)

    # -- delivery -------------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        return bool(self._changes)

    def deliver(self) -> bool:
        """Report the oldest change to all listeners; False if there is none."""
        if not self._changes:
            return False
        kind, what = self._changes.popleft()
        for listener in self.listeners:
            getattr(listener, kind)(what)
        return True


def waits_for_others(pod: PlanPod) -> bool:
    """Whether the pod may start only when others are there."""
    return bool(pod.after or pod.behind)


def _with(pod: PlanPod, **fields: object) -> PlanPod:
    """The pod with other fields of its scheduling record."""
    return replace(pod, pod=with_fields(pod.pod, **fields))


def with_fields(pod: SchedPod, **fields: object) -> SchedPod:
    """The pod with other fields of its scheduling record."""
    return replace(pod, pod=replace(pod.pod, **fields))


def _annotated(annotations: Pairs, name: str, text: str | None) -> Pairs:
    rest = {key: value for key, value in annotations if key != name}
    return tuple(sorted((rest | ({} if text is None else {name: text})).items()))
