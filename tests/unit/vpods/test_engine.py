"""The engine of vpods, one behaviour a test."""

from collections import Counter

import msgspec
import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.events import SetsConfigured, TermBegun, WorkloadSeen
from extender.vpods.records import ObjectKey, Reason
from extender.vpods.writes.placements import WritePlacements
from tests.unit.vpods.world import World, key


def reason(world, name):
    return world.engine.vpods[key(name)].reason


def test_a_vpod_is_spread_over_the_pods():
    world = World(replicas=3, scales=False)
    world.want("a", 4)
    world.settle()

    assert world.placed("a") == {"ss-0": 2, "ss-1": 1, "ss-2": 1}
    assert reason(world, "a") is Reason.PLACED


def test_growing_in_steps_of_one_stays_even():
    world = World(replicas=3, scales=False)
    for wanted in range(1, 11):
        world.want("a", wanted)
        world.settle()
    assert sorted(world.placed("a").values()) == [3, 3, 4]


def test_a_restart_moves_nothing():
    world = World(replicas=3)
    for name in "abcdef":
        world.want(name, 4)
        world.settle()
    world.moves = 0
    world.start()
    world.settle()
    world.pass_time(1000)
    world.settle()
    assert world.moves == 0


def test_a_restart_while_a_pod_restarts_moves_nothing():
    world = World(replicas=3, scales=False)
    world.want("a", 6)
    world.settle()
    world.change(1, ready=False)
    world.moves = 0
    world.start()
    world.settle()
    world.change(1, ready=True)
    world.settle()
    world.pass_time(1000)
    assert world.moves == 0


def test_another_leader_moves_nothing():
    world = World(replicas=3)
    for name in "abc":
        world.want(name, 5)
        world.settle()
    world.moves = 0
    world.demote()
    world.settle()
    world.tell(TermBegun(2))
    world.settle()
    assert world.moves == 0


def test_a_follower_writes_nothing():
    world = World(leads=False)
    world.want("a", 3)
    world.settle()
    assert world.placed("a") == {}
    assert "leads" in world.engine.missing()


def test_the_set_grows_with_what_is_wanted():
    world = World(replicas=0)
    world.want("a", 25)
    world.settle()

    assert world.workload.replicas == 3
    assert sum(world.placed("a").values()) == 25


def test_what_is_coming_is_not_ordered_twice():
    world = World(replicas=0)
    world.control = lambda: None  # no pod starts
    world.want("a", 25)
    world.settle()
    world.pass_time(1000)
    world.settle()
    assert world.replicas == [3]


def test_a_pod_that_cannot_be_used_is_no_capacity():
    world = World(replicas=2)
    world.change(0, closed=True)
    world.want("a", 15)
    world.settle()

    assert world.workload.replicas == 3
    assert world.placed("a") == {"ss-1": 8, "ss-2": 7}


def test_a_set_grows_no_further_than_its_bound():
    world = World(replicas=1, max_replicas=2)
    world.want("a", 25)
    world.settle()

    assert world.workload.replicas == 2
    assert sum(world.placed("a").values()) == 20
    assert reason(world, "a") is Reason.NOT_ENOUGH_ROOM


def test_a_set_is_drained_before_it_shrinks():
    world = World(replicas=3)
    world.want("a", 30)
    world.settle()
    world.want("a", 15)
    world.settle()
    world.pass_time(299)
    world.settle()
    assert world.workload.replicas == 3

    world.pass_time(2)
    world.settle()
    assert world.workload.replicas == 2
    assert world.placed("a") == {"ss-0": 8, "ss-1": 7}


def test_a_set_whose_vpods_want_nothing_has_no_pods():
    world = World(replicas=2)
    world.want("a", 5)
    world.settle()
    world.want("a", 0)
    world.settle()
    world.pass_time(301)
    world.settle()
    assert world.workload.replicas == 0
    assert world.placed("a") == {}


def test_draining_ends_when_more_is_wanted():
    world = World(replicas=3)
    world.want("a", 15)
    world.settle()
    world.pass_time(301)
    assert world.engine.sets[world.settings.key].draining == 2
    world.want("a", 25)
    world.settle()
    world.pass_time(1000)
    world.settle()
    assert world.workload.replicas == 3
    assert world.engine.sets[world.settings.key].draining is None


