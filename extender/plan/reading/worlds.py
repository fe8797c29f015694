"""The cluster as it is, as a `World`: objects as the API server sends them become the records of a plan.

Objects that others point to come first, so that each pod knows the objects above its owner:

    reader = WorldReader(settings)
    reader.add("apps/v1", "ReplicaSet", raw)     workloads, gangs, classes, pools, claims, sets of vpods, vpods
    reader.add("v1", "Node", raw), ... PodDisruptionBudgets
    reader.add("v1", "Pod", raw)
    reader.world(source=..., taken=...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from algorithm.model import pairs
from extender.core.ordering_names import GATE
from extender.embedded.kubescheduler.budgets import Budget, decode_budget
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, decode_node, decode_pod
from extender.ordering.after import AfterError
from extender.ordering.owners import KIND_BY_API, Owner
from extender.ordering.records import (
    GROUP,
    JOB_SET,
    REPLICATED_JOB,
    VOLCANO_JOB,
    VOLCANO_TASK,
    Dependency,
    Target,
)
from extender.plan.reading.dependencies import declared, of_parts
from extender.plan.reading.gangs import gang_of
from extender.plan.reading.keeping import Keeper
from extender.plan.reading.kinds import POD_GROUPS, group_of
from extender.plan.reading.runtimes import RunTimeFault, Seconds, expected_seconds
from extender.plan.records import PlanPod, RawObject, World

#: Owners above a pod that are looked for.
_MOST_ABOVE = 5
#: Objects whose faults are named.
_MOST_NAMED = 10


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: list[Owner] | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _Gate(msgspec.Struct, gc=False):
    name: str = ""


class _PodSpec(msgspec.Struct, gc=False, rename="camel"):
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    scheduling_gates: list[_Gate] | None = None


class _PodStatus(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _PodWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _JobSpec(msgspec.Struct, gc=False, rename="camel"):
    replicas: msgspec.Raw = msgspec.Raw()
    active_deadline_seconds: int | None = None


class _ObjectWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw()


class _Above(msgspec.Struct, frozen=True):
    """What a pod inherits of an object above it."""

    annotations: dict[str, str] = {}
    owner: Target | None = None
    part: Target | None = None
    deadline: float = 0.0
    #: What its parts wait for.
    after: dict[str, tuple[Dependency, ...]] = {}


class WorldObject(msgspec.Struct, frozen=True):
    """An object that is neither a pod, a node nor a budget."""

    target: Target
    above: _Above
    object: RawObject
    is_kept: bool


Record = SchedNode | PlanPod | Budget | WorldObject

_pods = msgspec.json.Decoder(_PodWire)
_objects = msgspec.json.Decoder(_ObjectWire)
_job_specs = msgspec.json.Decoder(_JobSpec)
_FAULTS = (DecodeError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, AttributeError, TypeError)
_NOTHING = _Above()


class WorldReader:
    """Collects the objects of a cluster. `settings`: the text of Waggle's configuration, which names its algorithm."""

    def __init__(self, settings: str = "", scheduler: str = "", *, algorithm: str = "packing") -> None:
        self._settings, self._scheduler = settings, scheduler
        self._keeper = Keeper(settings, algorithm)
        self._nodes: list[SchedNode] = []
        self._pods: list[PlanPod] = []
        self._budgets: list[Budget] = []
        self._objects: list[RawObject] = []
        self._above: dict[Target, _Above] = {}
        self._faults: list[str] = []
        self._unread = 0

    @property
    def faults(self) -> list[str]:
        """Which objects could not be read, and why: at most ten, and how many others."""
        more = self._unread - len(self._faults)
        return [*self._faults, *([f"and {more} other objects"] if more > 0 else [])]

    def add(self, api_version: str, kind: str, raw: bytes | msgspec.Raw) -> None:
        """Take one object. What cannot be read is left out, and told by `faults`."""
        try:
            self.take(self.read(api_version, kind, raw))
        except DecodeError as error:
            self._unread += 1
            if len(self._faults) < _MOST_NAMED:
                self._faults.append(f"{kind} {_name(bytes(raw))}: {str(error)[:300]}")

    def read(self, api_version: str, kind: str, raw: bytes | msgspec.Raw) -> Record:
        """Return the record of one object, which `take` adds. Raises DecodeError."""
        try:
            if (api_version, kind) == ("v1", "Node"):
                return self._node(bytes(raw))
            if (api_version, kind) == ("v1", "Pod"):
                return self.pod(raw)
            return decode_budget(raw) if kind == "PodDisruptionBudget" else self._object(api_version, kind, bytes(raw))
        except _FAULTS as error:
            raise error if isinstance(error, DecodeError) else DecodeError(str(error)) from error

    def take(self, record: Record) -> None:
        """Add the record of an object. Those above others come before them."""
        if isinstance(record, PlanPod):
            self._pods.append(record)
        elif isinstance(record, SchedNode):
            self._nodes.append(record)
        elif isinstance(record, Budget):
            self._budgets.append(record)
        else:
            self._above[record.target] = record.above
            if record.is_kept:
                self._objects.append(record.object)

    def world(self, *, source: str = "", taken: str = "", release: str = "") -> World:
        """Return the cluster."""
        return World(
            release=release,
            taken=taken,
            source=source,
            nodes=tuple(self._nodes),
            # Kube-scheduler has heard of them in the order in which they were made, unless it was restarted since.
            pods=tuple(sorted(self._pods, key=lambda each: each.pod.pod.created)),
            budgets=tuple(self._budgets),
            objects=tuple(self._objects),
            settings=self._settings,
            scheduler=self._scheduler,
        )

    def unmade(self) -> str:
        """Say which workloads have not made all of their pods yet, which no plan knows; "" if all have."""
        made = Counter(each.owner for each in self._pods if not each.pod.pod.terminating)
        found = []
        for each in self._objects:
            if each.kind in ("StatefulSet", "ReplicaSet"):
                wanted, there = _replicas(each.json), made[each.target]
                if there < wanted:
                    found.append(f"{each.target} has {there} of {wanted} pods")
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return f"pods that are not made yet are not planned: {', '.join(found[:_MOST_NAMED])}{more}" if found else ""

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _node(self, raw: bytes) -> SchedNode:
        found = decode_node(raw)
        record = msgspec.structs.replace(
            found.node, annotations=pairs(self._keeper.of_node(dict(found.node.annotations)))
        )
        return msgspec.structs.replace(found, node=record, raw=b"")

    # -- objects --------------------------------------------------------------------------------------------------

    def _object(self, api_version: str, kind: str, raw: bytes) -> WorldObject:
        wire = _objects.decode(raw)
        meta = wire.metadata
        lean = self._keeper.lean(raw, api_version, kind)
        group = group_of(api_version)
        owner, part = self._owner(meta)
        above = _Above(
            annotations=self._keeper.annotations(meta.annotations),
            owner=owner,
            part=part,
            deadline=_deadline(wire.spec) if kind == "Job" and group == "batch" else 0.0,
            after=_parts_after(lean) if kind in ("JobSet", "Job") else {},
        )
        found = RawObject(kind=kind, api_version=api_version, namespace=meta.namespace, name=meta.name, json=lean)
        # Old revisions of a Deployment have no pods, and there are ten of each.
        is_kept = kind != "ReplicaSet" or bytes(_job_specs.decode(wire.spec or b"{}").replicas) != b"0"
        return WorldObject(Target(_target_kind(group, kind), meta.namespace, meta.name), above, found, is_kept)

    def _owner(self, meta: _Meta) -> tuple[Target | None, Target | None]:
        """The controller of an object, and the part of a JobSet or Volcano Job that it is."""
        for each in meta.owner_references or ():
            if each.controller:
                kind = _target_kind(group_of(each.api_version), each.kind)
                return Target(kind, meta.namespace, each.name), _part(kind, each.name, meta)
        return None, None

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod(self, raw: bytes | msgspec.Raw) -> PlanPod:
        """Return a pod of the cluster as a plan knows it; the objects above it were taken before.

        Raises DecodeError or msgspec.MsgspecError.
        """
        found, wire = decode_pod(raw), _pods.decode(raw)
        spec, status, meta = wire.spec or _PodSpec(), wire.status or _PodStatus(), wire.metadata
        own = self._keeper.annotations(meta.annotations)
        record = msgspec.structs.replace(found.pod, annotations=pairs(own))
        owner, chain = self._chain(meta)
        gang = gang_of(record, own, meta.labels or {})
        levels = [own, *(self._above.get(each, _NOTHING).annotations for each in chain)]
        if gang is not None:
            levels.append(self._above.get(gang, _NOTHING).annotations)
        ended = min(filter(None, (float(spec.active_deadline_seconds or 0), *self._deadlines(chain))), default=0.0)
        return PlanPod(
            pod=_lean(found, record),
            owner=owner,
            above=tuple(chain[1:]),
            group=gang,
            ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
            runs_to_end=spec.restart_policy in ("Never", "OnFailure"),
            seconds=_seconds(levels, ended),
            after=self._after(levels, record.namespace, chain),
            has_own_gate={each.name for each in spec.scheduling_gates or ()} == {GATE},
        )

    def _chain(self, meta: _Meta) -> tuple[Target | None, list[Target]]:
        """The owner, and a list of the owner, the parts and the objects above, nearest first."""
        owner, part = self._owner(meta)
        chain: list[Target] = []
        each, of_each = owner, part
        while each is not None and each not in chain and len(chain) < _MOST_ABOVE:
            chain += [each, *([of_each] if of_each and of_each.kind == VOLCANO_TASK else [])]
            known = self._above.get(each, _NOTHING)
            if known.part is not None:
                chain.append(known.part)
            each, of_each = known.owner, None
        return owner, chain

    def _deadlines(self, chain: list[Target]) -> list[float]:
        return [self._above.get(each, _NOTHING).deadline for each in chain]

    def _after(self, levels: list[dict[str, str]], namespace: str, chain: list[Target]) -> tuple[Dependency, ...]:
        """What a pod waits for. A declaration that cannot be read holds nothing here; the live server says so."""
        try:
            found = dict.fromkeys(declared(levels, namespace))
        except AfterError:
            found = {}
        for each in chain:
            whole, _, part = each.name.partition("/")
            if part:
                for known in (target for target in chain if target.name == whole):
                    found.update(dict.fromkeys(self._above.get(known, _NOTHING).after.get(part, ())))
        return tuple(found)


