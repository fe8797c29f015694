"""The nineteen defects of Knative's vpod scheduler, and what this engine does instead: one number, one or more tests.

`tests/conformance/test_vpods_recordings.py` says which recordings show them, and where ours differs from those.
"""

from __future__ import annotations

import msgspec
import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.events import SetsConfigured, TermBegun, VPodSeen, WorkloadGone, WorkloadSeen
from extender.vpods.records import Reason
from extender.vpods.writes.placements import WritePlacements
from tests.support.effort import effort
from tests.unit.vpods.world import SS, World, key


def total(world, name):
    return sum(world.placed(name).values())


def held(world):
    found = {}
    for vpod in world.vpods.values():
        for pod, number in vpod.placements:
            found[pod] = found.get(pod, 0) + number
    return found


def wants(world, **wanted):
    for name, number in wanted.items():
        world.want(name, number)
        world.settle()


def writes(world):
    return [sent for sent in world.sent if isinstance(sent.command, WritePlacements)]


# 1. A new leader ignores what is committed, and places everything anew.


def test_01_a_new_leader_starts_from_what_is_committed():
    world = World(replicas=3, scales=False)
    wants(world, a=10, b=10, c=7)
    before = {name: world.placed(name) for name in "abc"}
    world.start()
    world.want("d", 3)  # fits only where the others leave room
    world.settle()
    assert {name: world.placed(name) for name in "abc"} == before
    assert total(world, "d") == 3


def test_01_a_leader_of_a_second_term_starts_from_what_was_committed_meanwhile():
    world = World(replicas=2, scales=False)
    wants(world, a=2)
    world.demote()
    world.put(msgspec.structs.replace(world.vpods[key("a")], wanted=4, placements=(("ss-0", 2), ("ss-1", 2))))
    while world.watch:
        world.observe()
    world.moves = 0
    world.tell(TermBegun(2))
    world.settle()
    assert (world.moves, world.placed("a")) == (0, {"ss-0": 2, "ss-1": 2})


# 2. A failed read forgets the reservation.


def test_02_a_failed_write_keeps_the_decision():
    world = World(replicas=3, scales=False)
    world.want("a", 4)
    world.observe(9)
    [first] = writes(world)
    world.answer(first, Outcome(OutcomeKind.UNKNOWN))
    world.want("b", 26)  # takes all the room but what a has
    world.settle()
    world.pass_time(5)
    world.settle()
    assert (total(world, "a"), total(world, "b")) == (4, 26)
    assert dict(first.command.placements) == world.placed("a")


def test_02_a_set_that_cannot_be_seen_keeps_its_placements():
    world = World(replicas=3, scales=False)
    wants(world, a=5)
    before, workload, world.moves = world.placed("a"), world.workload, 0
    world.tell(WorkloadGone(SS))
    world.settle()
    assert world.placed("a") == before
    world.tell(WorkloadSeen(msgspec.structs.replace(workload, version=world.next_version())))
    world.settle()
    assert (world.moves, world.placed("a")) == (0, before)


# 3. The autoscaler takes pods that cannot be used for capacity.


@pytest.mark.parametrize("fields", [{"closed": True}, {"ready": False}, {"terminating": True}])
def test_03_each_pod_that_cannot_be_used_is_one_replica_more(fields):
    world = World(replicas=2)
    wants(world, a=20)
    world.change(1, **fields)
    world.settle()
    world.pass_time(61)
    world.settle()
    assert world.workload.replicas == 3
    assert total(world, "a") == 20
    assert "ss-1" not in world.placed("a")


# 4. Two sources say how many pods there are, and can disagree.


def test_04_the_set_alone_says_how_many_pods_there_are():
    world = World(replicas=3, scales=False)
    world.workload = msgspec.structs.replace(world.workload, replicas=2, version=world.next_version())
    world.tell(WorkloadSeen(world.workload))  # its third pod is still there
    wants(world, a=7)
    assert world.placed("a") == {"ss-0": 4, "ss-1": 3}


def test_04_nothing_is_placed_before_the_set_is_seen():
    world = World(replicas=2, scales=False)
    world.tell(WorkloadGone(SS))
    wants(world, a=3)
    assert world.placed("a") == {}
    assert world.engine.vpods[key("a")].reason is Reason.NO_STATEFUL_SET


# 5. minReplicas inflates what vpods want, also those that want nothing, and does not spread.


def test_05_a_least_number_of_replicas_inflates_no_vpod():
    world = World(replicas=3, min_replicas=3)
    wants(world, a=1, b=0)
    assert (total(world, "a"), world.placed("b")) == (1, {})
    wants(world, a=0)
    assert world.placed("a") == {}
    world.pass_time(1000)
    world.settle()
    assert world.workload.replicas == 3


