"""What the engine knows of the cluster, and how an operator configures a set. Plain data."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ObjectKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Policy(StrEnum):
    """How vreplicas are placed. The last two decide as Knative eventing's scheduler did."""

    BALANCED = "balanced"
    HEAD = "head"
    V0431 = "v0.43.1"


class SetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One set: a StatefulSet whose pods host vreplicas. Times are seconds."""

    key: ObjectKey
    #: The name of the StatefulSet, in the namespace of the set.
    workload: str
    #: How many vreplicas one pod may hold; at least 1.
    capacity: int
    policy: Policy = Policy.BALANCED
    #: Bounds of the number of replicas.
    least: int = 0
    most: int = 100
    #: Whether the number of replicas follows what vpods want.
    scales: bool = True
    #: How many vreplicas may be on the way at once only to make numbers even.
    most_moves: int = 16
    #: How long a pod that was ready may be away, or not ready, before its vreplicas are placed elsewhere.
    unready_seconds: float = 60.0
    #: How long fewer replicas must be enough before the set shrinks.
    shrink_seconds: float = 300.0
    #: How many replicas may be added or taken away at once; 0: no bound.
    grow_step: int = 0
    shrink_step: int = 0
    #: How long a vpod that finds room for a part only keeps that part; None: for ever.
    partial_seconds: float | None = None
    #: Further namespaces whose vpods may use the set; "*": all.
    namespaces: tuple[str, ...] = ()

    def admits(self, namespace: str) -> bool:
        return namespace == self.key.namespace or namespace in self.namespaces or "*" in self.namespaces


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A StatefulSet. `replicas`: what its spec says."""

    key: ObjectKey
    uid: str
    version: str
    replicas: int


class HostPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that may host vreplicas. `closed`: its annotation says that it takes none."""

    key: ObjectKey
    uid: str
    version: str = ""
    node: str = ""
    ready: bool = True
    terminating: bool = False
    closed: bool = False


class HostNode(msgspec.Struct, frozen=True, gc=False):
    """A node. `serves`: it is ready, not cordoned, and no taint drives its pods away."""

    name: str
    serves: bool = True
    zone: str = ""


class VPodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A vpod as the API server shows it. `placements`: pod names and numbers, as its status has them."""

    key: ObjectKey
    uid: str
    version: str
    set: ObjectKey
    wanted: int
    spread: int = 0
    placements: tuple[tuple[str, int], ...] = ()
    #: The reason in its status, "" if there is none.
    reason: str = ""
    deleting: bool = False


class Reason(StrEnum):
    """Why a vpod is as it is: the reason of its condition. One at a time, the first that applies."""

    UNKNOWN_SET = "UnknownSet"
    NOT_ALLOWED = "NotAllowed"
    NO_STATEFUL_SET = "NoStatefulSet"
    BAD_NUMBER = "BadNumber"
    NOT_ENOUGH_ROOM = "NotEnoughRoom"
    MOVING = "Moving"
    PLACED = "Placed"