def test_a_restart_of_a_pod_moves_nothing():
    world = World(replicas=3, scales=False)
    world.want("a", 6)
    world.settle()
    world.moves = 0
    world.lose(1)
    world.settle()
    world.pass_time(30)
    world.settle()
    world.control()
    world.settle()
    world.pass_time(1000)
    world.settle()
    assert world.moves == 0


def test_a_pod_that_stays_away_loses_its_vreplicas():
    world = World(replicas=3, scales=False)
    world.want("a", 6)
    world.settle()
    world.change(1, ready=False)
    world.settle()
    world.pass_time(61)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_a_pod_that_is_away_gets_nothing_new():
    world = World(replicas=2, scales=False)
    world.want("a", 2)
    world.settle()
    world.change(1, ready=False)
    world.want("a", 6)
    world.settle()
    assert world.placed("a") == {"ss-0": 5, "ss-1": 1}


def test_vreplicas_leave_a_cordoned_node_at_once():
    world = World(replicas=3, scales=False)
    world.want("a", 6)
    world.settle()
    world.serve("n1", serves=False)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_moves_for_evenness_come_in_rounds():
    world = World(replicas=2, scales=False, max_moves=2, capacity=100)
    world.want("a", 12)
    world.settle()
    world.scale(3)
    world.settle()  # each round moves two, and the next one waits until that is seen
    assert world.placed("a") == {"ss-0": 4, "ss-1": 4, "ss-2": 4}
    assert world.moves == 4


def test_no_round_begins_while_one_is_open():
    world = World(replicas=1, scales=False, max_moves=3, capacity=100)
    for name in "ab":
        world.want(name, 6)
        world.settle()
    world.scale(2)
    while world.watch:
        world.observe()
    writes = [sent.command for sent in world.sent]
    assert sum(dict(write.placements).get("ss-1", 0) for write in writes) == 3

    world.settle()
    assert world.placed("a") == world.placed("b") == {"ss-0": 3, "ss-1": 3}


def test_room_goes_to_the_vpod_that_waits_longest():
    world = World(replicas=1, scales=False)
    for name, wanted in (("a", 10), ("b", 6), ("c", 1)):
        world.want(name, wanted)
        world.settle()
    world.delete("a")
    world.settle()
    assert (sum(world.placed("b").values()), sum(world.placed("c").values())) == (6, 1)


def test_a_part_is_given_back_after_a_time():
    world = World(replicas=1, scales=False, partial_seconds=30.0)
    world.want("a", 25)
    world.settle()
    assert world.placed("a") == {"ss-0": 10}
    world.pass_time(31)
    world.settle()
    assert world.placed("a") == {}
    assert reason(world, "a") is Reason.NOT_ENOUGH_ROOM


# -- writes that fail


def only_write(world):
    writes = [sent for sent in world.sent if isinstance(sent.command, WritePlacements)]
    assert len(writes) == 1
    return writes[0]


def test_a_write_whose_outcome_is_unknown_is_sent_again():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    first = only_write(world)
    world.answer(first, Outcome(OutcomeKind.UNKNOWN))
    world.pass_time(2)
    assert only_write(world).command == first.command
    world.settle()
    assert sum(world.placed("a").values()) == 3


def test_a_late_write_changes_nothing():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    first = only_write(world)
    world.answer(first, Outcome(OutcomeKind.UNKNOWN))
    world.pass_time(2)
    again = only_write(world)
    world.arrive(first)
    world.arrive(again)
    assert again.outcome.kind is OutcomeKind.LOST
    world.settle()
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}


def test_a_lost_write_is_decided_anew_once_the_change_is_seen():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    first = only_write(world)
    world.want("a", 5)
    world.arrive(first)
    world.answer(first)
    world.settle()
    assert sum(world.placed("a").values()) == 5


def test_a_vpod_that_no_watch_shows_is_read():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    first = only_write(world)
    world.arrive(first)
    world.watch.clear()  # the event is lost
    world.answer(first)
    world.pass_time(6)
    world.settle()
    assert world.engine.vpods[key("a")].hold is None