def test_05_a_wanted_spread_is_on_distinct_pods_and_the_autoscaler_knows_it():
    world = World(replicas=1, capacity=10)
    wants(world, a=3)
    assert world.placed("a") == {"ss-0": 3}
    world.want("a", 3, spread=3)
    world.settle()
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}


# 6. Growth in small steps piles up on the lowest pod, and shrinking never evens out.


def test_06_growth_by_steps_of_one_ends_as_even_as_at_once():
    world = World(replicas=3, scales=False)
    for wanted in range(1, 11):
        wants(world, a=wanted)
    assert sorted(world.placed("a").values()) == [3, 3, 4]


def test_06_shrinking_takes_where_there_is_most():
    world = World(replicas=3, scales=False)
    wants(world, a=10)
    for wanted in range(9, 0, -1):
        wants(world, a=wanted)
        numbers = [world.placed("a").get(f"ss-{ordinal}", 0) for ordinal in range(3)]
        assert max(numbers) - min(numbers) <= 1


# 7. What is reserved for a vpod that does not fit as a whole is blocked, and runs nowhere.


def test_07_a_part_that_fits_is_committed():
    world = World(replicas=1, scales=False)
    wants(world, a=14)
    assert world.placed("a") == {"ss-0": 10}
    assert world.engine.vpods[key("a")].reason is Reason.NOT_ENOUGH_ROOM


def test_07_or_it_is_given_back_and_others_have_the_room():
    world = World(replicas=1, scales=False, partial_seconds=30.0)
    wants(world, a=14)
    world.pass_time(31)
    world.settle()
    wants(world, b=9)
    assert (world.placed("a"), world.placed("b")) == ({}, {"ss-0": 9})


# 8. It scales down first and moves later; and triggers put off the scale-down.


def test_08_the_set_shrinks_only_once_its_last_pods_are_empty():
    world = World(replicas=3)
    wants(world, a=30)
    wants(world, a=12)
    world.pass_time(301)
    assert world.engine.sets[world.settings.key].draining == 2
    assert world.workload.replicas == 3  # nothing has been written yet: check_drained of the world sees to the rest
    world.settle()
    assert (world.workload.replicas, world.placed("a")) == (2, {"ss-0": 6, "ss-1": 6})


def test_08_vpods_that_change_all_the_time_do_not_put_off_a_scale_down():
    world = World(replicas=3)
    wants(world, a=12, b=1, never=-1)
    for number in range(70):
        wants(world, b=1 + number % 2)
        world.pass_time(5)
    world.settle()
    assert world.workload.replicas == 2


# 9. The reservation of a vpod that is deleted stays for a while.


def test_09_a_deleted_vpod_gives_its_room_back_at_once():
    world = World(replicas=1, scales=False)
    wants(world, a=10, b=10)
    assert world.placed("b") == {}
    world.delete("a")
    world.settle()
    assert world.placed("b") == {"ss-0": 10}


def test_09_also_while_it_is_written():
    world = World(replicas=1, scales=False)
    world.want("a", 10)
    world.observe(9)
    world.delete("a")
    wants(world, b=10)
    assert world.placed("b") == {"ss-0": 10}


# 10. One bad name of a pod stops everything; pods of other sets are taken for ours.

