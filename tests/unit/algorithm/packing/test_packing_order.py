"""Which of the nodes that fit is taken: packing, spreading, ties, scores."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from algorithm.interface import SuggestedNodes
from algorithm.packing import PLUGIN
from tests.support.packing.harness import PackingHarness, node, pod, shown


def test_the_fullest_node_that_fits_is_taken():
    world = PackingHarness(node("a"), node("b"), node("c"))
    world.bound(pod("x", cpu=4000), "b")
    world.bound(pod("y", cpu=7000), "c")
    assert world.place(pod("p", cpu=2000)) == "b"
    assert world.place(pod("q", cpu=1000)) == "c"


def test_the_scarcer_of_cpu_and_memory_is_packed():
    world = PackingHarness(node("a"), node("b"), node("c"))
    world.bound(pod("x", cpu=4000, memory=0), "b")
    world.bound(pod("y", memory=40), "c")
    world.bound(pod("z", memory=60), "a")
    assert world.place(pod("p", cpu=100, memory=20)) == "c"


def test_a_whole_gpu_node_stays_whole_while_a_broken_one_fits():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=8))
    world.bound(pod("x", gpu=5), "b")
    assert world.place(pod("p", gpu=2)) == "b"
    assert world.place(pod("q", gpu=2)) == "a"


def test_pods_without_gpu_leave_gpu_nodes_alone():
    world = PackingHarness(node("a", gpu=8, cpu=2000), node("b", cpu=64000))
    assert world.place(pod("p", cpu=1000)) == "b"


def test_pods_without_gpu_go_where_fewest_gpus_are_free():
    world = PackingHarness(node("a", gpu=8, cpu=2000), node("b", gpu=8, cpu=64000))
    world.bound(pod("x", gpu=8), "b")
    assert world.place(pod("p", cpu=1000)) == "b"


def test_spreading_takes_the_emptiest():
    world = PackingHarness(node("a", gpu=8), node("b", gpu=8), strategy="spread")
    assert [world.place(pod(f"g{i}", gpu=2)) for i in range(4)] == ["a", "b", "a", "b"]
    assert [world.place(pod(f"c{i}", cpu=1000)) for i in range(3)] == ["a", "b", "a"]


def test_spreading_counts_pods_that_ask_for_nothing():
    world = PackingHarness(*(node(name) for name in "abc"), strategy="spread")
    assert [world.place(pod(f"p{i}")) for i in range(4)] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("strategy", ["pack", "spread"])
@pytest.mark.parametrize("count", [3, 60])
def test_ties_go_to_the_smaller_name(strategy, count):
    world = PackingHarness(*(node(f"n{i:02}") for i in reversed(range(count))), strategy=strategy)
    assert world.place(pod("p", cpu=1), reversed([f"n{i:02}" for i in range(count)])) == "n00"


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_a_huge_count_of_an_extended_resource_is_still_exact(strategy):
    world = PackingHarness(node("a", gpu=1000), node("b", gpu=900), node("c", gpu=100), strategy=strategy)
    assert world.place(pod("p", gpu=950)) == "a"
    assert world.place(pod("q", gpu=850)) == "b"
    too_much = pod("r", gpu=101)
    world.submit(too_much)
    assert world.schedule(too_much).reason.text == "no offered node has room for this pod"


def test_scores_prefer_full_nodes_to_pack_and_empty_ones_to_spread():
    scores = {}
    for strategy in ("pack", "spread"):
        world = PackingHarness(node("a", cpu=1000, pods=10), node("b", cpu=1000, pods=10), strategy=strategy)
        world.bound(pod("x", cpu=500), "b")
        scores[strategy] = world.algorithm.prioritize(pod("p", cpu=500), SuggestedNodes(["a", "b", "stranger"]))
    assert scores["pack"] == {"a": 3, "b": 6}
    assert scores["spread"] == {"a": 7, "b": 4}


def test_scores_stay_within_0_and_10():
    world = PackingHarness(node("a", cpu=1000))
    world.bound(pod("x", cpu=5000), "a")
    assert world.algorithm.prioritize(pod("p", cpu=9000), SuggestedNodes(["a"])) == {"a": 5}


def test_the_plugin_is_made_from_its_settings_and_checks_them():
    spread = PLUGIN.settings.model_validate({"strategy": "spread"})
    assert PLUGIN.create(spread).inspect()["strategy"] == "spread"
    with pytest.raises(ValidationError, match="strategy"):
        PLUGIN.settings.model_validate({"strategy": "best"})
    with pytest.raises(ValidationError, match="surprise"):
        PLUGIN.settings.model_validate({"surprise": 1})


def test_a_fork_goes_its_own_way():
    world = PackingHarness(node("a", gpu=2), node("b", gpu=2))
    world.place(pod("x", gpu=1))
    twin = world.algorithm.fork()
    assert shown(twin) == shown(world.algorithm)
    world.place(pod("y", gpu=1))
    world.delete_node("b")
    twin.validate()
    assert shown(twin) != shown(world.algorithm)
    assert twin.schedule(pod("z", gpu=2), SuggestedNodes(["a", "b"]), "Filtering").node == "b"