def test_a_refused_write_is_repeated_less_and_less_often():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    times = []
    for _ in range(12):
        world.answer(only_write(world), Outcome(OutcomeKind.REJECTED, "denied"))
        times.append(world.engine.next_due() - world.now)
        world.pass_time(times[-1])
    assert times[:4] == [1, 2, 4, 8]
    assert times[-1] == 300


def test_a_scale_that_fails_is_tried_again():
    world = World(replicas=0)
    world.want("a", 5)
    world.observe(9)
    world.answer(world.sent[0], Outcome(OutcomeKind.UNKNOWN))
    world.pass_time(2)
    world.settle()
    assert world.workload.replicas == 1


# -- what is wrong


def test_a_vpod_without_a_set_says_so_once():
    world = World(scales=False)
    world.want("a", 3, set=ObjectKey("ns", "other"))
    world.settle()
    assert world.vpods[key("a")].reason == "UnknownSet"
    assert world.engine.vpods[key("a")].message == "spec.set: there is no VPodSet ns/other"
    version = world.version
    world.pass_time(1000)
    world.settle()
    assert world.version == version


def test_a_namespace_must_be_admitted():
    world = World()
    record = msgspec.structs.replace(world.want("a", 3), key=key("b", "elsewhere"), uid="b")
    world.put(record)
    world.settle()
    assert world.vpods[key("b", "elsewhere")].reason == "NotAllowed"

    world.settings = msgspec.structs.replace(world.settings, namespaces=("elsewhere",))
    world.tell(SetsConfigured((world.settings,)))
    world.settle()
    assert world.vpods[key("b", "elsewhere")].reason == "Placed"


@pytest.mark.parametrize("wanted", [-1, 2**31, 2**70])
def test_a_bad_number_is_named_and_moves_nothing(wanted):
    world = World(scales=False)
    world.want("a", 3)
    world.settle()
    world.want("a", wanted)
    world.settle()
    assert world.vpods[key("a")].reason == "BadNumber"
    assert sum(world.placed("a").values()) == 3
    assert str(wanted) in world.engine.vpods[key("a")].message


def test_bad_placements_are_named_and_the_others_stay():
    world = World(scales=False)
    placements = (("ss-1", 2), ("other-0", 1), ("ss", 1), ("ss-0", -4), ("ss-00", 1), ("ss-99999999999", 1))
    world.want("a", 2, placements=placements)
    world.settle()

    assert sum(world.placed("a").values()) == 2
    assert world.placed("a").keys() <= {"ss-0", "ss-1", "ss-2"}


def test_a_vpod_that_is_being_deleted_is_left_alone():
    world = World(scales=False)
    world.want("a", 3)
    world.settle()
    world.want("a", 3, deleting=True)
    world.serve("n0", serves=False)
    world.settle()
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}


def test_many_vpods_are_decided_a_number_at_a_time():
    world = World(replicas=3, capacity=1000, scales=False)
    for number in range(200):
        world.want(f"v{number}", 1)
    world.start()
    assert len(world.sent) == 64
    assert world.engine.next_due() == world.now
    world.settle()
    assert all(vpod.placements for vpod in world.vpods.values())


def test_room_that_the_first_vpod_in_line_cannot_use_goes_to_the_next():
    world = World(replicas=2, capacity=3, scales=False)
    for name, wanted, limit in (("a", 4, 0), ("first", 4, 1), ("second", 3, 0)):
        world.want(name, wanted, max_per_pod=limit)
        world.settle()
    assert world.placed("second") == {}
    world.delete("a")
    world.settle()
    assert (sum(world.placed("first").values()), sum(world.placed("second").values())) == (2, 3)


def test_a_vpod_in_line_whose_number_is_wrong_blocks_no_other():
    world = World(replicas=1, scales=False)
    for name in ("a", "first", "second"):
        world.want(name, 10)
        world.settle()
    world.want("first", -1)
    world.settle()
    world.delete("a")
    world.settle()
    assert world.placed("second") == {"ss-0": 10}