BAD_NAMES = ["", "ss", "ss-", "ss-x", "ss-01", "ss--1", "ss-2147483648", "ss-99999999999", "other-0", "x-ss-0", "SS-0"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_10_a_bad_name_of_a_pod_concerns_one_vpod_only(name):
    world = World(replicas=2, scales=False)
    record = world.want("bad", 4)
    world.put(msgspec.structs.replace(record, placements=((name, 3), ("ss-1", 1))))
    wants(world, good=4)
    assert world.placed("good") == {"ss-0": 2, "ss-1": 2}
    assert world.placed("bad") == {"ss-0": 2, "ss-1": 2}


# 11. It crashes where an eviction from a pod that is gone fails.


def test_11_a_failed_move_from_a_pod_that_is_gone_is_tried_again():
    world = World(replicas=3, scales=False)
    wants(world, a=6)
    world.scale(2)
    world.observe(9)
    for _ in range(3):
        [move] = writes(world)
        world.answer(move, Outcome(OutcomeKind.REJECTED, "no"))
        world.pass_time(10)
    world.settle()
    assert world.placed("a") == {"ss-0": 3, "ss-1": 3}


# 12. The vpod that comes first pays for all that is too much on a pod.


def test_12_what_is_too_much_is_shared_and_no_more_than_that_is_given_up():
    world = World(replicas=1, capacity=20, scales=False)
    wants(world, a=10, b=10)
    world.over = {"ss-0": 20}
    world.settings = msgspec.structs.replace(world.settings, capacity=10)
    world.tell(SetsConfigured((world.settings,)))
    world.settle()
    assert held(world) == {"ss-0": 10}
    assert min(total(world, "a"), total(world, "b")) >= 4


# 13. Pods that are not ready or about to go, and nodes that are sick, are used.


@pytest.mark.parametrize("fields", [{"ready": False}, {"terminating": True}, {"closed": True}, {"node": ""}])
def test_13_a_pod_that_is_not_well_gets_nothing(fields):
    world = World(replicas=3, scales=False)
    world.change(1, **fields)
    wants(world, a=6)
    assert world.placed("a") == {"ss-0": 3, "ss-2": 3}


def test_13_a_node_that_is_not_well_gets_nothing_and_loses_what_it_has():
    world = World(replicas=3, scales=False)
    wants(world, a=3)
    world.serve("n1", serves=False)
    world.settle()
    wants(world, b=4)
    assert world.placed("a").keys() == world.placed("b").keys() == {"ss-0", "ss-2"}


# 14. Replicas have no upper bound and no steps.


def test_14_replicas_have_an_upper_bound_and_steps():
    world = World(replicas=0, max_replicas=5, scale_up_step=2, scale_down_step=1, scale_down_seconds=0.0)
    wants(world, a=1000)
    assert world.replicas == [2, 4, 5]
    wants(world, a=30)
    world.pass_time(1000)
    world.settle()
    assert world.replicas == [2, 4, 5, 4, 3]


# 15. What fails is tried again each second for ever.


def test_15_a_write_that_is_refused_is_tried_less_and_less_often():
    world = World(scales=False)
    world.want("a", 3)
    world.observe(9)
    times = []
    for _ in range(12):
        [write] = writes(world)
        world.answer(write, Outcome(OutcomeKind.REJECTED, "denied"))
        times.append(world.engine.next_due() - world.now)
        world.pass_time(times[-1])
    assert times == sorted(times)
    assert times[-1] >= 100


def test_15_a_set_that_is_not_there_is_said_once():
    world = World(scales=False)
    world.tell(WorkloadGone(SS))
    wants(world, a=3)
    version = world.version
    for _ in range(100):
        world.pass_time(10)
        world.settle()
    assert world.version == version


# 16. Every decision costs as much as all vpods together.


@pytest.mark.slow
def test_16_a_decision_costs_the_same_beside_many_vpods():
    def cost(vpods):
        world = World(replicas=20, capacity=10_000, scales=False)
        wants(world, **{f"v{number}": 20 for number in range(vpods)})
        record = msgspec.structs.replace(world.vpods[key("v0")], wanted=30, version=world.next_version())
        return effort(lambda: world.engine.handle(VPodSeen(record), world.now))

    assert cost(200) < 1.05 * cost(10)


# 17. No topology, and no order among those that wait.


def test_17_zones_are_even():
    world = World(replicas=6, zones=3, scales=False)
    wants(world, a=9)
    sums = [0, 0, 0]
    for pod, number in world.placed("a").items():
        sums[int(pod[-1]) % 3] += number
    assert sums == [3, 3, 3]


def test_17_room_goes_to_the_vpod_that_has_waited_longest():
    world = World(replicas=1, scales=False)
    wants(world, a=10, first=8, second=8)
    world.delete("a")
    world.settle()
    assert (total(world, "first"), total(world, "second")) == (8, 2)


# 18. Sums wrap around at 32 bits; capacity 0 and negative numbers are not refused.


@pytest.mark.parametrize("wanted", [-1, -(2**31), 2**31, 2**63, 10**30])
def test_18_a_number_out_of_bounds_is_said_and_concerns_one_vpod_only(wanted):
    world = World(replicas=2, scales=False)
    wants(world, bad=wanted, good=2)
    assert world.engine.vpods[key("bad")].reason is Reason.BAD_NUMBER
    assert (world.placed("bad"), total(world, "good")) == ({}, 2)


def test_18_sums_do_not_wrap_around():
    world = World(replicas=1, max_replicas=3)
    wants(world, a=2**31 - 1, b=2**31 - 1)
    assert world.workload.replicas == 3
    assert sum(held(world).values()) == 30


# 19. A vpod that is being deleted still counts as wanted.


def test_19_a_vpod_that_is_being_deleted_wants_nothing_and_keeps_its_room_until_it_is_gone():
    world = World(replicas=2)
    wants(world, a=10, b=10)
    world.put(msgspec.structs.replace(world.vpods[key("a")], deleting=True))
    world.settle()
    wants(world, b=11)
    assert (total(world, "a"), total(world, "b"), world.workload.replicas) == (10, 10, 2)
    world.delete("a")
    world.settle()
    assert total(world, "b") == 11
