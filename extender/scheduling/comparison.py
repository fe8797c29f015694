"""Holds what the engine believes against what the API server has: what differs, and of which kind.

Two readings of two things at two moments always differ a little. A Difference found here is therefore only a suspicion,
to be looked at once more, live, by the one who asked (`extender.server.cache_comparer`).
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
    """What is wrong with a belief."""

    #: Believed to exist, and does not (any more): takes room for nothing.
    PHANTOM = "phantom"
    #: Exists, and nothing is known of it: its room may be given away.
    MISSING = "missing"
    #: Bound, but believed to be on another node or on none.
    MISPLACED = "misplaced"
    #: Known and in its place, but something that scheduling reads is not as it is believed to be.
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One object about which belief and truth differ. `namespace` is empty for nodes."""

    resource: str
    kind: Kind
    namespace: str
    name: str
    uid: str
    detail: str


@dataclass(frozen=True, slots=True)
class Belief:
    """What the engine believes of one pod."""

    pod: Pod
    state: State
    node: str
    informed: bool


@dataclass(frozen=True, slots=True)
class CachedState:
    """What the engine believes at one moment: nodes by name, pods by UID."""

    nodes: dict[str, Node]
    pods: dict[str, Belief]


def beliefs_of(machine: SchedulerStateMachine) -> CachedState:
    cache = machine.transitions.cache
    return CachedState(
        nodes={node.name: node for node in cache.nodes()},
        pods={
            entry.uid: Belief(entry.pod, entry.state, entry.node, entry.informed)
            for entry in machine.transitions.roster
        },
    )


def compare_nodes(beliefs: CachedState, live: Iterable[Node]) -> list[Difference]:
    """Nodes that are believed and do not exist, exist and are not known (also under a new UID), or are different."""
    truth = {node.name: node for node in live}
    found = [
        Difference("nodes", Kind.PHANTOM, "", name, node.uid, "no such node exists")
        for name, node in beliefs.nodes.items()
        if name not in truth
    ]
    for name, node in truth.items():
        known = beliefs.nodes.get(name)
        if known is None or known.uid != node.uid:
            found.append(Difference("nodes", Kind.MISSING, "", name, node.uid, "node is not known"))
        elif not same_but_version(known, node):
            found.append(Difference("nodes", Kind.OUTDATED, "", name, node.uid, _differing(known, node)))
    return sorted(found)


def _differing(known: Node | Pod, live: Node | Pod) -> str:
    """The names of the fields in which the two differ."""
    fields = (field.name for field in msgspec.structs.fields(type(live)))
    names = [name for name in fields if getattr(known, name) != getattr(live, name)]
    return f"{', '.join(name for name in names if name != 'resource_version')}: not as believed"


def compare_pods(beliefs: CachedState, live: Iterable[Pod], heart_owns: Iterable[str] = ()) -> list[Difference]:
    """Pods about which belief and truth differ. `heart_owns`: UIDs of unbound pods that should be known."""
    truth = {pod.uid: pod for pod in live if not pod.finished}
    owned = frozenset(heart_owns)
    found = [
        Difference("pods", Kind.PHANTOM, *belief.pod.key, uid, f"believed {belief.state}; does not exist")
        for uid, belief in beliefs.pods.items()
        if uid not in truth and belief.informed
    ]
    for uid, pod in truth.items():
        difference = _difference(pod, beliefs.pods.get(uid), owned=uid in owned)
        if difference is not None:
            found.append(difference)
    return sorted(found)


def _difference(pod: Pod, belief: Belief | None, *, owned: bool) -> Difference | None:
    if belief is None:
        if not pod.node_name and not owned:
            return None
        where = f"bound to {pod.node_name}" if pod.node_name else "waiting"
        return Difference("pods", Kind.MISSING, pod.namespace, pod.name, pod.uid, f"{where}, and not known")
    if not pod.node_name:
        return None
    if belief.state is State.BOUND and belief.node == pod.node_name:
        return _outdated(pod, belief)
    believed = f"{belief.state} on {belief.node}" if belief.node else str(belief.state)
    text = f"bound to {pod.node_name}, believed {believed}"
    return Difference("pods", Kind.MISPLACED, pod.namespace, pod.name, pod.uid, text)


def _outdated(pod: Pod, belief: Belief) -> Difference | None:
    """A pod that the informer has not shown bound yet is one that it will show."""
    if not belief.pod.node_name or same_but_version(belief.pod, pod):
        return None
    return Difference("pods", Kind.OUTDATED, pod.namespace, pod.name, pod.uid, _differing(belief.pod, pod))
