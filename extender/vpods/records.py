"""Records of the cluster, and the settings of a set. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from extender.core.field_paths import FieldPath


class ObjectKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class VPodKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """The identity of a vpod. `source`: "" for a VPod object, else the name of a `VPodSource`."""

    namespace: str
    name: str
    source: str = ""

    def __str__(self) -> str:
        text = f"{self.namespace}/{self.name}"
        return f"{self.source}:{text}" if self.source else text


class VPodSource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of objects that are vpods: where they are, and where in them the numbers stand.

    Without a name it is the kind VPod. Any other source has a name, which may hold neither "/" nor ":".
    """

    name: str = ""
    group: str = "waggle.dev"
    version: str = "v1alpha1"
    #: The plural, as in paths.
    resource: str = "vpods"
    wanted: FieldPath = FieldPath(("spec", "vreplicas"))
    #: Names only, because it is written with a merge patch.
    placements: FieldPath = FieldPath(("status", "placements"))
    #: The wanted number of an object that does not have one.
    default_wanted: int = 1
    #: On how many distinct pods each object wants to be at least. VPod objects say it themselves.
    spread: int = 0
    #: The set of all its objects; None: each object names its own, in spec.set.
    set: ObjectKey | None = None
    #: Only objects in which each of these fields has this text are vpods of this source.
    where: tuple[tuple[FieldPath, str], ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Whether the status has more than placements: in resources of others nothing else is written."""
        return not self.name


#: The source of VPod objects.
VPOD_OBJECTS = VPodSource()


class SetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One set: a StatefulSet whose pods host vreplicas. Times are seconds."""

    key: ObjectKey
    #: The name of the StatefulSet, in the namespace of the set.
    workload: str
    #: How many vreplicas one pod may hold; at least 1.
    capacity: int
    #: The name of a policy, and its settings.
    policy: str = "balanced"
    policy_settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    min_replicas: int = 0
    max_replicas: int = 100
    #: Whether the number of replicas follows what vpods want.
    scales: bool = True
    #: How many vreplicas may be on the way at once only to make numbers even.
    max_moves: int = 16
    #: How long a pod that was ready may be away, or not ready, before its vreplicas are placed elsewhere.
    unready_seconds: float = 60.0
    #: How long fewer replicas must be enough before the set shrinks.
    scale_down_seconds: float = 300.0
    #: How many replicas may be added or taken away at once; 0: no bound.
    scale_up_step: int = 0
    scale_down_step: int = 0
    #: How long after it has grown the set does not grow again.
    scale_up_seconds: float = 0.0
    #: How long a vpod that finds room for a part only keeps that part; None: for ever.
    partial_seconds: float | None = None
    #: How long a vreplica that moves stays on both pods, the new one and the old one; 0: it does not.
    overlap_seconds: float = 0.0
    #: Whether vreplicas are spread over zones before pods.
    zones: bool = True
    #: Further namespaces whose vpods may use the set; "*": all.
    namespaces: tuple[str, ...] = ()

    def admits(self, namespace: str) -> bool:
        return namespace == self.key.namespace or namespace in self.namespaces or "*" in self.namespaces


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A StatefulSet. `replicas`: what its spec says. `first`: the ordinal of its first pod; only 0 is supported.
    `in_order`: each pod starts once the one before is ready (`podManagementPolicy: OrderedReady`), not all at once."""

    key: ObjectKey
    uid: str
    version: str
    replicas: int
    first: int = 0
    in_order: bool = True

    @property
    def trouble(self) -> str:
        """Why no vreplicas can be placed on its pods; "" if they can."""
        return f"{self.key} has spec.ordinals.start {self.first}; expected 0" if self.first else ""


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """Of taints with the effect NoExecute, for ever. `key` "": of all; `value` None: of every value."""

    key: str
    value: str | None = None


class HostPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that may host vreplicas. `closed`: its annotation says that it takes none."""

    key: ObjectKey
    uid: str
    version: str = ""
    node: str = ""
    ready: bool = True
    terminating: bool = False
    closed: bool = False
    tolerates: tuple[Toleration, ...] = ()


class HostNode(msgspec.Struct, frozen=True, gc=False):
    """A node. `serves`: it is ready and not cordoned. `taints`: key and value of those that drive pods away."""

    name: str
    serves: bool = True
    zone: str = ""
    taints: tuple[tuple[str, str], ...] = ()

    def hosts(self, tolerates: tuple[Toleration, ...]) -> bool:
        """Whether a pod with these tolerations may stay here."""
        return self.serves and (
            not self.taints or all(any(_tolerates(each, *taint) for each in tolerates) for taint in self.taints)
        )


def _tolerates(toleration: Toleration, key: str, value: str) -> bool:
    return toleration.key in ("", key) and toleration.value in (None, value)


class VPodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A vpod as the API server shows it. `placements`: pod names and numbers, as its status has them.

    The status of a resource of somebody else has placements, and none of the fields from `reason` to `observed`.
    """

    key: VPodKey
    uid: str
    version: str
    set: ObjectKey
    wanted: int
    #: The errors of the wanted number, and of other fields, each with the name of its field.
    bad_wanted: str = ""
    problems: tuple[str, ...] = ()
    #: On how many distinct pods it wants to be at least, and how many of its vreplicas one pod may hold; 0: no bound.
    spread: int = 0
    max_per_pod: int = 0
    placements: tuple[tuple[str, int], ...] = ()
    source: VPodSource = VPOD_OBJECTS
    #: The reason in its status, "" if there is none.
    reason: str = ""
    #: The status of its condition Scheduled, and since when it has that: RFC 3339.
    condition: str = ""
    since: str = ""
    #: metadata.generation, and what the status says of which one was decided; 0: unknown.
    generation: int = 0
    observed: int = 0
    deleting: bool = False


class Reason(StrEnum):
    """The reason of a vpod's condition: the first one that applies."""

    UNKNOWN_SET = "UnknownSet"
    SET_NOT_SERVED = "SetNotServed"
    NOT_ALLOWED = "NotAllowed"
    NO_STATEFUL_SET = "NoStatefulSet"
    BAD_NUMBER = "BadNumber"
    POLICY_FAILED = "PolicyFailed"
    NOT_ENOUGH_ROOM = "NotEnoughRoom"
    MOVING = "Moving"
    PLACED = "Placed"
