"""The state that an algorithm needs, and how it is loaded: nodes, then bound pods from the oldest on, then the rest.

The order is the same at a start, at a change of the configuration and in `waggle hived diff`: with another
configuration an algorithm may have to choose which pod keeps its place, and the oldest pod does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from algorithm.model import Node, Pod
from extender.scheduling.driver import AlgorithmDriver


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Nodes by name, pods by UID. `unallocated` are our waiting pods, preempting ones included."""

    nodes: dict[str, Node] = field(default_factory=dict)
    allocated: dict[str, Pod] = field(default_factory=dict)
    unallocated: dict[str, Pod] = field(default_factory=dict)


def by_age(pod: Pod) -> tuple[str, str, str]:
    """Sort key: the oldest pod first; pods of the same second by namespace and name."""
    return pod.created, pod.namespace, pod.name


def learn(teller: AlgorithmDriver, truth: ClusterState) -> int:
    """Deliver the differences to the algorithm: first what is gone, then what is new. Returns their number.

    A change at which the algorithm raises is owed to it, as always.
    """
    gone = [name for name in teller.nodes if name not in truth.nodes]
    for name in gone:
        teller.drop_node(name)
    news = [node for name, node in truth.nodes.items() if teller.nodes.get(name) is not node]
    for node in sorted(news, key=lambda node: node.name):
        teller.set_node(node)
    return len(gone) + len(news) + _learn_pods(teller, truth)


def _learn_pods(teller: AlgorithmDriver, truth: ClusterState) -> int:
    over = [uid for uid, pod in teller.allocated.items() if not _is_still_there(pod, truth.allocated.get(uid))]
    known = truth.allocated.keys() | truth.unallocated.keys()
    over += [uid for uid in teller.unallocated if uid not in known]
    for uid in over:
        teller.forget(uid)
    placed = [pod for uid, pod in truth.allocated.items() if teller.allocated.get(uid) is not pod]
    for pod in sorted(placed, key=by_age):
        teller.is_bound(pod)
    waiting = [pod for uid, pod in truth.unallocated.items() if teller.unallocated.get(uid) is not pod]
    for pod in sorted(waiting, key=by_age):
        teller.wants_place(pod)
    return len(over) + len(placed) + len(waiting)


def _is_still_there(pod: Pod, now: Pod | None) -> bool:
    return now is not None and now.node_name == pod.node_name
