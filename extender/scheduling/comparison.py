"""Compares the engine's cached state with the API server's, and classifies the differences.

The two are read at two moments, so they always differ a little. A Difference is therefore only a suspicion: the caller
(`extender.server.cache_comparer`) checks it once more, live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from algorithm.model import Node, Pod, same_but_version
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.state.pod_info import State


class Kind(StrEnum):
    """The kinds of difference."""

    #: Cached, but does not exist (any more): takes room for nothing.
    PHANTOM = "phantom"
    #: Exists, but is not cached: its room may be given away.
    MISSING = "missing"
    #: Bound, but cached on another node or on none.
    MISPLACED = "misplaced"
    #: Cached on the right node, but with another value in a field that scheduling reads.
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One object whose cached state differs from the API server's. `namespace` is empty for nodes."""

    resource: str
    kind: Kind
    namespace: str
    name: str
    uid: str
    detail: str


@dataclass(frozen=True, slots=True)
class CachedPod:
    """The engine's cached state of one pod."""

    pod: Pod
    state: State
    node: str
    informed: bool


@dataclass(frozen=True, slots=True)
class CachedState:
    """The engine's cached state at one moment: nodes by name, pods by UID."""

    nodes: dict[str, Node]
    pods: dict[str, CachedPod]


def cached_state_of(machine: SchedulerStateMachine) -> CachedState:
    cache = machine.state.cache
    return CachedState(
        nodes={node.name: node for node in cache.nodes()},
        pods={
            pod_info.uid: CachedPod(pod_info.pod, pod_info.state, pod_info.node, pod_info.informed)
            for pod_info in machine.state.pods
        },
    )


def compare_nodes(cached_state: CachedState, live: Iterable[Node]) -> list[Difference]:
    """Return nodes that are cached but do not exist, exist but are not cached (or with another UID), or differ."""
    truth = {node.name: node for node in live}
    found = [
        Difference("nodes", Kind.PHANTOM, "", name, node.uid, "no such node exists")
        for name, node in cached_state.nodes.items()
        if name not in truth
    ]
    for name, node in truth.items():
        known = cached_state.nodes.get(name)
        if known is None or known.uid != node.uid:
            found.append(Difference("nodes", Kind.MISSING, "", name, node.uid, "node is not known"))
        elif not same_but_version(known, node):
            found.append(Difference("nodes", Kind.OUTDATED, "", name, node.uid, _differing(known, node)))
    return sorted(found)


def _differing(known: Node | Pod, live: Node | Pod) -> str:
    """Return a text with the names of the fields in which the two differ."""
    fields = (field.name for field in msgspec.structs.fields(type(live)))
    names = [name for name in fields if getattr(known, name) != getattr(live, name)]
    return f"{', '.join(name for name in names if name != 'resource_version')}: not as believed"


def compare_pods(cached_state: CachedState, live: Iterable[Pod], expected: Iterable[str] = ()) -> list[Difference]:
    """Return pods whose cached state differs. `expected`: UIDs of unbound pods that the engine should know."""
    truth = {pod.uid: pod for pod in live if not pod.finished}
    owned = frozenset(expected)
    found = [
        Difference("pods", Kind.PHANTOM, *cached.pod.key, uid, f"believed {cached.state}; does not exist")
        for uid, cached in cached_state.pods.items()
        if uid not in truth and cached.informed
    ]
    for uid, pod in truth.items():
        difference = _difference(pod, cached_state.pods.get(uid), owned=uid in owned)
        if difference is not None:
            found.append(difference)
    return sorted(found)


def _difference(pod: Pod, cached: CachedPod | None, *, owned: bool) -> Difference | None:
    if cached is None:
        if not pod.node_name and not owned:
            return None
        where = f"bound to {pod.node_name}" if pod.node_name else "waiting"
        return Difference("pods", Kind.MISSING, pod.namespace, pod.name, pod.uid, f"{where}, and not known")
    if not pod.node_name:
        return None
    if cached.state is State.BOUND and cached.node == pod.node_name:
        return _outdated(pod, cached)
    believed = f"{cached.state} on {cached.node}" if cached.node else str(cached.state)
    text = f"bound to {pod.node_name}, believed {believed}"
    return Difference("pods", Kind.MISPLACED, pod.namespace, pod.name, pod.uid, text)


def _outdated(pod: Pod, cached: CachedPod) -> Difference | None:
    """Return a difference in the fields of a bound pod. None if the informer has not shown it bound yet: it will."""
    if not cached.pod.node_name or same_but_version(cached.pod, pod):
        return None
    return Difference("pods", Kind.OUTDATED, pod.namespace, pod.name, pod.uid, _differing(cached.pod, pod))
