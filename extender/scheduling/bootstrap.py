"""What an algorithm has to know, and how a fresh one learns it: nodes, bound pods from the oldest on, then the rest.

The order is the same at a start, at a change of the configuration and in `waggle hived diff`: with another
configuration an algorithm may have to choose who keeps what, and who came first does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from algorithm.model import Node, Pod
from extender.scheduling.driver import AlgorithmDriver


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Nodes by name, pods by UID. `unallocated` are those of ours that wait; what preempts is among them."""

    nodes: dict[str, Node] = field(default_factory=dict)
    allocated: dict[str, Pod] = field(default_factory=dict)
    unallocated: dict[str, Pod] = field(default_factory=dict)


def by_age(pod: Pod) -> tuple[str, str, str]:
    """Sorts the oldest first; of one second, by name."""
    return pod.created, pod.namespace, pod.name


def learn(teller: AlgorithmDriver, truth: ClusterState) -> int:
    """Tells the algorithm what it does not know yet: first what is over, then what began. How much that was.

    What it raises at is owed to it, as ever.
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
