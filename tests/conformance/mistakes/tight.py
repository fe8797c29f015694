"""Small clusters: nodes that two pods fill, so that pods preempt each other; and pods that are all in gangs."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from algorithm.conformance.world import World, Worlds
from algorithm.model import Node, Pod

_SIZES = st.sampled_from([(("cpu", 1000),), (("cpu", 2000),)])


def nodes(name: str) -> SearchStrategy[Node]:
    return st.just(Node(name=name, uid=f"uid-{name}", allocatable=(("cpu", 2000), ("pods", 4))))


def pods(number: int) -> SearchStrategy[tuple[Pod, ...]]:
    def pod(requests: tuple[tuple[str, int], ...], priority: int) -> tuple[Pod, ...]:
        name = f"p{number:03}"
        return (Pod(namespace="ns", name=name, uid=f"u-{name}", requests=requests, priority=priority),)

    return st.builds(pod, _SIZES, st.sampled_from([0, 1, 2, 1000]))


WORLDS = Worlds(make=lambda _: World(nodes=nodes, pods=pods, node_names=("n0", "n1")))


def gangs(number: int) -> SearchStrategy[tuple[Pod, ...]]:
    names = [f"p{number:03}-{member}" for member in range(4)]
    return st.just(tuple(Pod(namespace="ns", name=name, uid=f"u-{name}", group=f"g{number}") for name in names))


OF_GANGS = Worlds(make=lambda _: World(nodes=nodes, pods=gangs, node_names=("n0", "n1")))