def test_a_write_that_is_lost_to_nobody_is_sent_again():
    """The API server, or something before it, answers 409 although the vpod is as it was."""
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    first = only_write(world)
    world.answer(first, Outcome(OutcomeKind.LOST))
    world.pass_time(5)  # no watch has shown a change, so it is read
    world.arrive(world.sent[0])
    world.answer(world.sent[0])
    world.pass_time(1)
    assert only_write(world).command == first.command
    world.settle()
    assert sum(world.placed("a").values()) == 3


def test_a_follower_says_what_the_leader_wrote():
    world = World(replicas=1, scales=False)
    world.want("a", 25)
    world.settle()
    world.start(leads=False)
    assert reason(world, "a") is Reason.NOT_ENOUGH_ROOM
    world.put(msgspec.structs.replace(world.vpods[key("a")], reason="Placed"))
    world.observe()
    assert reason(world, "a") is Reason.PLACED
    world.put(msgspec.structs.replace(world.vpods[key("a")], reason="Whatever"))
    world.observe()
    assert reason(world, "a") is Reason.PLACED


def held(world: World) -> dict[str, int]:
    """Vreplicas by pod."""
    found: Counter[str] = Counter()
    for record in world.vpods.values():
        found.update(dict(record.placements))
    return dict(found)


@pytest.mark.parametrize("is_cordoned", [True, False])
def test_vreplicas_that_find_no_room_elsewhere_stay_on_a_closed_pod(is_cordoned):
    world = World(replicas=2, max_replicas=2)
    for name in ("a", "b"):
        world.want(name, 8)
        world.settle()
    assert held(world) == {"ss-0": 8, "ss-1": 8}
    if is_cordoned:
        world.serve("n1", serves=False)
    else:
        world.change(1, closed=True)
    world.settle()
    assert held(world) == {"ss-0": 10, "ss-1": 6}  # what has room has left
    assert reason(world, "b") is Reason.MOVING

    world.want("c", 3)
    world.settle()
    assert not world.placed("c")
    assert reason(world, "c") is Reason.NOT_ENOUGH_ROOM
    world.want("a", 6)
    world.settle()
    assert held(world) == {"ss-0": 10, "ss-1": 4}


def test_vreplicas_leave_a_closed_pod_as_soon_as_there_is_room():
    world = World(replicas=2)
    world.want("a", 20)
    world.settle()
    world.serve("n1", serves=False)
    world.settle()
    assert world.workload.replicas == 3
    assert world.placed("a") == {"ss-0": 10, "ss-2": 10}
    assert reason(world, "a") is Reason.PLACED


def test_vreplicas_without_room_stay_while_the_pods_of_a_cordoned_node_end():
    """As at every restart, for as long as a pod rests."""
    world = World(replicas=2, max_replicas=2)
    world.want("a", 20)
    world.settle()
    world.serve("n1", serves=False)
    world.settle()
    world.change(1, terminating=True)
    world.settle()
    assert world.placed("a") == {"ss-0": 10, "ss-1": 10}
    world.pass_time(61)
    world.settle()
    assert world.placed("a") == {"ss-0": 10}
    assert reason(world, "a") is Reason.NOT_ENOUGH_ROOM


def test_a_vpod_that_shrinks_takes_away_first_what_is_on_a_closed_pod():
    world = World(replicas=2, max_replicas=2)
    world.want("a", 20)
    world.settle()
    world.change(1, closed=True)
    world.want("a", 13)
    world.settle()
    assert world.placed("a") == {"ss-0": 10, "ss-1": 3}


def test_a_stateful_set_whose_ordinals_start_elsewhere_is_said_and_left_alone():
    world = World(replicas=3)
    world.workload = msgspec.structs.replace(world.workload, version=world.next_version(), first=5)
    world.watch.append(WorkloadSeen(world.workload))
    world.want("a", 50)
    world.settle()
    assert reason(world, "a") is Reason.NO_STATEFUL_SET
    assert "spec.ordinals.start 5; expected 0" in world.engine.vpods[key("a")].message
    assert not world.placed("a")
    assert world.workload.replicas == 3

    world.workload = msgspec.structs.replace(world.workload, version=world.next_version(), first=0)
    world.watch.append(WorkloadSeen(world.workload))
    world.settle()
    assert sum(world.placed("a").values()) == 50
    assert world.engine.state.foreign_scales == 0
