"""Vpods in a plan: on which pods of a StatefulSet their vreplicas are placed, and how the set is scaled for them.

    PlanCluster -- pods, nodes --> VPods --> VPodEngine, the one that places vpods live
         ^                           |
         +---- pods of the StatefulSet that are added, or taken away

Writes of placements succeed at once. Pods that the set adds are scheduled in the plan like all others, so a set that
finds no node for them says so. Times (scale-down, make before break) are followed: the plan's clock jumps.

A plan reads VPod objects and sets of the configuration and of VPodSet objects; vpods in resources of others it does not
have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from algorithm.reasons import Code, reason
from extender import resources
from extender.conversions.vpod_sets import configured_sets, custom_set
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.scale import ScaleWorkload, WorkloadScaled
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode
from extender.ordering.records import Target
from extender.plan.records import PlanPod, RawObject, Row, Sign, World
from extender.plan.run.clock import PlanClock
from extender.plan.run.engines.hosts import host_node, host_pod, replicas_of, stateful_set_pods
from extender.plan.run.engines.vpod_rows import vpod_rows
from extender.plan.run.store import Gone, PlanCluster
from extender.resources.reading import read
from extender.settings import Settings
from extender.vpods import events
from extender.vpods.engine import VPodEngine
from extender.vpods.names import pod_name, split
from extender.vpods.notices import Notice
from extender.vpods.records import ObjectKey, Reason, SetSettings, VPodKey, VPodRecord, Workload
from extender.vpods.state import SELDOM
from extender.vpods.vpodreader import decode_vpod
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import VPodRead

_DONE, _GONE, _LOST = Outcome(OutcomeKind.DONE), Outcome(OutcomeKind.GONE), Outcome(OutcomeKind.LOST)


class VPods:
    """A `Listener`. It costs nothing in a plan without sets."""

    def __init__(self, cluster: PlanCluster, settings: Settings, clock: PlanClock, world: World) -> None:
        self._cluster, self._clock, self._world = cluster, clock, world
        self.engine = VPodEngine()
        self.sets: dict[ObjectKey, SetSettings] = {each.key: each for each in configured_sets(settings.vpods)}
        self._is_used = False
        self._raw: dict[VPodKey, RawObject] = {}
        self._records: dict[VPodKey, VPodRecord] = {}
        #: Placements at the beginning; of a new vpod none.
        self._before: dict[VPodKey, tuple[tuple[str, int], ...]] = {}
        self._new: set[VPodKey] = set()
        self._workloads: dict[ObjectKey, Workload] = {}
        self._sources: dict[ObjectKey, RawObject] = {}
        self._events: deque[Any] = deque()
        self._version = 0
        self._invalid: list[tuple[RawObject, str]] = []
        self._said: list[str] = []
        self._is_loaded = False

    # -- what there is --------------------------------------------------------------------------------------------

    def add_objects(self, objects: Iterable[RawObject]) -> None:
        """Take in the VPodSets, VPods and StatefulSets among these."""
        found = list(objects)
        changed = [self._add_set(raw) for raw in found if raw.kind == "VPodSet"]
        for raw in found:
            if raw.kind == "StatefulSet":
                self._add_workload(raw)
            elif raw.kind == "VPod":
                self._add_vpod(raw)
        if any(changed) and self._is_used:
            self._events.append(events.SetsConfigured(tuple(self.sets.values())))
        if not self._is_used and (self.sets or self._records):
            self._begin()
        self._is_loaded = True

    def _add_set(self, raw: RawObject) -> bool:
        try:
            made = custom_set(read(resources.VPodSet, _object(raw)))
        except (ValueError, msgspec.MsgspecError) as error:
            self._said.append(f"VPodSet {raw.namespace}/{raw.name} is not served: {error}")
            return False
        taken = any(
            (each.key.namespace, each.workload) == (raw.namespace, made.workload) for each in self.sets.values()
        )
        if made.key in self.sets or taken:
            self._said.append(f"VPodSet {made.key} is not served: another set has its name or its StatefulSet")
            return False
        self.sets[made.key] = made
        return True

    def _add_workload(self, raw: RawObject) -> None:
        key = ObjectKey(raw.namespace, raw.name)
        self._sources[key] = raw
        known = self._workloads.get(key)
        number, first = replicas_of(raw)
        self._set_workload(Workload(key, known.uid if known else f"set-{key}", "", number, first))

    def _set_workload(self, workload: Workload) -> None:
        workload = msgspec.structs.replace(workload, version=self._next_version())
        self._workloads[workload.key] = workload
        if self._is_used:
            self._events.append(events.WorkloadSeen(workload))

    def _add_vpod(self, raw: RawObject) -> None:
        try:
            record = decode_vpod(msgspec.json.encode(_object(raw)))
        except (DecodeError, msgspec.MsgspecError) as error:
            self._invalid.append((raw, str(error)))
            return
        if record is None:
            return
        self._raw[record.key] = raw
        if self._is_loaded:
            self._new.add(record.key)
        self._before.setdefault(record.key, record.placements)
        self._enter(msgspec.structs.replace(record, uid=record.uid or f"vpod-{record.key}"))

    def _enter(self, record: VPodRecord) -> VPodRecord:
        self._records[record.key] = record = msgspec.structs.replace(record, version=self._next_version())
        if self._is_used:
            self._events.append(events.VPodSeen(record))
        return record

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def load(self) -> Iterator[None]:
        return iter(())

    def _begin(self) -> None:
        self._is_used = True
        self._events += [events.TermBegun(1), events.SetsConfigured(tuple(self.sets.values()))]
        for node in self._cluster.nodes.values():
            self.node_seen(node)
        for pod in self._cluster.pods.values():
            self.pod_seen(pod)
        self._events += [events.WorkloadSeen(each) for each in self._workloads.values()]
        self._events += [events.VPodSeen(each) for each in self._records.values()]
        self._events.append(events.Synced())

    def node_seen(self, node: SchedNode, /) -> None:
        if self._is_used:
            self._events.append(events.HostNodeSeen(host_node(node.node)))

    def node_gone(self, name: str, /) -> None:
        if self._is_used:
            self._events.append(events.HostNodeGone(name))

    def budget_seen(self, budget: Budget, /) -> None:
        """Budgets do not concern vpods."""

    def pod_seen(self, pod: PlanPod, /) -> None:
        if self._is_used and _is_host(pod):
            self._events.append(events.HostPodSeen(host_pod(pod)))

    def pod_gone(self, pod: PlanPod, /) -> None:
        if self._is_used and _is_host(pod):
            self._events.append(events.HostPodGone(ObjectKey(*pod.pod.key), pod.pod.uid))

    # -- what happens ---------------------------------------------------------------------------------------------

    def step(self) -> bool:
        if not self._is_used:
            return False
        if self._events:
            self._tell(self._events.popleft())
            return True
        due = self.engine.next_due()
        if due is not None and due <= self._clock.time:
            self._tell(events.Ticked())
            return True
        return False

    def next_due(self) -> float | None:
        return self.engine.next_due() if self._is_used and self.sets else None

    @property
    def patience(self) -> float:
        """Seconds for which a set may wait before it goes on; 0: there is none."""
        longest = 0.0
        for each in self.sets.values():
            times = (each.unready_seconds, each.scale_down_seconds, each.scale_up_seconds, each.overlap_seconds)
            longest = max(longest, 2 * max(*times, each.partial_seconds or 0.0, SELDOM))
        return longest

    def _tell(self, event: Any) -> None:
        for instruction in self.engine.handle(event, self._clock.read()):
            if isinstance(instruction, WritePlacements):
                self._events.append(PlacementsWritten(instruction.token, instruction.key, self._write(instruction)))
            elif isinstance(instruction, ScaleWorkload):
                self._events.append(WorkloadScaled(instruction.token, self._scale(instruction)))
            elif not isinstance(instruction, Notice):
                known = self._records.get(instruction.key)
                self._events.append(VPodRead(instruction.key, instruction.uid, _DONE if known else _GONE, known))

    def _write(self, write: WritePlacements) -> Outcome:
        record = self._records.get(write.key)
        if record is None:
            return _GONE
        if record.version != write.version:
            return _LOST
        if record.placements != write.placements:
            self._cluster.progress += 1
        status = {"placements": write.placements, "reason": write.reason, "condition": write.condition}
        record = msgspec.structs.replace(record, **status, since=write.since, observed=write.generation)
        return Outcome(OutcomeKind.DONE, resource_version=self._enter(record).version)

    def _scale(self, scale: ScaleWorkload) -> Outcome:
        key = ObjectKey(scale.namespace, scale.name)
        workload = self._workloads.get(key)
        if workload is None:
            return _GONE
        if workload.version != scale.resource_version:
            return _LOST
        self._said.append(
            f"StatefulSet {key} would be scaled from {workload.replicas} to {scale.replicas} for its vpods"
        )
        self._set_workload(msgspec.structs.replace(workload, replicas=scale.replicas))
        if scale.replicas < workload.replicas:
            self._remove(key, scale.replicas, workload.replicas)
        else:
            self._add_pods(key, workload.replicas, scale.replicas)
        self._cluster.progress += 1
        return _DONE

    def _remove(self, key: ObjectKey, replicas: int, before: int) -> None:
        why = reason(
            Code.OTHER, detail=f"its StatefulSet is scaled from {before} to {replicas}: vpods need no more pods"
        )
        for ordinal in range(before - 1, replicas - 1, -1):
            pod = self._cluster.named(key.namespace, pod_name(key.name, ordinal))
            if pod is not None and pod.owner == Target("StatefulSet", key.namespace, key.name):
                self._cluster.delete(pod.pod.uid, Gone.DELETED, why)

    def _add_pods(self, key: ObjectKey, before: int, replicas: int) -> None:
        sample = self._cluster.named(key.namespace, pod_name(key.name, 0))
        if sample is not None:
            for ordinal in range(before, replicas):
                self._cluster.create_like(sample, pod_name(key.name, ordinal))
        elif (raw := self._sources.get(key)) is not None:
            for pod in stateful_set_pods(raw, replicas, self._world):
                if self._cluster.named(*pod.pod.key) is None:
                    self._cluster.create(pod)

    # -- what is said ---------------------------------------------------------------------------------------------

    def warnings(self) -> list[str]:
        return self._said

    def rows(self) -> Iterator[Row]:
        """One for each vpod that is new, lacks room, or has moved. `Row.node`: its pods with the numbers there."""
        yield from vpod_rows(
            self.engine, self._raw, self._records, self._before, frozenset(self._new), now=self._clock.time
        )
        for raw, fault in self._invalid:
            yield Row(
                sign=Sign.WAITS,
                kind="VPod",
                namespace=raw.namespace,
                name=raw.name,
                code=Reason.BAD_NUMBER.value,
                text=fault,
                origin=raw.origin,
            )


def _is_host(pod: PlanPod) -> bool:
    return pod.owner is not None and pod.owner.kind == "StatefulSet" and split(pod.pod.key.name) is not None


def _object(raw: RawObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw.json)
    found.setdefault("metadata", {})["namespace"] = raw.namespace
    return found
