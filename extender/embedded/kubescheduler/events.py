"""What happens in a cluster, as a reason to try a rejected pod again.

Each plugin that rejected a pod is interested in some events; the pseudo-plugin "Extender", recorded when an extender
left fewer nodes than it got, in every one. A change that is not an event here (a heartbeat, images, a cordon, another
pending pod) wakes nobody; what an event means to one certain pod is in `hints`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from extender.embedded.kubescheduler.model import SchedNode, SchedPod

EXTENDER = "Extender"


class ClusterEvent(StrEnum):
    """Every event that the stand-in tells its queue."""

    NODE_ADD = "NodeAdd"
    NODE_DELETE = "NodeDelete"
    NODE_LABEL = "NodeLabel"
    NODE_ANNOTATION = "NodeAnnotation"
    NODE_CONDITION = "NodeCondition"
    NODE_ALLOCATABLE = "NodeAllocatable"
    #: Taints changed, or the node was uncordoned.
    NODE_TAINT = "NodeTaint"
    ASSIGNED_POD_ADD = "AssignedPodAdd"
    ASSIGNED_POD_UPDATE = "AssignedPodUpdate"
    #: A bound pod asks for less than before.
    ASSIGNED_POD_SCALE_DOWN = "AssignedPodScaleDown"
    #: A bound pod was deleted or finished, or an assumed or nominated one gave its room back.
    ASSIGNED_POD_DELETE = "AssignedPodDelete"
    #: The waiting pod itself changed.
    POD_SCALE_DOWN = "PodScaleDown"
    POD_TOLERATION = "PodToleration"
    POD_LABEL = "PodLabel"
    POD_OTHER = "PodOther"


_E = ClusterEvent
_INTERESTS: dict[str, frozenset[ClusterEvent]] = {
    EXTENDER: frozenset(_E),
    "NodeName": frozenset({_E.NODE_ADD, _E.NODE_TAINT}),
    "NodeUnschedulable": frozenset({_E.NODE_ADD, _E.NODE_TAINT, _E.POD_TOLERATION}),
    "TaintToleration": frozenset({_E.NODE_ADD, _E.NODE_TAINT, _E.POD_TOLERATION}),
    "NodeAffinity": frozenset({_E.NODE_ADD, _E.NODE_TAINT, _E.NODE_LABEL}),
    "NodePorts": frozenset({_E.NODE_ADD, _E.NODE_TAINT, _E.ASSIGNED_POD_DELETE}),
    "NodeResourcesFit": frozenset(
        {
            *(_E.NODE_ADD, _E.NODE_TAINT, _E.NODE_ALLOCATABLE),
            *(_E.ASSIGNED_POD_DELETE, _E.ASSIGNED_POD_SCALE_DOWN, _E.POD_SCALE_DOWN),
        }
    ),
}


def interested(event: ClusterEvent, rejecters: Iterable[str]) -> list[str]:
    """Those of the plugins that rejected a pod which look at such an event at all."""
    return [plugin for plugin in rejecters if event in _INTERESTS[plugin]]


def node_events(old: SchedNode, new: SchedNode) -> list[ClusterEvent]:
    """What an update of a node means; nothing for heartbeats, images and cordons."""
    before, after = old.node, new.node
    changes = (
        (_E.NODE_LABEL, before.labels != after.labels),
        (_E.NODE_ANNOTATION, before.annotations != after.annotations),
        (_E.NODE_CONDITION, old.conditions != new.conditions),
        (_E.NODE_ALLOCATABLE, before.allocatable != after.allocatable),
        (_E.NODE_TAINT, before.taints != after.taints or (before.unschedulable and not after.unschedulable)),
    )
    return [event for event, happened in changes if happened]


def own_events(old: SchedPod, new: SchedPod) -> list[ClusterEvent]:
    """What an update of a waiting pod means to itself; any update means something (its own status too)."""
    changes = (
        (_E.POD_LABEL, old.pod.labels != new.pod.labels),
        (_E.POD_SCALE_DOWN, has_shrunk(old, new)),
        (_E.POD_TOLERATION, old.tolerations != new.tolerations),
    )
    return [event for event, happened in changes if happened] or [_E.POD_OTHER]


def has_shrunk(old: SchedPod, new: SchedPod) -> bool:
    """Whether the pod asks for less of something than before."""
    now = dict(new.pod.requests)
    return any(now.get(name, 0) < amount for name, amount in old.pod.requests)
