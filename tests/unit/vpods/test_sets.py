"""Settings of a set, roll-outs of its StatefulSet, and changes of the configuration while writes are under way."""

import msgspec

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.events import VPodGone, VPodSeen
from extender.vpods.writes.placements import WritePlacements
from tests.unit.vpods.world import SET, World, key


def total(world, name):
    return sum(world.placed(name).values())


# -- limits of a vpod, zones


def test_no_pod_gets_more_of_a_vpod_than_it_may_have():
    world = World(replicas=1)
    world.want("a", 7, max_per_pod=2)
    world.settle()
    assert world.workload.replicas == 4
    assert sorted(world.placed("a").values()) == [1, 2, 2, 2]


def test_a_limit_that_is_lowered_moves_what_is_too_much():
    world = World(replicas=4, scales=False)
    world.want("a", 8)
    world.settle()
    world.want("a", 4, max_per_pod=1)
    world.settle()
    assert set(world.placed("a").values()) == {1}


def test_all_policies_keep_the_limit():
    for policy in ("head", "v0.43.1", "v0.43.0"):
        world = World(replicas=3, scales=False, policy=policy)
        world.want("a", 6, max_per_pod=2)
        world.settle()
        assert sorted(world.placed("a").values()) == [2, 2, 2], policy


def test_zones_count_only_if_the_set_says_so():
    found = []
    for zones in (True, False):
        world = World(replicas=3, zones=2, scales=False)  # pods 0 and 2 are in one zone
        world.configure(zones=zones)
        world.want("a", 6)
        world.settle()
        found.append(world.placed("a"))
    assert found == [{"ss-0": 2, "ss-1": 3, "ss-2": 1}, {"ss-0": 2, "ss-1": 2, "ss-2": 2}]


# -- scaling


def test_a_set_that_has_grown_does_not_grow_again_at_once():
    world = World(replicas=0, scale_up_seconds=60.0)
    world.want("a", 5)
    world.settle()
    world.want("a", 15)
    world.settle()
    assert world.workload.replicas == 1
    world.pass_time(59)
    world.settle()
    assert world.workload.replicas == 1
    world.pass_time(2)
    world.settle()
    assert world.replicas == [1, 2]
    assert total(world, "a") == 15


def test_a_set_grows_in_steps():
    world = World(replicas=0, scale_up_step=2)
    world.want("a", 45)
    world.settle()
    assert world.replicas == [2, 4, 5]


def test_a_vpod_that_may_not_use_the_free_room_gets_another_pod():
    world = World(replicas=2, capacity=3, max_replicas=4)
    for name in "abc":
        world.want(name, 1, placements=(("ss-0", 1),))
    world.want("d", 3)
    world.settle()
    assert world.workload.replicas == 2
    world.want("d", 0)
    world.want("e", 2, max_per_pod=1)
    world.settle()
    assert world.replicas == [3]
    assert world.placed("e") == {"ss-1": 1, "ss-2": 1}
    world.moves = 0
    world.pass_time(10_000)
    world.settle()
    assert (world.workload.replicas, world.moves) == (3, 0)


def test_pods_that_are_too_full_are_not_emptied():
    """The bound was lowered: what is wanted does not fit into so few pods."""
    world = World(replicas=3, max_replicas=3)
    world.want("a", 30)
    world.settle()
    world.configure(max_replicas=2)
    world.pass_time(10_000)
    world.settle()
    assert world.workload.replicas == 3
    assert "Draining" not in [notice.reason for notice in world.notices]


def test_a_drain_without_room_is_tried_less_and_less_often():
    world = World(replicas=3)
    world.want("a", 3, max_per_pod=1)
    world.settle()
    world.want("b", 3)
    world.settle()
    world.configure(max_replicas=2)  # room for all, but not for three of a on distinct pods
    before = len(world.log)
    world.pass_time(100_000)
    world.settle()
    assert world.workload.replicas == 3
    assert total(world, "a") == 3
    assert sum(notice.reason == "DrainStopped" for notice in world.notices) == 1
    assert len(world.log) - before < 500


# -- roll-outs


def roll(world, *, settle):
    """Replace the pods one by one, the last one first."""
    for ordinal in sorted(world.pods, reverse=True):
        world.change(ordinal, terminating=True, ready=False)
        settle()
        world.lose(ordinal)
        settle()
        world.control()
        world.change(ordinal, ready=False)
        settle()
        world.change(ordinal, ready=True)
        settle()


def test_a_roll_out_moves_nothing():
    world = World(replicas=4, scales=False)
    for name in "abc":
        world.want(name, 6)
        world.settle()
    world.moves = 0

    def settle():
        world.pass_time(15)
        world.settle()

    roll(world, settle=settle)
    world.pass_time(1000)
    world.settle()
    assert world.moves == 0


