"""A gang of pods of different sizes: whether it is placed does not depend on who is asked about, and seldom on luck."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import Bind, Phase, SuggestedNodes
from algorithm.model import Pod
from algorithm.packing import PackingAlgorithm
from algorithm.packing.gangs import MOST_SIZES
from algorithm.packing.plan import Member, orders
from tests.support.effort import effort
from tests.support.packing.harness import member, node

#: The cpu and the GPUs of a pod, and what a node has of them.
Size = tuple[int, int]


def answers(nodes: Sequence[Size], pods: Sequence[Size]) -> set[bool]:
    """Whether the gang is placed, for each of its pods in turn."""
    algorithm = PackingAlgorithm()
    for index, (cpu, gpu) in enumerate(nodes):
        algorithm.add_node(node(f"n{index}", cpu=cpu, gpu=gpu))
    gang = [member(f"m{index}", "g", len(pods), cpu=cpu, gpu=gpu) for index, (cpu, gpu) in enumerate(pods)]
    for pod in gang:
        algorithm.add_unallocated_pod(pod)
    offered = SuggestedNodes([f"n{index}" for index in range(len(nodes))])
    return {isinstance(algorithm.schedule(pod, offered, Phase.FILTERING), Bind) for pod in gang}


def fits(nodes: Sequence[Size], pods: Sequence[Size]) -> bool:
    """Whether there is any arrangement at all."""
    if not pods:
        return True
    (cpu, gpu), *rest = pods
    for index in {size: index for index, size in enumerate(nodes)}.values():
        free_cpu, free_gpu = nodes[index]
        left = free_cpu - cpu, free_gpu - gpu
        if min(left) >= 0 and fits([*nodes[:index], left, *nodes[index + 1 :]], rest):
            return True
    return False


SIZES = st.tuples(st.integers(1, 6), st.integers(0, 4))


@given(st.lists(st.tuples(st.integers(2, 16), st.integers(0, 8)), min_size=1, max_size=5), st.data())
@settings(deadline=None, derandomize=True, database=None, max_examples=300)
def test_every_member_gets_the_same_answer(nodes, data) -> None:
    kinds = data.draw(st.lists(SIZES, min_size=2, max_size=4))
    pods = data.draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=7))
    found = answers(nodes, pods)
    assert len(found) == 1
    assert found == {False} or fits(nodes, pods)


def test_few_gangs_that_fit_are_refused() -> None:
    """Of random gangs of pods that need different things, at least 995 in 1,000 that can be placed are."""
    fit = placed = 0
    for seed in range(400):
        rng = random.Random(seed)
        nodes = [(rng.randint(2, 16), rng.randint(1, 8)) for _ in range(rng.randint(2, 5))]
        kinds = [(rng.randint(1, 6), rng.randint(0, 4)) for _ in range(3)]
        pods = [rng.choice(kinds) for _ in range(rng.randint(2, 6))]
        if fits(nodes, pods):
            fit += 1
            placed += answers(nodes, pods) == {True}
    assert fit > 200
    assert placed >= 0.995 * fit


@pytest.mark.parametrize("asked", range(4))
def test_a_gang_fits_if_those_that_need_most_of_one_resource_come_first(asked: int) -> None:
    """Most GPUs first, or fewest, leaves a pod without cpu: only those with most cpu first leave none out."""
    nodes, pods = [(7, 5), (8, 4)], [(1, 4), (3, 2), (3, 1), (3, 2)]
    assert answers(nodes, pods[asked:] + pods[:asked]) == {True}


def test_pods_of_any_number_of_resources_are_tried_in_a_bounded_number_of_orders() -> None:
    def tried(resources: int) -> int:
        wanted = [((f"example.com/r{index % resources}", index + 1),) for index in range(8)]
        pods = [Pod(namespace="ns", name=str(each), uid=str(each), requests=each) for each in wanted]
        return len(list(orders([Member(pod) for pod in pods], "", spare=False)))

    assert tried(2) <= tried(8) == tried(200) == 6


def test_a_refused_gang_of_many_sizes_costs_a_few_searches() -> None:
    """Each order is a search, and there are at most six: however many sizes and resources there are."""

    def cost(sizes: int) -> int:
        algorithm = PackingAlgorithm()
        for index in range(100):
            algorithm.add_node(node(f"n{index}", cpu=1000, gpu=8))
        pods = [
            member(f"m{index}", "g", 120, cpu=600 - index % sizes, gpu=1 + index % sizes % 5) for index in range(120)
        ]
        for pod in pods:
            algorithm.add_unallocated_pod(pod)
        offered = SuggestedNodes([f"n{index}" for index in range(100)])
        return effort(lambda: algorithm.schedule(pods[0], offered, Phase.FILTERING))

    assert cost(MOST_SIZES) < 12 * cost(1)
