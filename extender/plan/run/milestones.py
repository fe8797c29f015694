"""What others wait for: how far each object has come, by the pods that belong to it.

    an object by State:  Scheduled  as many pods as it needs are on nodes, or have run to their ends
                         Ready      the same: a bound pod is ready at once
                         Complete   all its pods have run to their ends, or its status says so

A gang needs its minimum; any other object needs all its pods. A failed pod or Job is not ready. An object that has
completed before the plan is ready, too. A part of a JobSet has the Jobs that were made of it: those that have completed
count, also if their pods are gone, and while one of them has failed it is not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from algorithm.decoding import DecodeError
from algorithm.packing.gangs import membership_or_none
from extender.ordering.records import GROUP, Dependency, Part, State, Target, WorkloadRecord
from extender.ordering.workloadreader import decode_workload
from extender.plan.records import PlanPod, RawObject


class Milestone(NamedTuple):
    """An object in a state. Totally ordered, as the fixpoint engine wants it."""

    target: Target
    state: State

    def __str__(self) -> str:
        return f"{self.target}={self.state}"


class Standing(Enum):
    """How a milestone stands."""

    ABSENT = "absent"
    PENDING = "pending"
    REACHED = "reached"
    FAILED = "failed"


class Stage(Enum):
    """How far a pod has come."""

    WAITS = 0
    RUNS = 1
    ENDED = 2
    FAILED = 3


def dependencies_of(pod: PlanPod) -> tuple[Dependency, ...]:
    """What the pod waits for, with the pod before it in a StatefulSet that starts in order."""
    if not pod.behind:
        return pod.after
    return (*pod.after, Dependency(Target("Pod", pod.pod.key.namespace, pod.behind)))


def objects_of(pod: PlanPod) -> Iterator[Target]:
    """The pod and all that it belongs to: its owner, the objects above, its gang."""
    yield Target("Pod", *pod.pod.key)
    yield from pod.above
    if pod.owner is not None:
        yield pod.owner
    if pod.group is not None:
        yield pod.group


def stage_of(pod: PlanPod) -> Stage:
    match pod.pod.pod.phase:
        case "Succeeded":
            return Stage.ENDED
        case "Failed":
            return Stage.FAILED
    return Stage.RUNS if pod.pod.pod.node_name else Stage.WAITS


class Milestones:
    """All objects with their pods, which are named by what stays the same when a pod is made again: a `key`."""

    def __init__(self) -> None:
        self.records: dict[Target, WorkloadRecord] = {}
        #: The pods of each object, by key, with how far they have come.
        self.members: dict[Target, dict[str, Stage]] = {}
        self._pods: dict[str, PlanPod] = {}
        self._known: set[Target] = set()
        #: The parts of objects, with the object; and the Jobs that were made of a part.
        self._parts: dict[Target, tuple[Part, Target]] = {}
        self._jobs: dict[Target, list[WorkloadRecord]] = {}
        #: How many pods an object makes, or of a PodGroup: needs.
        self._expected: dict[Target, int] = {}
        self._minimum: dict[Target, int] = {}
        #: How many pods of each object have come how far.
        self._counts: dict[tuple[Target, Stage], int] = {}

    # -- what there is --------------------------------------------------------------------------------------------

    def add_objects(self, objects: Iterable[RawObject]) -> None:
        """Objects other than pods. One that cannot be read exists, and no more is known of it."""
        for each in objects:
            self._known.add(each.target)
            try:
                record = decode_workload(each.json, each.api_version, each.kind)
            except DecodeError:
                continue
            if record is not None:
                self.records[record.target] = record
                self._known.add(record.target)
                self._expected[record.target] = record.pods
                self._expected.update((part.target, part.pods) for part in record.parts)
                self._parts.update((part.target, (part, record.target)) for part in record.parts)
                if record.part is not None:
                    self._jobs.setdefault(record.part, []).append(record)

    def set_pod(self, key: str, pod: PlanPod) -> list[Target]:
        """Record the pod. Returns the objects that come further by it, or fall back."""
        before, stage = self._pods.get(key), stage_of(pod)
        self._pods[key] = pod
        if before is None and pod.group is not None:
            self._learn_minimum(pod.group, pod)
        return [target for target in objects_of(pod) if self._set(target, key, stage)]

    def remove_pod(self, key: str) -> list[Target]:
        """The pod is gone for good. Returns the objects that it belonged to."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return []
        targets = list(objects_of(pod))
        for target in targets:
            stage = self.members[target].pop(key, None)
            if stage is not None:
                self._counts[target, stage] -= 1
        return targets

    def pod(self, key: str) -> PlanPod:
        return self._pods[key]

    def _set(self, target: Target, key: str, stage: Stage) -> bool:
        members = self.members.setdefault(target, {})
        before = members.get(key)
        if before is stage:
            return False
        if before is not None:
            self._counts[target, before] -= 1
        members[key] = stage
        self._counts[target, stage] = self._counts.get((target, stage), 0) + 1
        return True

    def _learn_minimum(self, group: Target, pod: PlanPod) -> None:
        member = membership_or_none(pod.pod.pod)
        if member is not None:
            self._minimum[group] = max(self._minimum.get(group, 1), member.minimum)

    # -- how it stands --------------------------------------------------------------------------------------------

    def exists(self, target: Target) -> bool:
        return target in self._known or target in self._expected or bool(self.members.get(target))

    def standing(self, milestone: Milestone) -> Standing:
        target, state = milestone
        if not self.exists(target):
            return Standing.ABSENT
        record = self.record_of(target)
        if (record is not None and record.complete) or self._jobs_completed(target):
            return Standing.REACHED
        if (record is not None and record.failed) or self._pod_failed(target):
            return Standing.FAILED
        if any(job.failed and not job.complete for job in self._jobs.get(target, ())):
            return Standing.PENDING
        return Standing.REACHED if self._is_reached(target, state) else Standing.PENDING

    def record_of(self, target: Target) -> WorkloadRecord | None:
        """What was read of the object; of a part: of the object that it belongs to."""
        return self.records.get(self._parts[target][1] if target in self._parts else target)

    def _jobs_completed(self, target: Target) -> bool:
        """Whether all Jobs of a part have completed."""
        if target not in self._parts:
            return False
        return sum(job.complete for job in self._jobs.get(target, ())) >= self._parts[target][0].jobs > 0

    def _pod_failed(self, target: Target) -> bool:
        """A failed pod is made again by its owner, but not if it is waited for by its own name."""
        return target.kind == "Pod" and self._count(target, Stage.FAILED) > 0

    def _is_reached(self, target: Target, state: State) -> bool:
        ended = self._count(target, Stage.ENDED)
        if state is State.COMPLETE:
            failed = self._count(target, Stage.FAILED)
            return ended + failed == len(self.members.get(target, ())) and ended >= max(1, self.needed(target))
        return ended + self._count(target, Stage.RUNS) >= self.needed(target)

    def needed(self, target: Target) -> int:
        """How many pods must have a node: a gang's minimum, else all."""
        expected = self._expected.get(target, 0)
        if target.kind == GROUP:
            return max(self._minimum.get(target, 1), expected)
        return max(expected, len(self.members.get(target, ())) - self._count(target, Stage.FAILED))

    def _count(self, target: Target, stage: Stage) -> int:
        return self._counts.get((target, stage), 0)

    def can_complete(self, target: Target) -> bool:
        """Whether its pods run to an end."""
        members = self.members.get(target, {})
        return bool(members) and all(self._pods[key].runs_to_end for key in members)
