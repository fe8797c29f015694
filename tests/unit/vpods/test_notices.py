"""What people are told: once for each change, and by the leader only."""

import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.vpods.world import SET, World, key


def told(world):
    found = [(notice.reason, notice.message) for notice in world.notices]
    world.notices.clear()
    return found


def reasons(world):
    return [reason for reason, _ in told(world)]


def test_a_vpod_that_is_placed_and_one_that_lacks_room():
    world = World(replicas=1, scales=False)
    world.want("a", 4)
    world.settle()
    assert told(world) == [("Placed", "4 vreplicas on 1 pods")]
    world.want("b", 9)
    world.settle()
    assert told(world) == [("NotEnoughRoom", "3 of 9 vreplicas find no room on the pods of ns/fleet")]
    world.pass_time(10_000)
    world.settle()
    assert told(world) == []


def test_somebody_elses_resource_is_told_of_though_its_status_has_no_reason():
    world = World(replicas=1, scales=False)
    world.want("x", 12)
    world.settle()
    (notice,) = world.notices
    assert (notice.about, notice.reason, notice.is_warning) == (key("x", source="others"), "NotEnoughRoom", True)


def test_a_set_that_grows_is_drained_and_shrinks():
    world = World(replicas=0)
    world.want("a", 25)
    world.settle()
    assert ("Scaled", "ss: from 0 to 3 replicas for 25 vreplicas") in told(world)
    world.want("a", 5)
    world.settle()
    world.pass_time(301)
    world.settle()
    found = told(world)
    assert ("Draining", "ss-1 to ss-2 are emptied: 1 replica is enough") in found
    assert ("Scaled", "ss: from 3 to 1 replicas for 5 vreplicas") in found


def test_a_drain_that_stops():
    world = World(replicas=3)
    world.want("a", 15)
    world.settle()
    world.pass_time(301)
    told(world)
    world.want("a", 25)
    world.settle()
    assert ("DrainStopped", "more vreplicas are wanted") in told(world)


def test_somebody_else_who_scales_is_told_of_and_counted():
    world = World(replicas=2, scales=False)
    world.settle()
    world.scale(5)
    world.settle()
    assert told(world) == [("ForeignScale", "ss: somebody else changed replicas from 2 to 5")]
    assert world.engine.state.foreign_scales == 1


def test_a_scale_that_fails_is_told_once_and_tried_less_and_less_often():
    world = World(replicas=0)
    world.want("a", 5)
    world.observe(9)
    times = []
    for _ in range(12):
        (sent,) = [each for each in world.sent if hasattr(each.command, "replicas")]
        world.answer(sent, Outcome(OutcomeKind.REJECTED, "denied by a webhook"))
        times.append(world.engine.next_due() - world.now)
        world.pass_time(times[-1])
    assert times[:4] == [1, 2, 4, 8]
    assert times[-1] == 300
    assert reasons(world).count("ScaleFailed") == 1


def test_bad_placements_are_told_once():
    world = World(scales=False)
    world.want("a", 1, placements=(("other-0", 1),))
    world.settle()
    assert reasons(world).count("BadPlacements") == 1


def test_a_follower_tells_nothing():
    world = World(leads=False)
    world.want("a", 99)
    world.settle()
    world.scale(1)
    world.settle()
    assert told(world) == []


def test_a_restart_tells_nothing_again():
    world = World(replicas=1, scales=False)
    world.want("a", 12)
    world.settle()
    told(world)
    world.start()
    world.settle()
    assert told(world) == []


@pytest.mark.parametrize(("fault", "text"), [("raises", "it raised KeyError: 'mine'"), ("lies", "that are wanted")])
def test_a_policy_that_fails_is_told_of_and_the_rest_goes_on(fault, text):
    world = World(scales=False, policy="mine")
    world.want("a", 3)
    world.settle()
    told(world)
    world.policy_fault = fault
    world.want("a", 5)
    world.want("b", 5)
    world.settle()
    found = told(world)
    assert [reason for reason, message in found if text in message] == ["PolicyFailed"] * 3  # the set, and both vpods
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}
    assert world.vpods[key("b")].reason == "PolicyFailed"
    assert world.engine.sets[SET].policy_failures >= 2

    world.pass_time(1000)
    assert told(world) == []
    world.policy_fault = ""
    world.pass_time(400)
    world.settle()
    assert sum(world.placed("a").values()) == sum(world.placed("b").values()) == 5


def test_a_policy_that_is_not_there_keeps_all_where_it_is():
    world = World(scales=False)
    world.want("a", 3)
    world.settle()
    world.configure(policy="balancd")
    world.want("a", 4)
    world.settle()
    assert world.placed("a") == {"ss-0": 1, "ss-1": 1, "ss-2": 1}
    assert "did you mean balanced" in world.engine.vpods[key("a")].message
    world.configure(policy="balanced")
    world.pass_time(60)
    world.settle()
    assert sum(world.placed("a").values()) == 4
