"""The reasons of nodes are put together once, until one of them changes; what is remembered is right, and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import SuggestedNodes
from algorithm.packing import perdemand, refusals
from algorithm.packing.demand import demand_of
from algorithm.packing.nodes import Cluster, Hold
from algorithm.packing.refusals import Refusals
from tests.support.packing.harness import node, pod

NAMES = ["a", "b", "c", "stranger"]
BIG = demand_of(pod("big", gpu=4).requests)


def cluster_of(*nodes):
    cluster = Cluster(spread=False)
    for each in nodes:
        cluster.put_node(each)
    return cluster


def of(refused, *names):
    return refused.of(BIG, SuggestedNodes(names))


def test_the_same_nodes_are_told_the_same_object_in_any_order():
    refused = Refusals(cluster_of(node("a", gpu=2), node("b", gpu=2)))
    assert of(refused, "a", "b").by_node is of(refused, "b", "a").by_node


def test_a_change_that_leaves_the_reasons_as_they_are_leaves_the_object_too():
    cluster = cluster_of(node("a", gpu=4), node("b", gpu=2))
    cluster.place(pod("x", node_name="a", gpu=2))
    refused = Refusals(cluster)
    before = of(refused, "a", "b")
    cluster.place(pod("y", node_name="a", gpu=1))
    assert of(refused, "a", "b").by_node is before.by_node


def test_a_change_of_one_node_changes_its_reason_and_nothing_that_was_told_before():
    cluster = cluster_of(node("a", gpu=2), node("b", gpu=2))
    refused = Refusals(cluster)
    before = of(refused, "a", "b")
    kept = dict(before.by_node)
    cluster.put_node(node("a", gpu=4))
    after = of(refused, "a", "b")
    assert "a" not in after.by_node
    assert after.by_node["b"] == kept["b"]
    assert before.by_node == kept


def test_a_node_that_appears_is_unknown_no_more():
    cluster = cluster_of(node("a", gpu=2))
    refused = Refusals(cluster)
    assert of(refused, "a", "b").by_node["b"] == refusals.UNKNOWN
    cluster.put_node(node("b", gpu=4))
    assert "b" not in of(refused, "a", "b").by_node


_changes = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES[:3]), st.integers(0, 5)),
    st.tuples(st.just("gone"), st.sampled_from(NAMES[:3]), st.just(0)),
    st.tuples(st.just("pod"), st.sampled_from(NAMES[:3]), st.integers(0, 3)),
    st.tuples(st.just("hold"), st.sampled_from(NAMES[:3]), st.integers(1, 3)),
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    changes=st.lists(_changes, max_size=12),
    offers=st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), min_size=12, max_size=12),
)
def test_what_is_told_is_what_a_fresh_look_tells(changes, offers):
    cluster = cluster_of(node("a", gpu=4), node("b", gpu=2))
    refused = Refusals(cluster)
    for number, ((kind, name, amount), offer) in enumerate(zip(changes, offers, strict=False)):
        if kind == "node":
            cluster.put_node(node(name, gpu=amount))
        elif kind == "gone":
            cluster.drop_node(name)
        elif kind == "pod":
            cluster.place(pod(f"p{number}", node_name=name, gpu=amount))
        else:
            cluster.hold(Hold(f"h{number}", name, demand_of(pod("x", gpu=amount).requests), 0, "somebody"))
        told, fresh = of(refused, *offer), of(Refusals(cluster), *offer)
        assert (told.by_node, told.times, told.shared) == (fresh.by_node, fresh.times, fresh.shared)


def test_many_changes_at_once_are_looked_at_anew(monkeypatch):
    monkeypatch.setattr(perdemand, "_CHANGES", 2)
    cluster = cluster_of(*(node(f"n{i}", gpu=2) for i in range(6)))
    refused, names = Refusals(cluster), [f"n{i}" for i in range(6)]
    of(refused, *names)
    for name in names[:4]:
        cluster.put_node(node(name, gpu=4))
    assert set(of(refused, *names).by_node) == {"n4", "n5"}


@pytest.mark.parametrize("kinds", [1, 40])
def test_no_more_than_so_many_are_remembered(kinds):
    refused = Refusals(cluster_of(node("a", gpu=2)))
    for gpus in range(kinds):
        refused.of(demand_of(pod("x", gpu=gpus + 3).requests), SuggestedNodes(["a"]))
    assert len(refused._found) == min(kinds, refusals.REMEMBERED)
