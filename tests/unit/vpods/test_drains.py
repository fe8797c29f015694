"""Drains come to an end: they shrink the set, or stop, and vreplicas do not go back and forth for ever."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.vpods.copies import copy_set
from extender.vpods.events import TermBegun
from extender.vpods.planning import Changes, Planning
from tests.unit.vpods.world import SET, World


def a_set_beyond_its_bound(**settings):
    """Two pods, of which one is to go. `b` finds no room for all that it wants, and gives back what it has."""
    defaults = {"replicas": 2, "capacity": 2, "max_replicas": 1, "scale_down_seconds": 30.0, "partial_seconds": 30.0}
    world = World(**defaults | settings)
    world.want("a", 2, spread=2)
    world.settle()
    world.want("b", 3)
    world.settle()
    return world


def pass_time(world, seconds):
    for _ in range(int(seconds // 5)):
        world.pass_time(5.0)
        world.settle()


@pytest.mark.parametrize("overlap_seconds", [0.0, 10.0])
@pytest.mark.parametrize("max_moves", [1, 16])
def test_a_vpod_that_had_no_room_before_stops_no_drain(overlap_seconds, max_moves):
    world = a_set_beyond_its_bound(overlap_seconds=overlap_seconds, max_moves=max_moves)
    pass_time(world, 10_000)
    assert (world.placed("a"), world.placed("b"), world.workload.replicas) == ({"ss-0": 2}, {}, 1)
    assert world.moves == 3  # one of a to the first pod, and what b gave back
    assert "DrainStopped" not in [notice.reason for notice in world.notices]


def test_a_vpod_that_gets_all_on_the_last_pod_stops_the_drain():
    world = a_set_beyond_its_bound(overlap_seconds=10.0)
    pass_time(world, 35)
    assert (world.engine.sets[SET].draining, world.placed("b")) == (1, {})
    world.want("b", 1)
    world.settle()
    assert world.engine.sets[SET].draining is None
    pass_time(world, 10_000)
    assert (world.placed("a"), sum(world.placed("b").values())) == ({"ss-0": 1, "ss-1": 1}, 1)
    assert world.workload.replicas == 2


def a_set_that_cannot_shrink(**settings):
    """Room for all on two pods, but not for three of `a` on distinct ones. `c` is emptied before that is found out."""
    world = World(replicas=3, scale_down_seconds=30.0, **settings)
    world.want("c", 3, spread=2)
    world.settle()
    world.want("a", 3, max_per_pod=1)
    world.settle()
    world.configure(max_replicas=2)
    pass_time(world, 15)
    assert "Draining" not in [notice.reason for notice in world.notices]
    before = world.version
    pass_time(world, 20)
    assert world.version > before
    return world


EVEN = {"ss-0": 1, "ss-1": 1, "ss-2": 1}


@pytest.mark.parametrize("overlap_seconds", [0.0, 10.0])
def test_a_drain_that_leads_nowhere_is_not_tried_for_ever(overlap_seconds):
    world = a_set_that_cannot_shrink(overlap_seconds=overlap_seconds)
    pass_time(world, 10_000)
    assert world.moves == (6 if overlap_seconds else 12)  # there, or not quite, and back: six times
    before = world.version
    world.pass_time(1_000_000)
    world.settle()
    assert (world.version, world.workload.replicas) == (before, 3)
    assert world.placed("a") == world.placed("c") == EVEN


def changes(world):
    """What may make room, each with whether it does."""
    yield lambda: world.want("a", 2), 2
    yield lambda: world.want("c", 4), 3
    yield lambda: world.delete("a"), 2
    yield lambda: world.configure(max_moves=1), 3
    yield lambda: world.change(0, closed=True), 3
    yield lambda: world.demote() or world.tell(TermBegun(2)), 3


@pytest.mark.parametrize("number", range(6))
def test_it_is_tried_again_once_something_has_changed(number):
    world = a_set_that_cannot_shrink()
    pass_time(world, 10_000)
    before = world.moves
    change, replicas = list(changes(world))[number]
    change()
    world.settle()
    pass_time(world, 3000)
    assert world.workload.replicas == replicas
    assert world.moves > before


def test_the_last_pod_is_no_such_change():
    world = a_set_that_cannot_shrink()
    pass_time(world, 10_000)
    world.serve("n2", serves=False)
    world.settle()
    assert world.engine.sets[SET].drains is not None


def test_settings_of_other_sets_are_no_such_change():
    world = a_set_that_cannot_shrink()
    pass_time(world, 10_000)
    before = world.moves
    world.configure()
    pass_time(world, 10_000)
    assert world.moves == before


def test_a_set_shrinks_by_any_number_of_steps():
    world = World(replicas=12, capacity=1, scale_down_step=1, scale_down_seconds=30.0)
    world.want("a", 1)
    world.settle()
    pass_time(world, 600)
    assert world.replicas == list(range(11, 0, -1))


def test_a_set_does_not_shrink_and_grow_in_turn_for_a_vpod_with_a_bound_on_each_pod():
    """The room is on the pods on which `b` has all that it may have: it needs a pod more, not a pod less."""
    world = World(replicas=4, capacity=3, max_replicas=4, scale_down_seconds=30.0)
    for number in range(6):
        world.want(f"d{number}", 1, placements=((f"ss-{2 + number % 2}", 1),))
    world.want("b", 3, max_per_pod=1)
    world.settle()
    assert world.placed("b") == {"ss-0": 1, "ss-1": 1}
    pass_time(world, 10_000)
    assert (world.replicas, world.moves) == ([], 0)


def test_a_dry_run_knows_which_drains_have_led_nowhere():
    world = a_set_that_cannot_shrink()
    pass_time(world, 10_000)
    planning = Planning(copy_set(world.engine, SET, world.now), Changes())
    for _ in planning.run():
        pass
    plan = planning.result()
    assert (plan.is_at_rest, plan.steps) == (True, [])


SETS = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 5),
        "capacity": st.integers(1, 4),
        "zones": st.integers(1, 2),
        "max_moves": st.sampled_from([1, 16]),
        "max_replicas": st.integers(1, 5),
        "scale_down_step": st.integers(0, 1),
        "scale_up_step": st.integers(0, 1),
        "policy": st.sampled_from(["balanced", "mine"]),
        "overlap_seconds": st.sampled_from([0.0, 10.0]),
        "partial_seconds": st.sampled_from([30.0, None]),
    }
)
STEPS = st.one_of(
    st.tuples(st.just("want"), st.sampled_from("abc"), st.integers(0, 7), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.sampled_from(["bound", "capacity", "scale"]), st.integers(1, 5)),
    st.tuples(st.just("cordon"), st.sampled_from(["n0", "n1", "n2"])),
)


def take(world, step, *numbers):
    if step == "want":
        name, wanted, spread, max_per_pod = numbers
        world.want(name, wanted, spread=spread, max_per_pod=max_per_pod)
    elif step == "cordon":
        world.serve(*numbers, serves=False)
    elif step == "scale":
        world.scale(*numbers)
    else:
        world.configure(**{"max_replicas" if step == "bound" else step: numbers[0]})
    world.settle()


def comes_to_rest(settings, steps):
    world = World(scale_down_seconds=30.0, unready_seconds=20.0, **settings)
    for step in steps:
        take(world, *step)
    pass_time(world, 5000)
    before = world.version
    for _ in range(80):
        world.pass_time(100.0)
        world.settle()
    assert world.version == before, world.notices[-10:]


@given(SETS, st.lists(STEPS, min_size=2, max_size=7))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_every_small_set_comes_to_rest(settings, steps):
    comes_to_rest(settings, steps)


@pytest.mark.slow
@given(SETS, st.lists(STEPS, min_size=2, max_size=7))
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_small_set_comes_to_rest_for_longer(settings, steps):
    comes_to_rest(settings, steps)