def test_without_rest_a_roll_out_empties_each_pod_and_fills_it_again():
    world = World(replicas=3, scales=False, unready_seconds=0.0)
    world.want("a", 6)
    world.settle()
    lowest = []

    def settle():
        world.settle()
        lowest.append(total(world, "a"))

    roll(world, settle=settle)
    assert world.placed("a") == {"ss-0": 2, "ss-1": 2, "ss-2": 2}
    assert set(lowest) == {6}
    assert world.moves >= 12


# -- changes of the configuration


def test_a_write_under_way_keeps_its_room():
    world = World(replicas=1, scales=False)
    world.want("a", 10)
    world.observe(9)
    (first,) = world.sent
    world.configure(max_moves=1)
    world.want("b", 10)
    world.observe(9)
    assert [each for each in world.sent if isinstance(each.command, WritePlacements) and each.command.placements] == [
        first
    ]
    world.settle()
    assert (total(world, "a"), total(world, "b")) == (10, 0)


def test_a_round_of_moves_stays_open():
    world = World(replicas=2, scales=False, max_moves=2, capacity=100)
    world.want("a", 12)
    world.settle()
    world.scale(3)
    while world.watch:
        world.observe()
    world.configure(max_moves=2)
    assert world.engine.sets[SET].moves_open == 2
    world.settle()
    assert world.placed("a") == {"ss-0": 4, "ss-1": 4, "ss-2": 4}


def test_a_change_of_settings_forgets_no_rest_and_no_drain():
    world = World(replicas=3)
    world.want("a", 15)
    world.settle()
    world.pass_time(200)
    world.settle()
    world.configure(max_moves=1)
    world.pass_time(101)
    assert world.engine.sets[SET].draining == 2
    world.change(0, ready=False)
    world.observe(9)
    world.configure(max_moves=2)
    assert world.engine.sets[SET].draining == 2
    assert 0 in world.engine.sets[SET].state.resting


def test_a_drain_ends_when_the_set_is_to_scale_no_more():
    world = World(replicas=3)
    world.want("a", 15)
    world.settle()
    world.pass_time(301)
    world.configure(scales=False)
    world.settle()
    assert world.workload.replicas == 3
    assert world.placed("a") == {"ss-0": 5, "ss-1": 5, "ss-2": 5}


def test_a_write_for_the_pods_of_another_statefulset_takes_no_room():
    world = World(replicas=1, scales=False)
    world.want("a", 10)
    world.observe(9)
    world.configure(workload="other")
    assert world.engine.sets[SET].state.held == {}
    world.configure(workload="ss")
    world.settle()
    assert total(world, "a") == 10


def test_a_smaller_capacity_takes_away_what_is_too_much():
    world = World(replicas=2, scales=False)
    world.want("a", 20)
    world.settle()
    world.configure(capacity=6)
    world.settle()
    assert world.placed("a") == {"ss-0": 6, "ss-1": 6}


# -- objects that change their source


def test_an_object_that_is_a_vpod_no_more_may_be_one_again():
    world = World(scales=False)
    record = world.want("x", 3)
    world.settle()
    world.tell(VPodGone(record.key, record.uid, exists=True))
    assert world.engine.vpods == {}
    assert world.engine.sets[SET].state.held == {}
    world.tell(VPodSeen(world.vpods[record.key]))
    assert record.key in world.engine.vpods


def test_an_object_that_is_deleted_is_gone_for_good():
    world = World(scales=False)
    record = world.want("a", 3)
    world.settle()
    world.tell(VPodGone(record.key, record.uid))
    world.tell(VPodSeen(world.vpods[record.key]))
    assert world.engine.vpods == {}


def test_the_same_name_of_two_sources_is_two_vpods():
    world = World(scales=False)
    world.want("a", 3)
    other = msgspec.structs.replace(world.want("x", 3), key=key("a", source="others"), uid="other")
    world.put(other)
    world.settle()
    assert {str(each) for each in world.engine.vpods} == {"ns/a", "others:ns/x", "others:ns/a"}
    assert world.engine.sets[SET].state.total_wanted == 9


def test_a_refused_write_is_tried_again_when_less_is_wanted():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    for _ in range(8):
        (sent,) = world.sent
        world.answer(sent, Outcome(OutcomeKind.REJECTED, "denied"))
        world.pass_time(world.engine.next_due() - world.now)
    world.answer(world.sent[0], Outcome(OutcomeKind.REJECTED, "denied"))
    world.want("a", 2)
    world.settle()
    assert total(world, "a") == 2
