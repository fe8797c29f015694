"""Make before break: a vreplica that moves is on both pods for a while."""

import msgspec
import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.events import TermBegun
from extender.vpods.records import Reason
from extender.vpods.writes.placements import WritePlacements
from tests.unit.vpods.world import World, key


def a_world(**settings):
    world = World(**{"scales": False, "overlap_seconds": 10.0} | settings)
    world.want("a", 6)
    world.settle()
    assert world.placed("a") == {"ss-0": 2, "ss-1": 2, "ss-2": 2}
    return world


def test_new_and_old_places_are_written_together_and_then_the_old_ones_go():
    world = a_world()
    world.serve("n1", serves=False)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-1": 2, "ss-2": 3}
    assert world.vpods[key("a")].reason == Reason.MOVING
    assert world.vpods[key("a")].condition == "True"

    world.pass_time(9)
    assert world.placed("a")["ss-1"] == 2
    world.pass_time(2)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}
    assert world.vpods[key("a")].reason == Reason.PLACED


def test_what_is_on_two_pods_counts_once():
    world = a_world()
    world.serve("n1", serves=False)
    world.observe()
    (write,) = (sent.command for sent in world.sent if isinstance(sent.command, WritePlacements))
    assert sum(number for _, number in write.placements) == 8
    assert write.scheduled == 6


def test_nothing_stays_on_a_pod_that_is_lost():
    world = a_world()
    world.change(1, ready=False)
    world.settle()
    world.pass_time(61)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_what_is_wanted_no_more_goes_at_once():
    world = a_world()
    world.want("a", 3)
    world.settle()
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}


def test_growth_during_a_move_does_not_wait():
    world = a_world()
    world.serve("n1", serves=False)
    world.settle()
    world.want("a", 10)
    world.settle()
    assert (world.placed("a")["ss-0"], world.placed("a")["ss-2"]) == (5, 5)
    world.pass_time(20)
    world.settle()
    assert world.placed("a") == {"ss-0": 5, "ss-2": 5}


def test_a_drain_waits_for_the_overlap():
    world = World(replicas=3, overlap_seconds=10.0)
    world.want("a", 30)
    world.settle()
    world.want("a", 15)
    world.settle()
    world.pass_time(301)
    world.settle()
    assert world.workload.replicas == 3
    assert "ss-2" in world.placed("a")
    world.pass_time(11)
    world.settle()
    assert world.workload.replicas == 2
    assert sum(world.placed("a").values()) == 15


def test_the_next_round_of_moves_waits_for_the_overlap():
    world = World(replicas=2, scales=False, max_moves=2, capacity=100, overlap_seconds=10.0)
    world.want("a", 12)
    world.settle()
    world.scale(3)
    world.settle()
    assert world.placed("a") == {"ss-0": 6, "ss-1": 6, "ss-2": 2}
    world.pass_time(11)
    world.settle()
    assert sum(world.placed("a").values()) == 14
    world.pass_time(11)
    world.settle()
    assert world.placed("a") == {"ss-0": 4, "ss-1": 4, "ss-2": 4}


def test_another_leader_goes_on_with_the_overlap():
    world = a_world()
    world.serve("n1", serves=False)
    world.settle()
    world.start()
    world.settle()
    assert sum(world.placed("a").values()) == 8
    world.demote()
    world.tell(TermBegun(2))
    world.settle()
    assert sum(world.placed("a").values()) == 8
    world.pass_time(11)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_a_move_holds_room_on_both_pods():
    world = World(replicas=2, scales=False, capacity=4, overlap_seconds=10.0)
    world.want("a", 2)
    world.settle()
    world.serve("n0", serves=False)
    world.settle()
    world.serve("n0", serves=True)
    world.settle()
    world.want("b", 8)
    world.settle()  # the world checks that no pod holds more than it can
    world.pass_time(60)
    world.settle()
    assert sum(world.placed("b").values()) == 6


def test_without_the_setting_a_move_is_one_write():
    world = a_world(overlap_seconds=0.0)
    world.serve("n1", serves=False)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_a_status_with_more_than_is_wanted_is_cut_after_a_while():
    world = World(scales=False, overlap_seconds=10.0)
    world.put(msgspec.structs.replace(world.want("a", 2), placements=(("ss-0", 2), ("ss-1", 1))))
    world.settle()
    world.pass_time(11)
    world.settle()
    assert sum(world.placed("a").values()) == 2


@pytest.mark.parametrize("change", [{"overlap_seconds": 0.0}, {"capacity": 3}, {"max_moves": 1}])
def test_a_write_whose_outcome_is_unknown_is_sent_again_as_it_was_whatever_the_settings_say_now(change):
    world = a_world()
    world.serve("n1", serves=False)
    world.observe()
    (first,) = world.sent
    world.answer(first, Outcome(OutcomeKind.UNKNOWN))
    world.configure(**change)
    world.pass_time(2)
    (again,) = world.sent
    assert again.command == first.command
    world.settle()
    world.pass_time(11)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}
