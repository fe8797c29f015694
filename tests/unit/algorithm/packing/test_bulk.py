"""Equal pods placed together get the nodes that they would get one after the other."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from algorithm.interface import SuggestedNodes
from algorithm.model import Node
from algorithm.packing.demand import Demand
from algorithm.packing.index import OfferedNodes
from algorithm.packing.nodes import Cluster
from algorithm.packing.trial import Trial
from tests.support.packing.harness import GPU, pod

FPGA = "example.com/fpga"

rooms = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 12),
        "memory": st.integers(0, 12),
        "pods": st.integers(0, 6),
        GPU: st.sampled_from([0, 0, 1, 2, 4, 8, 31, 32, 33, 64, 100]),
        FPGA: st.integers(0, 2),
    }
)
demands = st.fixed_dictionaries(
    {"pods": st.just(1)},
    optional={
        "cpu": st.integers(1, 5),
        "memory": st.integers(1, 5),
        GPU: st.sampled_from([1, 2, 20, 33]),
        FPGA: st.just(1),
    },
).map(lambda amounts: tuple(sorted(amounts.items())))


def cluster_of(frees: list[dict[str, int]], overcommitted: set[int], *, spread: bool) -> Cluster:
    """Nodes with so much room each; on some of them another pod takes more than there is."""
    cluster = Cluster(spread=spread)
    for index, free in enumerate(frees):
        name = f"n{index:02}"
        cluster.put_node(Node(name=name, uid=name, allocatable=tuple(sorted(free.items()))))
        if index in overcommitted:
            cluster.place(pod(f"x{index}", cpu=9, memory=3).placed(name))
    return cluster


def one_after_the_other(cluster: Cluster, number: int, demand: Demand, offered: OfferedNodes) -> list[str]:
    found: list[str] = []
    with Trial(cluster) as trial:
        while len(found) < number and (name := trial.best(demand, offered)) is not None:
            trial.take(name, demand)
            found.append(name)
    return found


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    frees=st.lists(rooms, min_size=1, max_size=24),
    demand=demands,
    number=st.integers(1, 60),
    spread=st.booleans(),
    hidden=st.sets(st.integers(0, 23), max_size=8),
    overcommitted=st.sets(st.integers(0, 23), max_size=4),
)
@example(  # cpu and memory change places while seats are taken
    frees=[{"cpu": 4, "memory": 9, "pods": 6}] * 9 + [{"cpu": 9, "memory": 4, "pods": 6}] * 9,
    demand=(("cpu", 2), ("memory", 2), ("pods", 1)),
    number=60,
    spread=True,
    hidden=set(),
    overcommitted=set(),
)
def test_the_nodes_are_those_of_one_pod_after_the_other(frees, demand, number, spread, hidden, overcommitted):
    cluster = cluster_of(frees, overcommitted, spread=spread)
    names = [f"n{index:02}" for index in range(len(frees)) if index not in hidden]
    offered = OfferedNodes(SuggestedNodes([*names, "stranger"]))
    expected = one_after_the_other(cluster, number, demand, offered)
    with Trial(cluster) as trial:
        assert trial.take_best(number, demand, offered) == expected
        left = {name: dict(cluster.free_of(name)) for name in cluster.rooms}
    with Trial(cluster) as trial:
        for name in expected:
            trial.take(name, demand)
        assert left == {name: dict(cluster.free_of(name)) for name in cluster.rooms}
    cluster.validate()


@pytest.mark.parametrize(("number", "touched"), [(3, []), (9, ["n00", "n01"])])
def test_room_is_only_taken_at_last_if_there_is_too_little(number, touched):
    free = {"cpu": 2, "memory": 9, "pods": 9}
    cluster = cluster_of([free, free], set(), spread=False)
    with Trial(cluster) as trial:
        found = trial.take_best(
            number, (("cpu", 1), ("pods", 1)), OfferedNodes(SuggestedNodes(["n00", "n01"])), last=True
        )
        assert found == ["n00", "n00", "n01", "n01"][:number]
        assert sorted(trial.changed()) == touched
    cluster.validate()
