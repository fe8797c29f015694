"""The world of `packing`: plain nodes; single pods; gangs by annotations: whole, in part, or declared wrongly."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from algorithm.conformance.world import World, Worlds
from algorithm.conformance.worlds.plain import node_of, odd_annotations, pod_of
from algorithm.model import Node, Pod, pairs
from algorithm.packing.gangs import GANG, GANG_MIN, GANG_PLAN


def _nodes(name: str) -> SearchStrategy[Node]:
    return node_of(name)


@st.composite
def _gang(draw: st.DrawFn, number: int) -> tuple[Pod, ...]:
    """A gang of its own, or further members of an old one."""
    size, minimum = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    gang = draw(st.sampled_from([f"g{number}", f"g{number}", "g"]))
    declared = pairs({GANG: gang, GANG_MIN: str(minimum)})
    priority = draw(st.sampled_from([0, 1, 1000]))
    members = (
        pod_of(
            f"p{number:03}-{each}", namespace=st.just("ns"), annotations=st.just(declared), priority=st.just(priority)
        )
        for each in range(size)
    )
    return tuple(draw(member) for member in members)


def _pods(number: int) -> SearchStrategy[tuple[Pod, ...]]:
    name = f"p{number:03}"
    single = pod_of(name).map(lambda pod: (pod,))
    odd = pod_of(name, annotations=odd_annotations([GANG, GANG_MIN, GANG_PLAN])).map(lambda pod: (pod,))
    return st.one_of(single, single, _gang(number), _gang(number), odd)


def _world(_settings: Any) -> World:
    return World(nodes=_nodes, pods=_pods)


WORLDS = Worlds(make=_world)
