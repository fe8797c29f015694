"""The in-tree filter plugins, with the texts and verdicts of the real ones.

A refusal is resolvable where evicting pods could help (code Unschedulable) and unresolvable otherwise (code
UnschedulableAndUnresolvable). The first plugin that refuses decides, in the order of the default profile.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.model import CPU, EPHEMERAL_STORAGE, MEMORY, Taint
from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.model import (
    HostPort,
    NodeSelectorTerm,
    Requirement,
    SchedNode,
    SchedPod,
    Toleration,
)

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_METADATA_NAME = "metadata.name"


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why one node does not take the pod. `plugin` is the name by which events are matched to it."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = False


def in_tree_refusal(
    pod: SchedPod,
    info: NodeInfo,
    *,
    nominated: Iterable[SchedPod] = (),
    ignored_resources: frozenset[str] = frozenset(),
) -> Refusal | None:
    """Why the in-tree plugins refuse the node, None if they accept it.

    `nominated` pods of the same or higher priority are counted as if they were there already.
    """
    return static_refusal(pod, info) or room_refusal(
        pod, info, nominated=nominated, ignored_resources=ignored_resources
    )


def room_refusal(
    pod: SchedPod, info: NodeInfo, *, nominated: Iterable[SchedPod], ignored_resources: frozenset[str]
) -> Refusal | None:
    """Why the pods on the node, and the nominated ones, leave no room for the pod."""
    guests = [other for other in nominated if other.priority >= pod.priority and other.uid not in (pod.uid, *info.pods)]
    if guests:
        info = info.copy()
        for guest in guests:
            info.add(guest)
    return ports_refusal(pod, info) or resources_refusal(pod, info, ignored_resources)


def static_refusal(pod: SchedPod, info: NodeInfo) -> Refusal | None:
    """What does not depend on other pods, and so cannot be cured by evicting any."""
    assert info.node is not None
    node = info.node.node
    if node.unschedulable and not _tolerated(UNSCHEDULABLE_TAINT, pod.tolerations):
        return Refusal("NodeUnschedulable", ("node(s) were unschedulable",))
    if pod.pod.node_name and pod.pod.node_name != node.name:
        return Refusal("NodeName", ("node(s) didn't match the requested node name",))
    if has_untolerated_taint(pod, info.node):
        return Refusal("TaintToleration", ("node(s) had untolerated taint(s)",))
    if not matches_node(pod, info):
        return Refusal("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
    return None


def has_untolerated_taint(pod: SchedPod, node: SchedNode) -> bool:
    """Of those that keep pods off a node."""
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, pod.tolerations)
        for taint in node.node.taints
    )


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator == "Equal" and bool(toleration.key) and toleration.value == taint.value


# -- node affinity and selector ------------------------------------------------------------------------------


def matches_node(pod: SchedPod, info: NodeInfo) -> bool:
    """Whether nodeSelector and the required node affinity accept the node."""
    if any(info.label(key) != value for key, value in pod.node_selector):
        return False
    return pod.affinity is None or any(_term_holds(term, info) for term in pod.affinity)


def named_nodes(pod: SchedPod) -> frozenset[str] | None:
    """The only nodes that can match, where every affinity term names its node (DaemonSets do). None: any node."""
    if not pod.affinity:
        return None
    names: set[str] = set()
    for term in pod.affinity:
        wanted = [set(r.values) for r in term.fields if r.key == _METADATA_NAME and r.operator == "In"]
        if not wanted:
            return None
        names |= set.intersection(*wanted)
    return frozenset(names)


def _term_holds(term: NodeSelectorTerm, info: NodeInfo) -> bool:
    if not term.expressions and not term.fields:
        return False
    if not all(_field_holds(requirement, info) for requirement in term.fields):
        return False
    return all(requirement_holds(requirement, info.label(requirement.key)) for requirement in term.expressions)


def _field_holds(requirement: Requirement, info: NodeInfo) -> bool:
    if requirement.key != _METADATA_NAME or requirement.operator not in ("In", "NotIn"):
        return False
    return requirement_holds(requirement, info.name)


def requirement_holds(requirement: Requirement, value: str | None) -> bool:
    """Whether the value of its key, None if there is none, meets the requirement."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
    return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    try:
        have, bound = int(value or ""), int("".join(requirement.values))
    except ValueError:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


# -- what other pods take ------------------------------------------------------------------------------------


def ports_refusal(pod: SchedPod, info: NodeInfo) -> Refusal | None:
    if not pod.host_ports or not ports_clash(pod, info.used_ports()):
        return None
    return Refusal("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)


def ports_clash(pod: SchedPod, used: Iterable[HostPort]) -> bool:
    """Whether the pod wants one of these ports on an address where it is taken."""
    return any(_is_same(port, taken) for taken in used for port in pod.host_ports)


def _is_same(port: HostPort, taken: HostPort) -> bool:
    anywhere = "0.0.0.0"  # noqa: S104 - a wildcard in a comparison, nothing listens
    same_ip = taken.ip == port.ip or anywhere in (taken.ip, port.ip)
    return same_ip and (taken.protocol, taken.port) == (port.protocol, port.port)


def resources_refusal(pod: SchedPod, info: NodeInfo, ignored: frozenset[str] = frozenset()) -> Refusal | None:
    """NodeResourcesFit. A request above the whole node is unresolvable, all other shortage is resolvable."""
    reasons = ["Too many pods"] if len(info.pods) + 1 > info.allowed_pods else []
    resolvable = True
    for name, amount in sorted(pod.pod.requests, key=_resource_order):
        if amount <= 0 or name in ignored:
            continue
        if amount > info.free(name):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= info.allocatable.get(name, 0)
    return Refusal("NodeResourcesFit", tuple(reasons), resolvable=resolvable) if reasons else None


def _resource_order(request: tuple[str, int]) -> tuple[int, str]:
    known = (CPU, MEMORY, EPHEMERAL_STORAGE)
    return (known.index(request[0]) if request[0] in known else len(known), request[0])
