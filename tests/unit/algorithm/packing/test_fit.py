"""Resource fit: what has room where, and the reasons where there is none."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import Bind, SuggestedNodes, Wait
from algorithm.model import Node
from algorithm.reasons import Code
from tests.support.packing.harness import GPU, PackingHarness, node, pod, shown


def reasons(answer: Wait, *names: str) -> dict[str, str]:
    return {name: (answer.nodes.get(name) or answer.reason).text for name in names}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (pod("p", cpu=8000), True),
        (pod("p", cpu=8001), False),
        (pod("p", memory=64), True),
        (pod("p", memory=65), False),
        (pod("p", gpu=2), True),
        (pod("p", gpu=3), False),
        (pod("p"), True),
    ],
)
def test_a_pod_fits_where_all_it_asks_for_is_free(wanted, fits):
    world = PackingHarness(node("a", gpu=2))
    world.submit(wanted)
    assert isinstance(world.schedule(wanted), Bind) is fits


def test_every_pod_takes_one_of_the_nodes_pods():
    world = PackingHarness(node("a", pods=1))
    world.place(pod("first"))
    second = pod("second")
    world.submit(second)
    answer = world.schedule(second)
    assert answer == Wait(answer.reason)
    assert answer.reason.code is Code.TOO_MANY_PODS


def test_a_node_that_does_not_say_how_many_pods_takes_none_as_in_kube_scheduler():
    world = PackingHarness(Node(name="a", allocatable=(("cpu", 1000),)))
    one = pod("p")
    world.submit(one)
    assert world.schedule(one).reason.text == "node never has enough pods"


def test_a_request_of_zero_never_refuses():
    world = PackingHarness(node("a", cpu=1000))
    world.bound(pod("hog", cpu=2000), "a")
    zero = msgspec.structs.replace(pod("p"), requests=(("cpu", 0), (GPU, 0)))
    assert world.place(zero) == "a"


def test_each_refused_node_has_its_own_reason():
    world = PackingHarness(node("full", gpu=1), node("small"), node("crowded", gpu=1, pods=1))
    world.bound(pod("x", gpu=1), "full")
    world.bound(pod("y"), "crowded")
    wanted = pod("p", gpu=1)
    world.submit(wanted)
    answer = world.schedule(wanted, ["full", "small", "crowded", "stranger"])
    assert answer.reason.code is Code.NO_NODE_FITS
    assert reasons(answer, "full", "small", "crowded", "stranger") == {
        "full": "insufficient example.com/gpu",
        "small": "node never has enough example.com/gpu",
        "crowded": "too many pods",
        "stranger": "node is not known to the extender yet",
    }


def test_a_reason_that_all_nodes_share_is_told_once():
    world = PackingHarness(node("a"), node("b"))
    wanted = pod("p", gpu=1)
    world.submit(wanted)
    answer = world.schedule(wanted)
    assert answer.nodes == {}
    assert answer.reason.text == "node never has enough example.com/gpu"


def test_reasons_follow_every_change():
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    for name in "ab":
        world.bound(pod(f"x{name}", gpu=1), name)
    wanted = pod("p", gpu=1)
    world.submit(wanted)
    assert world.schedule(wanted).reason.code is Code.INSUFFICIENT
    world.update_node(node("a"))
    assert reasons(world.schedule(wanted), "a", "b") == {
        "a": "node never has enough example.com/gpu",
        "b": "insufficient example.com/gpu",
    }
    world.delete_node("b")
    assert reasons(world.schedule(wanted, ["a", "b"]), "b") == {"b": "node is not known to the extender yet"}
    world.add_node(node("b", gpu=2))
    assert world.schedule(wanted).node == "b"


def test_only_offered_nodes_are_named():
    world = PackingHarness(*(node(f"n{i:02}") for i in range(40)))
    one = pod("p", cpu=100)
    world.submit(one)
    for offered in (["n07"], ["n33", "n08"], [f"n{i}" for i in range(39, 20, -1)]):
        assert world.schedule(one, offered).node == min(offered)


def test_nothing_offered_is_said_so():
    world = PackingHarness(node("a"))
    one = pod("p")
    world.submit(one)
    assert world.algorithm.schedule(one, SuggestedNodes(), "Filtering").reason.code is Code.NOTHING_OFFERED


def test_pods_on_a_node_not_known_yet_count_when_it_appears():
    world = PackingHarness()
    world.bound(pod("early", gpu=3), "late")
    world.add_node(node("late", gpu=4))
    two = pod("two", gpu=2)
    world.submit(two)
    assert world.schedule(two).reason.code is Code.INSUFFICIENT
    assert world.place(pod("one", gpu=1)) == "late"


def test_pods_of_a_deleted_node_count_when_it_comes_back():
    world = PackingHarness(node("a", gpu=2))
    world.place(pod("x", gpu=2))
    world.delete_node("a")
    world.add_node(node("a", gpu=2))
    one = pod("one", gpu=1)
    world.submit(one)
    assert isinstance(world.schedule(one), Wait)
    world.delete("u-x")
    assert world.schedule(one).node == "a"


def test_a_node_that_shrinks_below_what_is_used_takes_nothing_more():
    world = PackingHarness(node("a", cpu=4000))
    world.place(pod("x", cpu=3000))
    world.update_node(node("a", cpu=1000))
    assert shown(world.algorithm)["nodes"]["a"]["free"]["cpu"] == -2000
    small = pod("small", cpu=1)
    world.submit(small)
    assert isinstance(world.schedule(small), Wait)
    world.delete("u-x")
    assert world.schedule(small).node == "a"


def test_a_pod_resized_in_place_counts_with_its_new_size():
    world = PackingHarness(node("a", cpu=4000))
    world.place(pod("x", cpu=1000))
    old = world.allocated["u-x"]
    new = msgspec.structs.replace(old, requests=(("cpu", 3500),))
    world.algorithm.update_allocated_pod(old, new)
    world.allocated["u-x"] = new
    world.algorithm.validate()
    one = pod("one", cpu=1000)
    world.submit(one)
    assert isinstance(world.schedule(one), Wait)
    world.delete("u-x")
    assert world.schedule(one).node == "a"


def test_deleting_everything_leads_back_to_the_start():
    world = PackingHarness(node("a", gpu=1))
    start = shown(PackingHarness().algorithm)
    world.place(pod("x", gpu=1))
    world.delete("u-x")
    world.delete_node("a")
    assert shown(world.algorithm) == start
