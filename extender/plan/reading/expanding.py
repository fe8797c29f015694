"""Objects as a plan uses them: the pods that controllers would make, in the order in which they would make them.

A workload that is in the cluster already makes only the pods that are missing; those that run stay as they are, even
if their template is another one now. `workloads.py` says which names the pods have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode, decode_node
from extender.ordering.after import AfterError
from extender.ordering.records import GROUP, Target
from extender.plan.reading.budgets import new_budget
from extender.plan.reading.checking import MALFORMED, Place, as_object, texts_of
from extender.plan.reading.dependencies import of_parts
from extender.plan.reading.kinds import Role, role_of
from extender.plan.reading.making import PodMaker, known_node
from extender.plan.reading.priorities import PriorityClasses
from extender.plan.reading.runtimes import RunTimeFault
from extender.plan.reading.unplanned import unplanned_features
from extender.plan.reading.workloads import Batch, Naming, WorkloadFault, batches
from extender.plan.records import PlanPod, RawObject, World

Object = dict[str, Any]

#: Pods that the objects of one plan may make.
MOST_PODS = 100_000
_FAULTS = (ApiError, DecodeError, WorkloadFault, AfterError, RunTimeFault)


class Expanded(msgspec.Struct, frozen=True, kw_only=True):
    """What objects add to a cluster."""

    #: In the order of their creation.
    pods: tuple[PlanPod, ...] = ()
    nodes: tuple[SchedNode, ...] = ()
    budgets: tuple[Budget, ...] = ()
    #: The others that some part of a plan reads: workloads, gangs, pools, claims, sets of vpods, vpods, classes.
    objects: tuple[RawObject, ...] = ()
    #: Objects of kinds that a plan does not know, with their origin.
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: What the API server, or a controller, would refuse.
    errors: tuple[str, ...] = ()


def expand(objects: Iterable[RawObject], world: World) -> Expanded:
    """Return what these objects, checked by `read_documents`, add to the world."""
    return _Expansion(tuple(objects), world).run()


class _Expansion:
    def __init__(self, objects: tuple[RawObject, ...], world: World) -> None:
        self._objects = objects
        self._world = world
        everything = (*world.objects, *objects)
        self._maker = PodMaker(PriorityClasses(everything), dict(_gang_annotations(everything)))
        self._names = {(each.pod.pod.namespace, each.pod.pod.name) for each in world.pods}
        self._nodes = {each.name for each in world.nodes}
        self._existing = _by_owner(world.pods)
        self._pods: list[PlanPod] = []
        self._added: list[SchedNode] = []
        self._budgets: list[Budget] = []
        #: Budgets of manifests, which wait until all pods are known.
        self._to_count: list[RawObject] = []
        self._others: list[RawObject] = []
        self._unknown: list[str] = []
        self._warnings: list[str] = []
        self._errors: list[str] = []

    def run(self) -> Expanded:
        """Take one object after the other."""
        for each in self._objects:
            self._try(self._take, each)
        for each in self._to_count:
            self._try(self._count, each)
        return Expanded(
            pods=tuple(self._pods),
            nodes=tuple(self._added),
            budgets=tuple(self._budgets),
            objects=tuple(self._others),
            unknown=tuple(self._unknown),
            warnings=tuple(self._warnings),
            errors=tuple(self._errors),
        )

    def _try(self, take: Callable[[RawObject], None], obj: RawObject) -> None:
        """Take an object, and note what is wrong with it."""
        try:
            take(obj)
        except _FAULTS as error:
            texts = texts_of(error) if isinstance(error, ApiError) else [str(error)]
            self._errors += [f"{_place(obj)}: {text}" for text in texts]
        except MALFORMED as error:
            self._errors.append(f"{_place(obj)}: it cannot be read as a {obj.kind}: {error!r}")

    def _count(self, obj: RawObject) -> None:
        self._budgets.append(new_budget(obj, (*self._world.pods, *self._pods)))

    def _take(self, obj: RawObject) -> None:
        role = role_of(obj.api_version, obj.kind)
        if role is Role.MAKES_PODS:
            if obj.kind != "Pod":
                self._others.append(obj)
            self._make(obj)
        elif role is Role.NODE:
            self._node(obj)
        elif obj.kind == "PodDisruptionBudget" and role is Role.READ:
            self._to_count.append(obj)
        elif role is Role.READ:
            self._others.append(obj)
        elif role is Role.NOT_PLANNED:
            self._warn(obj, "its pods are not planned, and the room that they take is not counted")
        elif role is Role.UNKNOWN:
            self._unknown.append(str(_place(obj)))

    def _warn(self, obj: RawObject, text: str) -> None:
        self._warnings.append(f"{_place(obj)}: {text}")

    def _node(self, obj: RawObject) -> None:
        if obj.name in self._nodes:
            self._warn(obj, "there is a node of this name already; it stays as it is")
            return
        self._nodes.add(obj.name)
        self._added.append(known_node(decode_node(obj.json)))

    def _make(self, obj: RawObject) -> None:
        found = as_object(obj.json)
        after = of_parts(found)
        said: dict[str, None] = {}
        for batch in batches(found):
            said.update(dict.fromkeys(batch.remarks))
            said.update(dict.fromkeys(unplanned_features(batch.template.get("spec", {}))))
            indexes = self._missing(obj, batch)
            if len(self._pods) + len(indexes) > MOST_PODS:
                raise WorkloadFault(f"more than {MOST_PODS} pods, together with those before it")
            made = list(self._maker.make(batch, indexes, obj.origin, after.get(batch.part, ())))
            self._names.update((each.pod.pod.namespace, each.pod.pod.name) for each in made)
            self._pods += made
        for text in said:
            self._warn(obj, text)

    def _missing(self, obj: RawObject, batch: Batch) -> list[int]:
        """Return the indexes of the pods that are not there yet."""
        namespace = batch.namespace
        if batch.owner is None:
            if (namespace, batch.base) in self._names:
                self._warn(obj, "there is a pod of this name already; it stays as it is")
                return []
            return [0]
        existing = self._existing.get(batch.owner) or (self._existing.get(batch.above[0]) if batch.above else None)
        if batch.naming is Naming.RANDOM:
            return self._next_free(obj, batch, existing or Counter())
        there = {index for index in map(_indexed(batch), existing or ()) if index is not None}
        if there and max(there) >= batch.first + batch.count:
            self._warn(obj, "has more pods than it is to have; a plan takes none away (--delete)")
        return [
            index
            for index in range(batch.count)
            if batch.first + index not in there and self._is_free(obj, batch, index)
        ]

    def _is_free(self, obj: RawObject, batch: Batch, index: int) -> bool:
        """Whether no other pod has this name."""
        if (batch.namespace, batch.name(index)) not in self._names:
            return True
        self._warn(obj, f"pod {batch.name(index)} belongs to another object; it is not made")
        return False

    def _next_free(self, obj: RawObject, batch: Batch, existing: Counter[str]) -> list[int]:
        """Return as many indexes as pods are missing, with names that are free."""
        missing, index = batch.count - existing.total(), 0
        indexes: list[int] = []
        if missing < 0:
            self._warn(obj, f"has {-missing} more pods than it is to have; a plan takes none away (--delete)")
        while len(indexes) < missing:
            if (batch.namespace, batch.name(index)) not in self._names:
                indexes.append(index)
            index += 1
        return indexes


def _indexed(batch: Batch) -> Any:
    """Return a function from a pod's name to its index by this batch's names; None for another name."""
    letters = "" if batch.naming is Naming.FIXED else "(?:-[a-z0-9]{1,10})?"
    pattern = re.compile(rf"{re.escape(batch.base)}-([0-9]{{1,9}}){letters}", re.ASCII)

    def index(name: str) -> int | None:
        found = pattern.fullmatch(name)
        return int(found[1]) if found else None

    return index


def _by_owner(pods: Iterable[PlanPod]) -> dict[Target, Counter[str]]:
    """The names of the pods that each owner has, those that ended not counted."""
    found: dict[Target, Counter[str]] = {}
    for each in pods:
        if each.pod.pod.finished or each.pod.pod.terminating:
            continue
        for owner in (*((each.owner,) if each.owner else ()), *each.above):
            found.setdefault(owner, Counter())[each.pod.pod.name] += 1
    return found


def _gang_annotations(objects: Iterable[RawObject]) -> Iterator[tuple[Target, dict[str, str]]]:
    for each in objects:
        if each.kind == "PodGroup":
            try:
                found = as_object(each.json)["metadata"].get("annotations") or {}
                texts = {key: value for key, value in found.items() if isinstance(value, str)}
            except MALFORMED:
                continue
            yield Target(GROUP, each.namespace, each.name), texts


def _place(obj: RawObject) -> Place:
    return Place(obj.origin, obj.api_version, obj.kind, obj.namespace, obj.name)
