"""Why pods stay held back, in which wave each starts, and what the longest chain is: asked of the fixpoint engine.

When nothing happens any more, the declared dependencies are a graph that no longer changes:

    pod --needs--> milestone (an object in a state) --needs--> its pods

A pod with a node is ready; one that waits for room is pending for ever. What the engine says of the others (not found,
failed, a cycle with its path, the root causes) becomes the reason of their rows, in the words of start-up ordering.
What was there before the plan is no node: a pod that waits for it starts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from algorithm.reasons import Code, Reason, reason
from extender.fixpoint import Code as Fault
from extender.fixpoint import Done, Engine, Need, Status, Visit
from extender.fixpoint import Reason as Cause
from extender.fixpoint.records import Outcome
from extender.fixpoint.report import Report
from extender.ordering.records import DEPLOYMENT, GROUP, JOB_SET, REPLICATED_JOB, VOLCANO_TASK, State, Target
from extender.plan.records import PlanPod
from extender.plan.run.dependencies import Id, needs_of, pod_id
from extender.plan.run.milestones import Milestone, Milestones, Stage, Standing, dependencies_of

_PARTS = (REPLICATED_JOB, VOLCANO_TASK)
#: What a pod belongs to through something else: a cycle does not name them.
_PARTS_OF = (REPLICATED_JOB, JOB_SET, DEPLOYMENT)
#: What one reason names, and what is left of a long cycle.
_NAMED, _IN_CYCLE = 5, 12


class Judgement(NamedTuple):
    """What is said of the pods, by key. `edges` are (dependant, what it waits for, state)."""

    reasons: Mapping[str, Reason]
    roots: Mapping[str, tuple[str, ...]]
    waves: Mapping[str, int]
    #: What would help, of those that wait for the end of pods that do not run to an end.
    fixes: Mapping[str, str] = MappingProxyType({})
    critical_path: tuple[str, ...] = ()
    edges: tuple[tuple[str, str, str], ...] = ()


def unit_of(pod: PlanPod) -> str:
    """What the pod is counted with: its part of a JobSet or a Volcano Job, else the topmost object above it, its gang,
    or itself."""
    part = next((each for each in pod.above if each.kind in _PARTS), None)
    top = part or (pod.above[-1] if pod.above else pod.owner)
    if top is not None:
        return str(top)
    return pod.group.name if pod.group is not None else str(Target("Pod", *pod.pod.key))


def judge(milestones: Milestones, pods: Mapping[str, PlanPod], old: frozenset[str], held: Sequence[str]) -> Judgement:
    """Judge the pods, by key, as they are at the end.

    `old`: the keys of those that stayed where they were; `held`: of those that are still held back.
    """
    dependants = [key for key, pod in pods.items() if key not in old and dependencies_of(pod)]
    return (
        _Judge(milestones, pods, old, frozenset(held)).judge(dependants, held) if dependants else Judgement({}, {}, {})
    )


class _Judge:
    def __init__(
        self, milestones: Milestones, pods: Mapping[str, PlanPod], old: frozenset[str], held: frozenset[str]
    ) -> None:
        self._milestones = milestones
        self._pods = pods
        self._old = old
        self._held = held
        #: The milestones of each need.
        self._of: dict[Id, tuple[Milestone, ...]] = {}
        self._engine: Engine[Id] = Engine(self._body)

    def judge(self, dependants: list[str], held: Iterable[str]) -> Judgement:
        for key in dependants:
            self._of.update((need.id, some) for need, some in needs_of(dependencies_of(self._pods[key])))
        for name, some in self._of.items():
            self._declare(name, some)
        report = self._engine.run(pod_id(key) for key in dependants)
        by_id = report.by_id
        causes = {key: by_id[pod_id(key)].reason for key in held if pod_id(key) in by_id}
        return Judgement(
            reasons={key: self._reason(key, cause, report) for key, cause in causes.items()},
            roots={key: self._roots(cause) for key, cause in causes.items()},
            fixes={key: text for key in causes if (text := self._endless(self._pods[key]))},
            # Pods and milestones take turns.
            waves={node.id[1]: node.wave // 2 for node in report.nodes if node.id[0] == "pod"},
            critical_path=self._path(report),
            edges=tuple(dict.fromkeys(self._edges(dependants))),
        )

    # -- the graph ------------------------------------------------------------------------------------------------

    def _declare(self, name: Id, some: tuple[Milestone, ...]) -> None:
        """Tell the engine of a need: a node, or data if what it needs was there before or has failed by itself."""
        new = [key for each in some for key in self._members(each.target) if key not in self._old]
        if new:
            self._engine.seed([name, *(pod_id(key) for key in new)])
            return
        standings = {self._milestones.standing(each) for each in some}
        if standings != {Standing.ABSENT}:
            reached, why = Standing.REACHED in standings, self._why_not(some)
            self._engine.status(name, Status.READY if reached else Status.FAILED if why else Status.PENDING)

    def _members(self, target: Target) -> Mapping[str, Stage]:
        return self._milestones.members.get(target, {})

    def _body(self, visit: Visit[Id]) -> Outcome[Id] | None:
        return self._of_pod(visit) if visit.id[0] == "pod" else self._of_need(visit)

    def _of_pod(self, visit: Visit[Id]) -> Outcome[Id] | None:
        pod = self._pods[visit.id[1]]
        outcome = visit.gate([need for need, _ in needs_of(dependencies_of(pod))])
        if outcome is not None:
            return outcome
        return Done(Status.READY if pod.pod.pod.node_name else Status.PENDING)

    def _of_need(self, visit: Visit[Id]) -> Outcome[Id] | None:
        """A need is met by the first alternative that is; it fails with all."""
        some = self._of[visit.id]
        reached = [each for each in some if self._milestones.standing(each) is Standing.REACHED]
        if reached:
            return visit.gate(self._pods_of(reached[:1], lacking=False))
        lacking = self._pods_of(some, lacking=True)
        # Pods that only wait for room are no trouble as long as others are held back, perhaps for ever.
        outcome = visit.gate([need for need in lacking if need.id[1] in self._held] or lacking)
        if outcome is not None:
            return outcome
        why = self._why_not(some)
        return Done.failed(why) if why else Done(Status.PENDING)

    def _pods_of(self, some: Iterable[Milestone], *, lacking: bool) -> list[Need[Id]]:
        """The new pods of these objects that run, or those that wait."""
        return [
            Need(pod_id(key))
            for each in some
            for key, stage in self._members(each.target).items()
            if key not in self._old and (stage is Stage.WAITS) is lacking
        ]

    def _why_not(self, some: Iterable[Milestone]) -> str:
        return "; ".join(self._why_not_one(each) for each in some)

    def _why_not_one(self, milestone: Milestone) -> str:
        record = self._milestones.record_of(milestone.target)
        if record is not None and record.failed and not record.complete:
            return f"{record.target} failed: {record.failed}"
        if self._milestones.standing(milestone) is Standing.FAILED:
            return f"{milestone.target} failed"
        return ""

    # -- what is said ---------------------------------------------------------------------------------------------

    def _reason(self, key: str, cause: Cause[Id] | None, report: Report[Id]) -> Reason:
        """Return the worst of what keeps the pod back: a cycle, a failure, something missing; else that it waits."""
        if cause is not None and cause.code is Fault.CYCLE:
            return reason(Code.DEPENDENCY_CYCLE, path=_cycle(cause.path))
        found = [] if cause is None else [self._passed_on(root, cause, report) for root in cause.root]
        troubles = [each for each in found if each is not None]
        for code in (Code.DEPENDENCY_FAILED, Code.DEPENDENCY_NOT_FOUND):
            for each in troubles:
                if each.code is code:
                    return each
        return self._waits(self._pods[key])

    def _passed_on(self, root: Id, cause: Cause[Id], report: Report[Id]) -> Reason | None:
        """The reason that one root cause is; None if the root only waits for room."""
        via = " or ".join(str(each.target) for name in cause.because[:1] for each in self._of.get(name, ()))
        node = report.by_id.get(root)
        if node is not None and node.reason is not None and node.reason.code is Fault.CYCLE:
            detail = f"there is a cycle, {_cycle(node.reason.path)}"
            return reason(Code.DEPENDENCY_FAILED, dependencies=via, detail=detail)
        some = self._of.get(root)
        if some is None:
            return None
        name = " or ".join(str(each.target) for each in some)
        if all(self._milestones.standing(each) is Standing.ABSENT for each in some):
            return reason(
                Code.DEPENDENCY_NOT_FOUND, dependencies=name if via == name else f"{via}, and that for {name}"
            )
        why = self._why_not(some)
        return reason(Code.DEPENDENCY_FAILED, dependencies=via, detail=why) if why else None

    def _waits(self, pod: PlanPod) -> Reason:
        """What of its dependencies is not there."""
        names = [
            " or ".join(f"{each.target!s} to be {each.state}" for each in some[:_NAMED])
            for _, some in needs_of(dependencies_of(pod))
            if not any(self._milestones.standing(each) is Standing.REACHED for each in some)
        ]
        more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
        return reason(Code.WAITS_FOR_DEPENDENCY, dependencies=", ".join(sorted(names)[:_NAMED] + more))

    def _endless(self, pod: PlanPod) -> str:
        """That a dependency never completes; "" if each may."""
        for each in dependencies_of(pod):
            is_there = bool(self._members(each.target))
            if each.state is State.COMPLETE and is_there and not self._milestones.can_complete(each.target):
                return f"{each.target} never completes: its pods do not run to an end."
        return ""

    def _roots(self, cause: Cause[Id] | None) -> tuple[str, ...]:
        ids = () if cause is None else cause.root or cause.path
        names = [name for each in ids for name in self._names(each)]
        return tuple(dict.fromkeys(names))

    def _names(self, each: Id) -> Iterator[str]:
        if each[0] == "pod":
            yield str(Target("Pod", *self._pods[each[1]].pod.key))
        else:
            yield from (str(some.target) for some in self._of.get(each, ()))

    def _path(self, report: Report[Id]) -> tuple[str, ...]:
        units = [unit_of(self._pods[each[1]]) for each in report.critical_path if each[0] == "pod"]
        return tuple(dict.fromkeys(units))

    def _edges(self, dependants: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        for key in dependants:
            pod = self._pods[key]
            for each in dependencies_of(pod):
                yield unit_of(pod), _box(each.target), each.state.value


def _box(target: Target) -> str:
    """The name by which rows call it: of a gang its name alone."""
    return target.name if target.kind == GROUP else str(target)


def _cycle(path: tuple[Id, ...]) -> str:
    """The objects of a cycle, the first one by name first and last."""
    around = [Target(*each[1:4]) for each in path[:-1] if each[0] == "milestone"]
    named = [each for each in around if each.kind not in _PARTS_OF] or around
    names = list(dict.fromkeys(named))
    if not names:
        return ""
    first = names.index(min(names))
    shown = [str(each) for each in (*names[first:], *names[:first], names[first])]
    if len(shown) > _IN_CYCLE:
        shown[_IN_CYCLE // 2 : -(_IN_CYCLE // 2)] = [f"({len(shown) - _IN_CYCLE} more)"]
    return " -> ".join(shown)
