"""The resources that start-up ordering watches: pods, and the kinds of objects that pods may wait for.

A kind can be served by several APIs (PodGroup) or by none (JobSet, without its CustomResourceDefinition).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from algorithm.decoding import DecodeError
from extender.kube.informers.reflection import Resource
from extender.ordering.podreader import decode_pod
from extender.ordering.records import GROUP, Dependency, PodRecord, WorkloadRecord
from extender.ordering.workloadreader import decode_workload
from extender.ordering_settings import Kind

#: Bytes of memory of a record, of a dependency in it, and of one that is recorded as met, estimated.
_RECORD, _DEPENDENCY, _MET = 1500, 400, 200


class Api(NamedTuple):
    """An API that serves objects of a kind; `plural` is their name in paths."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


#: By the name that the configuration has for a kind.
APIS: dict[Kind, tuple[Api, ...]] = {
    "Job": (Api("batch", "v1", "jobs", "Job"),),
    "Deployment": (Api("apps", "v1", "deployments", "Deployment"),),
    "ReplicaSet": (Api("apps", "v1", "replicasets", "ReplicaSet"),),
    "StatefulSet": (Api("apps", "v1", "statefulsets", "StatefulSet"),),
    "JobSet": (Api("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),),
    "VolcanoJob": (Api("batch.volcano.sh", "v1alpha1", "jobs", "Job"),),
    "PodGroup": (
        Api("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),
        Api("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
        Api("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    ),
}


def target_kind(kind: Kind) -> str:
    """Return the kind of a `Target` of this kind of the configuration."""
    return GROUP if kind == "PodGroup" else kind


class SeenPod(msgspec.Struct, frozen=True, gc=False):
    """A pod as its informer stores it."""

    record: PodRecord

    @property
    def uid(self) -> str:
        return self.record.uid

    @property
    def resource_version(self) -> str:
        return self.record.version


class SeenWorkload(msgspec.Struct, frozen=True, gc=False):
    """An object that makes pods, or a PodGroup, as its informer stores it."""

    record: WorkloadRecord

    @property
    def uid(self) -> str:
        return self.record.uid

    @property
    def resource_version(self) -> str:
        return self.record.version


def pods() -> Resource[SeenPod]:
    """All pods. Changes of fields that are not read are no changes."""
    return Resource(
        "pods",
        lambda raw: SeenPod(decode_pod(raw)),
        lambda seen: str(seen.record.key),
        same=lambda known, seen: known.record == msgspec.structs.replace(seen.record, version=known.record.version),
        weigh=lambda seen: _weight(seen.record.after) + _MET * len(seen.record.met),
    )


def workloads(api: Api) -> Resource[SeenWorkload]:
    """All objects that this API serves."""

    def read(raw: msgspec.Raw) -> SeenWorkload:
        record = decode_workload(raw, api.api_version, api.kind)
        if record is None:
            raise DecodeError(f"expected a {api.kind} of {api.group}")
        return SeenWorkload(record)

    return Resource(
        api.plural,
        read,
        lambda seen: f"{seen.record.target.namespace}/{seen.record.target.name}",
        group=api.group,
        version=api.version,
        same=lambda known, seen: known.record == msgspec.structs.replace(seen.record, version=known.record.version),
        weigh=lambda seen: _weight(seen.record.after) + sum(_weight(part.after) for part in seen.record.parts),
    )


def _weight(after: Iterable[Dependency]) -> int:
    return _RECORD + _DEPENDENCY * len(tuple(after))