def _lean(found: SchedPod, record: Any) -> SchedPod:
    condition = found.scheduled_condition
    if condition is not None:
        condition = msgspec.structs.replace(condition, message="")
    return msgspec.structs.replace(found, pod=record, raw=b"", scheduled_condition=condition)


def _target_kind(group: str, kind: str) -> str:
    if kind == "PodGroup" and group in POD_GROUPS:
        return GROUP
    return KIND_BY_API.get((group, kind), kind)


def _part(kind: str, name: str, meta: _Meta) -> Target | None:
    labels, annotations = meta.labels or {}, meta.annotations or {}
    part = {
        JOB_SET: (REPLICATED_JOB, labels.get("jobset.sigs.k8s.io/replicatedjob-name")),
        VOLCANO_JOB: (VOLCANO_TASK, labels.get("volcano.sh/task-spec") or annotations.get("volcano.sh/task-spec")),
    }.get(kind)
    return Target(part[0], meta.namespace, f"{name}/{part[1]}") if part and part[1] else None


def _parts_after(lean: bytes) -> dict[str, tuple[Dependency, ...]]:
    try:
        return dict(of_parts(msgspec.json.decode(lean)))
    except AfterError:
        return {}


def _deadline(spec: msgspec.Raw) -> float:
    return float(_job_specs.decode(spec or b"{}").active_deadline_seconds or 0)


def _seconds(levels: list[dict[str, str]], deadline: float) -> Seconds | None:
    try:
        return expected_seconds(levels, deadline)
    except RunTimeFault:
        return None


def _replicas(lean: bytes) -> int:
    try:
        found = msgspec.json.decode(lean)["spec"].get("replicas", 1)
    except (msgspec.DecodeError, KeyError, AttributeError, TypeError):
        return 0
    return found if isinstance(found, int) else 0


def _name(raw: bytes) -> str:
    try:
        meta: Mapping[str, Any] = msgspec.json.decode(raw)["metadata"]
        return f"{meta.get('namespace', '')}/{meta.get('name', '')}".strip("/")[:300]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError, AttributeError):
        return "?"
