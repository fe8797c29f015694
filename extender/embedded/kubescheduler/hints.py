"""Queueing hints: whether what has happened could help one certain pod that a plugin rejected.

An event that a plugin is interested in (`events`) only wakes the pods of which the plugin's hint says so. Hints look at
the event's object alone: a node as if it were empty, a pod that went away by its ports. Every plugin that is interested
in new nodes is also woken by every change of taints, without a hint (kubernetes/kubernetes#109437).
"""

from __future__ import annotations

from collections.abc import Callable

from algorithm.model import PODS
from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.events import ClusterEvent
from extender.embedded.kubescheduler.filters import has_untolerated_taint, matches_node, ports_clash, resources_refusal
from extender.embedded.kubescheduler.model import SchedNode, SchedPod

#: Takes a plugin and a pod that it rejected.
Hint = Callable[[str, SchedPod], bool]


def always(plugin: str, pod: SchedPod) -> bool:  # noqa: ARG001 - a Hint
    return True


def of_node(event: ClusterEvent, before: SchedNode | None, after: SchedNode) -> Hint:
    """Of a node that is new (`before` is None) or has changed."""

    def hint(plugin: str, pod: SchedPod) -> bool:
        match plugin:
            case "NodeUnschedulable":
                return not after.node.unschedulable and (before is None or before.node.unschedulable)
            case "TaintToleration":
                return not has_untolerated_taint(pod, after) and (before is None or has_untolerated_taint(pod, before))
            case "NodeAffinity" if event is not ClusterEvent.NODE_TAINT:
                return _matches(pod, after) and (before is None or not _matches(pod, before))
            case "NodeResourcesFit" if event is not ClusterEvent.NODE_TAINT:
                return _fits(pod, after) and (before is None or _has_grown(pod, before, after))
        return True

    return hint


def of_pod_that_went(gone: SchedPod) -> Hint:
    """Of a pod that has given its place back."""

    def hint(plugin: str, pod: SchedPod) -> bool:
        return plugin != "NodePorts" or ports_clash(pod, gone.host_ports)

    return hint


def _matches(pod: SchedPod, node: SchedNode) -> bool:
    return matches_node(pod, NodeInfo(node))


def _fits(pod: SchedPod, node: SchedNode) -> bool:
    """Resources that kube-scheduler leaves to an extender count here, too."""
    return resources_refusal(pod, NodeInfo(node)) is None


def _has_grown(pod: SchedPod, before: SchedNode, after: SchedNode) -> bool:
    old, new = dict(before.node.allocatable), dict(after.node.allocatable)
    wanted = [PODS, *(name for name, amount in pod.pod.requests if amount > 0)]
    return any(new.get(name, 0) > old.get(name, 0) for name in wanted)
