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


def bootstrap(driver: AlgorithmDriver, cluster: ClusterState) -> int:
    """Deliver the differences to the algorithm: first what is gone, then what is new. Returns their number.

    A change at which the algorithm raises stays pending, as always.
    """
    gone = [name for name in driver.nodes if name not in cluster.nodes]
    for name in gone:
        driver.drop_node(name)
    news = [node for name, node in cluster.nodes.items() if driver.nodes.get(name) is not node]
    for node in sorted(news, key=lambda node: node.name):
        driver.set_node(node)
    return len(gone) + len(news) + _bootstrap_pods(driver, cluster)


def _bootstrap_pods(driver: AlgorithmDriver, cluster: ClusterState) -> int:
    over = [uid for uid, pod in driver.allocated.items() if not _is_still_there(pod, cluster.allocated.get(uid))]
    known = cluster.allocated.keys() | cluster.unallocated.keys()
    over += [uid for uid in driver.unallocated if uid not in known]
    for uid in over:
        driver.remove(uid)
    placed = [pod for uid, pod in cluster.allocated.items() if driver.allocated.get(uid) is not pod]
    for pod in sorted(placed, key=by_age):
        driver.confirm(pod)
    waiting = [pod for uid, pod in cluster.unallocated.items() if driver.unallocated.get(uid) is not pod]
    for pod in sorted(waiting, key=by_age):
        driver.add_unallocated(pod)
    return len(over) + len(placed) + len(waiting)


def _is_still_there(pod: Pod, now: Pod | None) -> bool:
    return now is not None and now.node_name == pod.node_name
