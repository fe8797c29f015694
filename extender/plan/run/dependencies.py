"""Releases pods when what they wait for is there, with the fixpoint engine.

    pod with dependencies: a node that needs milestones --> its gate opens --> kube-scheduler may try it
    pod bound, ended, gone --> Milestones --> status of a milestone --> wakes the nodes that need it

The engine calls `at_rest` when no pod can be released: then the run goes on, piece by piece, until nothing happens any
more. What is left is judged: an optional dependency on what does not exist is waived; other pods stay held back.

Release is once: a pod that was released is not held back again when a dependency falls back. A pod that is evicted and
made again waits anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeAlias

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode
from extender.fixpoint import Done, Engine, Limits, Need, Status, Visit
from extender.fixpoint.records import Outcome
from extender.ordering.records import Dependency, State, Target
from extender.plan.records import PlanPod
from extender.plan.run.milestones import Milestone, Milestones, Standing, dependencies_of, objects_of
from extender.plan.run.store import PlanCluster, waits_for_others

#: A node or a milestone: its kind, and what names it.
Id: TypeAlias = tuple[str, ...]

_STATUS = {Standing.PENDING: Status.PENDING, Standing.REACHED: Status.READY, Standing.FAILED: Status.FAILED}


def milestone_id(milestone: Milestone) -> Id:
    return ("milestone", *milestone.target, milestone.state)


def pod_id(uid: str) -> Id:
    return ("pod", uid)


def needs_of(dependencies: Iterable[Dependency]) -> Iterator[tuple[Need[Id], tuple[Milestone, ...]]]:
    """Yield the needs, each with its milestones: one, or alternatives of which one is enough."""
    either: dict[str, list[Dependency]] = {}
    for each in dependencies:
        if each.either:
            either.setdefault(each.either, []).append(each)
        else:
            milestone = Milestone(each.target, each.state)
            yield Need(milestone_id(milestone), optional=each.optional), (milestone,)
    for some in either.values():
        milestones = tuple(Milestone(each.target, each.state) for each in some)
        name = ("either", *(str(each) for each in milestones))
        yield Need(name, optional=all(each.optional for each in some)), milestones


class Dependencies:
    """A `Listener`. `at_rest` goes on with the run; see the module."""

    def __init__(self, cluster: PlanCluster, at_rest: Callable[[], bool]) -> None:
        self.milestones = Milestones()
        #: Of pods that are held back: their UIDs.
        self.held: set[str] = set()
        self._is_active = False
        self._released: set[str] = set()
        self._cluster = cluster
        self._engine: Engine[Id] = Engine(self._body, at_rest=at_rest, limits=Limits(rests=1 << 60))
        #: The needs of each milestone that somebody waits for.
        self._watched: dict[Target, dict[Id, tuple[Milestone, ...]]] = {}

    def run(self) -> Generator[None, None, None]:
        """Run to the end, in bounded pieces."""
        yield from self._engine.steps()

    # -- what happens ---------------------------------------------------------------------------------------------

    def load(self) -> Iterator[None]:
        """Take in the pods as they are at the beginning, if one of them waits for others."""
        if any(waits_for_others(pod) for pod in self._cluster.pods.values()):
            yield from self._begin()

    def _begin(self) -> Iterator[None]:
        """From now on there is something to do: as long as nobody waits for others, nothing is counted."""
        self._is_active = True
        for number, pod in enumerate(list(self._cluster.pods.values())):
            self.pod_seen(pod)
            if number % 1000 == 0:
                yield

    def node_seen(self, node: SchedNode, /) -> None: ...

    def node_gone(self, name: str, /) -> None: ...

    def budget_seen(self, budget: Budget, /) -> None: ...

    def pod_seen(self, pod: PlanPod, /) -> None:
        if not self._is_active:
            if waits_for_others(pod):
                for _ in self._begin():
                    pass
            return
        uid = pod.pod.uid
        story = self._cluster.story(uid)
        if story is None or self._cluster.pods.get(uid) is None:
            return
        self._report(self.milestones.set_pod(story.first, pod))
        if uid in self._released:
            self._released.discard(uid)
            self._engine.gone(pod_id(uid))  # whatever becomes of its dependencies, it is not held back again
        elif pod.pod.pod.gated and uid not in self.held and dependencies_of(pod):
            self.held.add(uid)
            self._watch(pod)
            self._engine.seed([pod_id(uid)])

    def pod_gone(self, pod: PlanPod, /) -> None:
        uid = pod.pod.uid
        if uid in self.held:
            self.held.discard(uid)
            self._engine.gone(pod_id(uid))
        story = self._cluster.story(uid)
        if story is not None and not story.exists:
            self._report(self.milestones.remove_pod(story.first))

    def step(self) -> bool:
        return False

    def next_due(self) -> float | None:
        return None

    # -- milestones -----------------------------------------------------------------------------------------------

    def _watch(self, pod: PlanPod) -> None:
        for need, milestones in needs_of(dependencies_of(pod)):
            for milestone in milestones:
                self._watched.setdefault(milestone.target, {})[need.id] = milestones
            self._tell(need.id, milestones)

    def _report(self, targets: Iterable[Target]) -> None:
        for target in targets:
            for name, milestones in self._watched.get(target, {}).items():
                self._tell(name, milestones)

    def _tell(self, name: Id, milestones: tuple[Milestone, ...]) -> None:
        """Report how a need stands: of alternatives, the one that has come furthest counts."""
        standings = {self.milestones.standing(each) for each in milestones}
        for standing in (Standing.REACHED, Standing.PENDING, Standing.FAILED):
            if standing in standings:
                self._engine.status(name, _STATUS[standing])
                return
        self._engine.gone(name)

    def objects_changed(self) -> None:
        """Objects were added: what others wait for may exist now."""
        self._report(list(self._watched))

    # -- releasing ------------------------------------------------------------------------------------------------

    def _body(self, visit: Visit[Id]) -> Outcome[Id]:
        uid = visit.id[1]
        pod = self._cluster.pods.get(uid)
        if pod is None:
            return Done()
        outcome = visit.gate([need for need, _ in needs_of(dependencies_of(pod))])
        if outcome is None:
            self.held.discard(uid)
            self._released.add(uid)
            self._cluster.open_gate(uid)
            return Done()
        return outcome

    def to_end(self) -> list[str]:
        """The UIDs of bound pods that run to an end, and for whose ends a pod that is held back waits."""
        wanted = {
            milestone.target: None
            for uid in sorted(self.held)
            for _, milestones in needs_of(dependencies_of(self._cluster.pods[uid]))
            for milestone in milestones
            if milestone.state is State.COMPLETE and self.milestones.standing(milestone) is Standing.PENDING
        }
        return [
            uid
            for uid, pod in self._cluster.pods.items()
            if pod.runs_to_end
            and pod.pod.pod.node_name
            and not pod.pod.pod.finished
            and any(target in wanted for target in objects_of(pod))
        ]
