"""The world of `fgd`: nodes with GPUs of some models; pods that ask for whole ones, or for a part of one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from algorithm.conformance.world import World, Worlds
from algorithm.conformance.worlds.plain import node_of, odd_annotations, pod_of
from algorithm.fgd.needs import COUNT, INDEX, MILLI, MODEL
from algorithm.model import Node, Pod, pairs


def _world(settings: Any) -> World:
    def nodes(name: str) -> SearchStrategy[Node]:
        labels = st.sampled_from(["A", "B", ""]).map(
            lambda model: pairs({settings.model_label: model} if model else {})
        )
        return node_of(name, allocatable=_amounts(settings.resource), labels=labels)

    def pods(number: int) -> SearchStrategy[tuple[Pod, ...]]:
        name = f"p{number:03}"
        asks = st.sampled_from([{}, {MILLI: "300"}, {MILLI: "700"}, {COUNT: "2"}, {MILLI: "500", MODEL: "A|B"}])
        shared = pod_of(name, annotations=asks.map(pairs), requests=_requests("", 0))
        whole = st.integers(1, 3).flatmap(
            lambda gpus: pod_of(name, requests=_requests(settings.resource, gpus), annotations=_models())
        )
        odd = pod_of(name, annotations=odd_annotations([MILLI, COUNT, MODEL, INDEX]))
        return st.one_of(shared, shared, whole, odd).map(lambda pod: (pod,))

    return World(nodes=nodes, pods=pods)


def _models() -> SearchStrategy[Any]:
    return st.sampled_from([(), (), pairs({MODEL: "A"}), pairs({MODEL: "C"})])


def _amounts(resource: str) -> SearchStrategy[Any]:
    room = st.tuples(st.sampled_from([8000, 3000]), st.sampled_from([4, 2, 1, 0]), st.sampled_from([10, 3]))
    return room.map(
        lambda drawn: tuple(sorted({"cpu": drawn[0], "memory": 64, "pods": drawn[2], resource: drawn[1]}.items()))
    )


def _requests(resource: str, gpus: int) -> SearchStrategy[Any]:
    return st.sampled_from([1000, 500, 2000]).map(
        lambda cpu: tuple(sorted({"cpu": cpu, **({resource: gpus} if gpus else {})}.items()))
    )


WORLDS = Worlds(make=_world)
