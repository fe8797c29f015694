"""Why a vpod is where it is, why it waits, and what would help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.vpods.copies import copy_set
from extender.vpods.explaining import Explaining, Explanation
from extender.vpods.planning import Changes, Planning
from extender.vpods.views import find, page, pods, sums
from tests.unit.vpods.test_planning import state
from tests.unit.vpods.world import SET, World


def explained(world: World, name: str) -> Explanation:
    copied = copy_set(world.engine, SET, world.now)
    assert copied is not None
    vpod = find(copied, name)
    assert vpod is not None
    explaining = Explaining(copied, vpod)
    for _ in explaining.run():
        pass
    found = explaining.result()
    assert found.is_complete
    return found


def full(**given_settings: Any) -> World:
    """Two pods of three vreplicas each: `a` has four of them, and `b` two of five."""
    world = World(**{"replicas": 2, "capacity": 3, "scales": False} | given_settings)
    for name, wanted in (("a", 4), ("b", 5)):
        world.want(name, wanted)
        world.settle()
    world.pass_time(7)
    return world


def test_a_vpod_that_has_all_needs_no_help() -> None:
    found = explained(full(), "a")
    assert (found.placed, found.pending, found.waits, found.helps) == (4, 0, (), [])
    assert all(rule.is_kept for rule in found.rules)


def test_a_vpod_that_waits_says_why() -> None:
    found = explained(full(), "b")
    assert found.reason == "NotEnoughRoom"
    assert found.waits_seconds == 7
    assert found.waits == [
        "3 of 5 vreplicas have no pod: 2 of 2 pods can be used, and 0 more vreplicas fit on them",
        "the autoscaler of the set is off",
    ]
    assert not found.rules[0].is_kept


def test_the_smallest_change_that_helps_is_tried_out() -> None:
    world = full()
    was = state(world)
    helps = {each.change: each.value for each in explained(world, "b").helps}
    assert helps == {"replicas": 3, "capacity": 5}
    assert state(world) == was


@pytest.mark.parametrize("change", ["replicas", "capacity"])
def test_what_helps_helps_in_a_plan_and_one_less_does_not(change: str) -> None:
    world = full()
    copied = copy_set(world.engine, SET, world.now)
    assert copied is not None
    least = next(each.value for each in explained(world, "b").helps if each.change == change)
    assert least is not None
    for value, waits in ((least, 0), (least - 1, 1)):
        made = Changes(replicas=value) if change == "replicas" else Changes(settings={"capacity": value})
        planning = Planning(copied, made)
        for _ in planning.run():
            pass
        assert planning.result().waiting_total == waits


def test_the_bound_of_the_autoscaler_is_named() -> None:
    found = explained(full(scales=True, max_replicas=2), "b")
    assert found.waits[-1] == "the set has as many replicas as it may have: max_replicas is 2"
    assert "max_replicas, 2, stops the autoscaler" in found.helps[0].text


def test_those_who_wait_before_it_come_first() -> None:
    world = full()
    world.want("c", 3)
    world.settle()
    assert {each.change: each.value for each in explained(world, "c").helps} == {"replicas": 4, "capacity": 6}


def test_closed_pods_that_would_do_are_named() -> None:
    world = World(replicas=3, capacity=3, scales=False)
    world.change(2, closed=True)
    world.settle()
    world.want("a", 8)
    world.settle()
    found = explained(world, "a")
    assert "pods that get no vreplicas: 1 closed" in found.waits
    assert found.helps[-1].change == "open"
    assert found.helps[-1].text == "pods that are closed now: ss-2"


def test_a_distinct_pod_for_each_needs_more_pods() -> None:
    world = World(replicas=2, capacity=10, scales=False)
    world.want("a", 4, max_per_pod=1)
    world.settle()
    copied = copy_set(world.engine, SET, world.now)
    assert copied is not None
    if not page(copied)[0].pending:
        pytest.skip("the policy does not know max_per_pod yet")
    helps = {each.change: each.value for each in explained(world, "a").helps}
    assert helps == {"replicas": 4}


def test_each_pod_has_its_reason() -> None:
    world = World(replicas=4, capacity=4, scales=False)
    world.change(3, closed=True)
    world.settle()
    world.want("big", 6)
    world.settle()
    world.want("small", 4)
    world.settle()
    why = {share.ordinal: (share.vreplicas, share.why) for share in explained(world, "small").pods}
    assert why[0] == (2, "one of the pods with one more, because the number does not divide evenly")
    assert why[1] == (1, "its share")
    assert why[3] == (0, "an annotation closes the pod")


def test_a_rule_that_room_does_not_allow_is_kept_as_far_as_it_can_be() -> None:
    """Two pods in one zone, one in the other, all of them full."""
    world = World(replicas=3, nodes=2, zones=2, capacity=2, scales=False)
    world.want("a", 6)
    world.settle()
    rules = explained(world, "a").rules
    assert rules[2].outcome == "they differ by 2, and room allows no less: z0 4, z1 2"
    assert all(rule.is_kept for rule in rules)


def test_a_full_pod_says_who_holds_it() -> None:
    found = explained(full(), "b")
    assert {share.why for share in found.pods} == {"full: other vpods hold 2 of 3"}


def test_a_set_that_is_looked_at_stays_as_it_is() -> None:
    world = full()
    was = state(world)
    copied = copy_set(world.engine, SET, world.now)
    assert copied is not None
    shown = pods(copied)
    assert [(pod.name, pod.held, pod.free, pod.stage.value) for pod in shown] == [
        ("ss-0", 3, 0, "usable"),
        ("ss-1", 3, 0, "usable"),
    ]
    found = sums(copied)
    assert (found.expected, found.placed, found.pending, found.free, found.waiting) == (9, 6, 3, 0, 1)
    assert [vpod.name for vpod in page(copied, limit=1)] == ["ns/a"]
    assert [vpod.name for vpod in page(copied, after="ns/a")] == ["ns/b"]
    assert [vpod.name for vpod in page(copied, waiting=True)] == ["ns/b"]
    assert state(world) == was


@settings(max_examples=60, deadline=None)
@given(
    wanted=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    replicas=st.integers(1, 3),
    capacity=st.integers(1, 5),
    zones=st.integers(1, 2),
    max_per_pod=st.integers(0, 2),
)
def test_the_change_is_enough_and_one_less_is_not(
    wanted: list[int], replicas: int, capacity: int, zones: int, max_per_pod: int
) -> None:
    """Held against dry runs of the whole set, for the vpod that waits last; one less, where no other one competes."""
    world = World(replicas=replicas, nodes=4, zones=zones, capacity=capacity, scales=False, max_moves=100)
    for number, each in enumerate(wanted):
        world.want(f"v{number}", each, max_per_pod=max_per_pod)
        world.settle()
        world.pass_time(1)
    copied = copy_set(world.engine, SET, world.now)
    assert copied is not None
    waiting = list(world.engine.sets[SET].waiting)
    if not waiting:
        return
    for each in explained(world, waiting[-1]).helps:
        assert each.value is not None
        for value in [each.value] if len(waiting) > 1 else [each.value, each.value - 1]:
            made = Changes(replicas=value) if each.change == "replicas" else Changes(settings={"capacity": value})
            planning = Planning(copied, made)
            for _ in planning.run():
                pass
            left = {lacking.vpod for lacking in planning.result().waiting}
            assert (waiting[-1] not in left) == (value == each.value), (each.change, value, left)
