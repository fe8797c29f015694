"""Events that the engine of vpods handles, and its instructions."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from extender.core.scale import ScaleWorkload, WorkloadScaled
from extender.vpods.notices import Notice
from extender.vpods.records import HostNode, HostPod, ObjectKey, SetSettings, VPodKey, VPodRecord, Workload
from extender.vpods.writes.placements import PlacementsWritten, WritePlacements
from extender.vpods.writes.read import ReadVPod, VPodRead


class SetsConfigured(msgspec.Struct, frozen=True):
    """All sets, from now on. `refused`: those that are not served, and why."""

    sets: tuple[SetSettings, ...]
    refused: tuple[tuple[ObjectKey, str], ...] = ()


class WorkloadSeen(msgspec.Struct, frozen=True, gc=False):
    workload: Workload


class WorkloadGone(msgspec.Struct, frozen=True, gc=False):
    key: ObjectKey


class HostPodSeen(msgspec.Struct, frozen=True, gc=False):
    pod: HostPod


class HostPodGone(msgspec.Struct, frozen=True, gc=False):
    key: ObjectKey
    uid: str


class HostNodeSeen(msgspec.Struct, frozen=True, gc=False):
    node: HostNode


class HostNodeGone(msgspec.Struct, frozen=True, gc=False):
    name: str


class VPodSeen(msgspec.Struct, frozen=True, gc=False):
    """A vpod, from a watch or from a live read."""

    vpod: VPodRecord


class VPodGone(msgspec.Struct, frozen=True, gc=False):
    """`exists`: the object is still there, but it is no vpod of this source any more."""

    key: VPodKey
    uid: str
    exists: bool = False


class Synced(msgspec.Struct, frozen=True, gc=False):
    """All informers have delivered their first lists."""


class TermBegun(msgspec.Struct, frozen=True, gc=False):
    """This server decides, from now on. `term` 0: there is no leader election."""

    term: int


class TermEnded(msgspec.Struct, frozen=True, gc=False):
    """This server no longer decides. Writes that it has sent may still arrive."""


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """The time that `next_due` named has come."""


VPodEvent: TypeAlias = (
    SetsConfigured
    | WorkloadSeen
    | WorkloadGone
    | HostPodSeen
    | HostPodGone
    | HostNodeSeen
    | HostNodeGone
    | VPodSeen
    | VPodGone
    | Synced
    | TermBegun
    | TermEnded
    | PlacementsWritten
    | VPodRead
    | WorkloadScaled
    | Ticked
)
VPodCommand: TypeAlias = WritePlacements | ReadVPod | ScaleWorkload
VPodInstruction: TypeAlias = VPodCommand | Notice
