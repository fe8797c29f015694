"""Preemption: who has to go, who is spared, what is kept for the preemptor."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from algorithm.interface import Bind, Phase, Preempt, Victim, Wait
from algorithm.reasons import Code
from tests.support.packing.harness import GPU, PREEMPTING, PackingHarness, member, node, pod, shown


def uids(answer):
    assert isinstance(answer, Preempt), answer
    return [victim.uid for victim in answer.victims]


def test_a_pod_of_lower_priority_has_to_go():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    answer = world.schedule(high, phase=PREEMPTING)
    assert answer.victims == (Victim("a", "u-low"),)
    assert answer.reason.text == "pods of lower priority would have to go: ns/low"


def test_filtering_announces_whom_preempting_would_evict():
    world = PackingHarness(node("a", gpu=4))
    for i in range(4):
        world.bound(pod(f"low{i}", gpu=1), "a")
    high = pod("high", gpu=4, priority=1)
    world.submit(high)
    answer = world.schedule(high)
    assert answer == world.schedule(high, phase=PREEMPTING)
    assert answer.reason.text == "pods of lower priority would have to go: ns/low0, ns/low1, ns/low2 and others"


def test_a_pod_that_fits_is_bound_also_when_preempting():
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=PREEMPTING) == Bind("b")


def test_pods_of_the_same_priority_stay():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("same", gpu=1, priority=1), "a")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=PREEMPTING).reason.code is Code.PRIORITY_TOO_LOW
    assert world.schedule(high).reason.code is Code.INSUFFICIENT


def test_a_pod_that_never_fits_evicts_nobody():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=PREEMPTING).reason.code is Code.NODE_LACKS_RESOURCE


def test_a_pod_that_may_not_preempt_waits():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    high = pod("high", gpu=1, priority=1, may_preempt=False)
    world.submit(high)
    for phase in ("Filtering", "Preempting"):
        assert world.schedule(high, phase=phase).reason.code is Code.INSUFFICIENT


def test_victims_run_on_suggested_nodes_only():
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    world.bound(pod("middle", gpu=1, priority=1), "b")
    high = pod("high", gpu=1, priority=2)
    world.submit(high)
    assert uids(world.schedule(high, phase=PREEMPTING)) == ["u-low"]
    assert uids(world.schedule(high, ["b"], PREEMPTING)) == ["u-middle"]


def test_the_highest_victim_is_as_low_as_possible():
    world = PackingHarness(node("a", gpu=2), node("b", gpu=2))
    world.bound(pod("low0", gpu=1), "b")
    world.bound(pod("low1", gpu=1), "b")
    world.bound(pod("middle", gpu=2, priority=1), "a")
    high = pod("high", gpu=2, priority=2)
    world.submit(high)
    assert uids(world.schedule(high, phase=PREEMPTING)) == ["u-low0", "u-low1"]


def test_a_pod_goes_before_a_member_of_a_gang():
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    world.bound(member("m0", "g", 1, gpu=1), "a")
    world.bound(member("m1", "h", 2, gpu=1), "a")
    world.bound(member("m2", "h", 2, gpu=0), "a")
    world.bound(pod("single", gpu=1), "b")
    high = pod("high", gpu=1, priority=1)
    world.update_node(node("a", gpu=2))
    world.submit(high)
    assert uids(world.schedule(high, ["a"], PREEMPTING)) == ["u-m0"]
    assert uids(world.schedule(high, phase=PREEMPTING)) in (["u-m0"], ["u-single"])


def test_one_gang_goes_whole_before_two_are_broken():
    world = PackingHarness(node("a", gpu=4))
    for name, gang in (("x0", "x"), ("y0", "y"), ("x1", "x"), ("y1", "y")):
        world.bound(member(name, gang, 2, gpu=1), "a")
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    assert uids(world.schedule(high, phase=PREEMPTING)) in (["u-x0", "u-x1"], ["u-y0", "u-y1"])


def test_what_is_left_of_a_broken_gang_goes_first():
    world = PackingHarness(node("a", gpu=2))
    world.bound(member("whole", "a", 1, gpu=1), "a")
    world.bound(member("rest", "z", 2, gpu=1), "a")
    world.bound(member("w1", "w", 2, gpu=0), "a")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    assert len(uids(world.schedule(high, phase=PREEMPTING))) == 1
    world.delete("u-whole")
    world.bound(member("w0", "w", 2, gpu=1), "a")
    assert uids(world.schedule(high, phase=PREEMPTING)) == ["u-rest"]


def test_the_node_with_fewer_victims_is_taken():
    world = PackingHarness(node("a", gpu=2), node("b", gpu=2))
    for i in range(2):
        world.bound(pod(f"s{i}", gpu=1), "a")
    world.bound(pod("large", gpu=2), "b")
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    assert uids(world.schedule(high, phase=PREEMPTING)) == ["u-large"]


# -- what is kept for the preemptor ------------------------------------------------------------------------------


def preempting_world():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    world.start_preempting(high, world.schedule(high, phase=PREEMPTING))
    return world, high


def test_the_room_of_the_victims_is_kept_for_the_preemptor():
    world, high = preempting_world()
    world.delete("u-low")
    equal = pod("equal", gpu=1, priority=1)
    world.submit(equal)
    assert world.schedule(equal).reason.text == "room is held for pod ns/high"
    assert world.place(high) == "a"


def test_a_pod_of_higher_priority_takes_it_all_the_same():
    world, _ = preempting_world()
    world.delete("u-low")
    assert world.place(pod("higher", gpu=1, priority=2)) == "a"


def test_the_room_is_free_when_the_pod_no_longer_preempts():
    world, high = preempting_world()
    world.delete("u-low")
    world.stop_preempting(high.uid)
    assert world.place(pod("equal", gpu=1, priority=1)) == "a"


def test_the_preemptor_waits_for_its_victims():
    world, high = preempting_world()
    answer = world.schedule(high)
    assert answer.reason.text == "waits until preempted pods are gone: ns/low"
    assert answer.nodes["a"].text == "insufficient example.com/gpu"


def test_the_plan_is_made_anew_at_each_call():
    world = PackingHarness(node("a", gpu=2))
    world.bound(pod("low0", gpu=1), "a")
    world.bound(pod("low1", gpu=1), "a")
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    assert world.start_preempting(high, world.schedule(high, phase=PREEMPTING)) == ("u-low0", "u-low1")
    world.delete("u-low0")
    assert world.start_preempting(high, world.schedule(high, phase=PREEMPTING)) == ("u-low1",)
    world.delete("u-low1")
    assert world.schedule(high, phase=PREEMPTING) == Bind("a")


def test_the_second_preemptor_takes_other_victims():
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    world.bound(pod("low0", gpu=1), "a")
    world.bound(pod("low1", gpu=1), "b")
    first, second, third = (pod(f"high{i}", gpu=1, priority=1) for i in range(3))
    world.submit(first, second, third)
    assert world.start_preempting(first, world.schedule(first, phase=PREEMPTING)) == ("u-low0",)
    assert world.start_preempting(second, world.schedule(second, phase=PREEMPTING)) == ("u-low1",)
    assert isinstance(world.schedule(third, phase=PREEMPTING), Wait)


def test_what_other_victims_leave_over_is_waited_for_not_evicted_for():
    world = PackingHarness(node("a", gpu=2))
    world.bound(pod("low", gpu=2), "a")
    first, second = (pod(f"high{i}", gpu=1, priority=1) for i in range(2))
    world.submit(first, second)
    world.start_preempting(first, world.schedule(first, phase=PREEMPTING))
    assert uids(world.schedule(second, phase=PREEMPTING)) == []
    assert isinstance(world.schedule(second), Wait)


# -- gangs -------------------------------------------------------------------------------------------------------


def gang_world(nodes=3, members=3):
    world = PackingHarness(*(node(f"n{i}", gpu=4) for i in range(nodes)))
    for i in range(nodes):
        world.bound(pod(f"low{i}", gpu=4), f"n{i}")
    gang = [member(f"m{i}", "g", members, gpu=4, priority=1) for i in range(members)]
    world.submit(*gang)
    return world, gang


def test_every_member_is_told_the_victims_of_its_own_seat():
    world, gang = gang_world()
    victims = [world.start_preempting(each, world.schedule(each, phase=PREEMPTING)) for each in gang]
    assert sorted(victims) == [("u-low0",), ("u-low1",), ("u-low2",)]
    for i in range(3):
        world.delete(f"u-low{i}")
    for each in gang:
        seat = world.algorithm.inspect()["preempting"][str(each.key)]["node"]
        assert world.place(each, [seat]) == seat


def test_nobody_is_evicted_if_the_gang_does_not_fit_all_the_same():
    world, gang = gang_world(nodes=2)
    for each in gang:
        for phase in ("Filtering", "Preempting"):
            assert world.schedule(each, phase=phase).reason.code is Code.GANG_DOES_NOT_FIT


@pytest.mark.parametrize("phase", [Phase.FILTERING, PREEMPTING, Phase.EVICTING])
def test_nobody_is_evicted_for_a_gang_of_which_one_member_must_not_preempt_and_has_no_room(phase):
    world, gang = gang_world(members=2)
    world.replace(msgspec.structs.replace(gang[1], may_preempt=False))
    for each in gang:
        assert world.schedule(world.waiting[each.uid], phase=phase).reason.code is Code.GANG_DOES_NOT_FIT


def test_a_member_that_must_not_preempt_gets_the_free_node_and_the_others_evict():
    world, gang = gang_world()
    world.replace(msgspec.structs.replace(gang[1], may_preempt=False))
    world.delete("u-low1")
    for each in (gang[0], gang[2]):
        assert len(world.start_preempting(each, world.schedule(each, phase=PREEMPTING))) == 1
    world.delete("u-low0")
    world.delete("u-low2")
    assert all(isinstance(world.schedule(world.waiting[each.uid]), Bind) for each in gang)


def test_only_priority_keeps_a_gang_out():
    world, gang = gang_world()
    world.delete("u-low2")
    world.bound(pod("high", gpu=4, priority=1), "n2")
    assert world.schedule(gang[0], phase=PREEMPTING).reason.code is Code.PRIORITY_TOO_LOW


def test_members_for_whom_enough_is_free_elsewhere_evict_nobody():
    world, gang = gang_world()
    world.delete("u-low2")
    occupied = ["n0", "n1"]
    victims = [world.start_preempting(each, world.schedule(each, occupied, PREEMPTING)) for each in gang]
    assert victims == [("u-low0",), ("u-low1",), ()]
    assert world.schedule(gang[2], occupied, PREEMPTING).reason.text.startswith("waits until preempted pods are gone")


def test_a_member_with_nobody_to_evict_keeps_a_free_place():
    world, gang = gang_world()
    world.delete("u-low2")
    for each in gang:
        world.start_preempting(each, world.schedule(each, ["n0", "n1"], PREEMPTING))
    other = pod("other", gpu=4)
    world.submit(other)
    assert world.schedule(other).nodes["n2"].text == "room is held for gang ns/g"
    for name in ("low0", "low1"):
        world.delete(f"u-{name}")
    assert world.place(gang[0], ["n0"]) == "n0"
    assert world.place(gang[2]) == "n2"
    assert world.place(gang[1]) == "n1"


def test_mates_beyond_the_offer_are_not_seated_on_cordoned_nodes():
    world, gang = gang_world()
    world.delete("u-low2")
    world.update_node(node("n2", gpu=4, unschedulable=True))
    assert world.schedule(gang[0], ["n0", "n1"], PREEMPTING).reason.code is Code.GANG_DOES_NOT_FIT
    world.update_node(node("n2", gpu=4))
    assert uids(world.schedule(gang[0], ["n0", "n1"], PREEMPTING)) == ["u-low0"]


def test_a_member_of_a_placed_gang_preempts_for_itself_and_never_its_mates():
    world, gang = gang_world()
    for i in range(3):
        world.delete(f"u-low{i}")
    for each in gang:
        world.place(each)
    late = member("late", "g", 3, gpu=4, priority=2)
    world.submit(late)
    assert world.schedule(late, phase=PREEMPTING).reason.code is Code.INSUFFICIENT
    world.delete("u-m0")
    world.bound(pod("low", gpu=4), "n0")
    assert uids(world.schedule(late, phase=PREEMPTING)) == ["u-low"]


def test_a_seat_that_is_out_of_reach_is_given_up_by_preempting_elsewhere():
    """The hold moves to where the member preempts, and does not come back while it does."""
    world = PackingHarness(*(node(f"n{i}", gpu=4) for i in range(2)))
    gang = [member(f"m{i}", "g", 2, gpu=4, priority=1) for i in range(2)]
    world.submit(*gang)
    world.place(gang[0])
    world.delete_node("n1")
    world.add_node(node("n2", gpu=4))
    world.bound(pod("low", gpu=4), "n2")
    assert world.start_preempting(gang[1], world.schedule(gang[1], phase=PREEMPTING)) == ("u-low",)
    assert shown(world.algorithm)["nodes"]["n2"]["heldFor"] == ["gang ns/g"]
    world.delete("u-low")
    assert world.place(gang[1]) == "n2"


def test_mates_do_not_take_what_is_held_for_a_member_whose_victims_still_run():
    world = PackingHarness(node("a", gpu=4), node("b", gpu=2))
    world.bound(pod("low", gpu=2), "a")
    large = member("large", "g", 2, gpu=4, priority=1)
    small = [member(f"small{i}", "g", 2, gpu=2, priority=1) for i in range(2)]
    world.submit(large, *small)
    assert world.start_preempting(large, world.schedule(large, phase=PREEMPTING)) == ("u-low",)
    assert world.schedule(small[0]).reason.code is Code.GANG_DOES_NOT_FIT
    world.delete("u-low")
    assert world.place(small[0]) == "b"
    assert world.place(large) == "a"


def test_the_preemptor_keeps_its_room_when_its_record_changes():
    world, high = preempting_world()
    world.delete("u-low")
    world.algorithm.delete_unallocated_pod(high)
    world.algorithm.add_unallocated_pod(high)
    equal = pod("equal", gpu=1, priority=1)
    world.submit(equal)
    assert world.schedule(equal).reason.text == "room is held for pod ns/high"


# -- against brute force -----------------------------------------------------------------------------------------


def random_cluster(seed):
    rng = random.Random(seed)
    world = PackingHarness(*(node(f"n{i}", gpu=4, cpu=4, pods=rng.choice([3, 6])) for i in range(3)))
    for i in range(rng.randrange(3, 12)):
        wanted = {"gpu": rng.randrange(3), "cpu": rng.randrange(3), "priority": rng.randrange(3)}
        gang = {0: ("x", 2), 1: ("y", 3)}.get(rng.randrange(4))
        one = member(f"p{i}", *gang, **wanted) if gang else pod(f"p{i}", **wanted)
        world.submit(one)
        fitting = [name for name in world.nodes if room_without(world, name, one, set())]
        world.delete(one.uid)
        if fitting:
            world.bound(one, rng.choice(fitting))
    high = pod("high", gpu=rng.randrange(1, 5), cpu=rng.randrange(4), priority=rng.randrange(1, 4))
    world.submit(high)
    return world, high


def room_without(world, name, wanted, gone):
    here = [p for p in world.allocated.values() if p.node_name == name and p.uid not in gone]
    free = dict(world.nodes[name].allocatable)
    for one in here:
        for resource, amount in one.requests:
            free[resource] -= amount
    asked = dict(wanted.requests)
    return len(here) < free["pods"] and all(free[r] >= asked.get(r, 0) for r in ("cpu", GPU))


def subsets(world, name, below):
    here = [p for p in world.allocated.values() if p.node_name == name and p.priority < below]
    return itertools.chain.from_iterable(itertools.combinations(here, n) for n in range(len(here) + 1))


@pytest.mark.parametrize("first", range(0, 150, 15))
def test_victims_are_sufficient_minimal_and_of_the_least_possible_priority(first):
    for seed in range(first, first + 15):
        check_victims(seed)


def check_victims(seed):
    world, high = random_cluster(seed)
    answer = world.schedule(high, phase=PREEMPTING)
    ways = [
        way
        for name in world.nodes
        for way in subsets(world, name, high.priority)
        if room_without(world, name, high, {p.uid for p in way})
    ]
    if not ways or not all(ways):
        assert isinstance(answer, Bind if ways else Wait)
        return
    gone = set(uids(answer))
    (name,) = {victim.node for victim in answer.victims}
    assert all(world.allocated[uid].priority < high.priority for uid in gone)
    assert room_without(world, name, high, gone)
    assert not any(room_without(world, name, high, gone - {uid}) for uid in gone)

    lowest_possible = min(max(p.priority for p in way) for way in ways)
    assert max(world.allocated[uid].priority for uid in gone) == lowest_possible


def gang_before_two_full_nodes():
    """A gang of four that needs everything of two nodes, on each of which two pods of lower priority run."""
    world = PackingHarness(node("a", gpu=2), node("b", gpu=2))
    for name in ("a", "b"):
        for i in range(2):
            world.bound(pod(f"low-{name}{i}", gpu=1), name)
    gang = [member(f"m{i}", "g", 4, gpu=1, priority=2) for i in range(4)]
    world.submit(*gang)
    return world, gang


def test_a_gang_that_waits_for_a_lesser_preemptors_victims_gets_their_room():
    world, gang = gang_before_two_full_nodes()
    thief = pod("thief", gpu=1, priority=1)
    world.submit(thief)
    for record in (gang[0], thief, *gang[1:]):
        world.start_preempting(record, world.schedule(record, phase=PREEMPTING))
        for victim in world.preempting[record.uid]:
            if victim.uid in world.allocated:
                world.delete(victim.uid)
    for name in sorted(uid for uid in world.allocated):
        world.delete(name)

    assert not isinstance(world.schedule(thief), Bind)
    assert all(isinstance(world.schedule(record), Bind) for record in gang)


def test_a_lesser_preemptors_victims_are_not_counted_on_as_long_as_they_run():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("low", gpu=1), "a")
    lesser, high = pod("lesser", gpu=1, priority=1), pod("high", gpu=1, priority=2)
    world.submit(lesser, high)
    world.start_preempting(lesser, world.schedule(lesser, phase=PREEMPTING))
    assert uids(world.schedule(high, phase=PREEMPTING)) == ["u-low"]


def test_a_member_whose_own_victims_are_gone_waits_for_those_of_its_mates():
    world, gang = gang_before_two_full_nodes()
    first = world.schedule(gang[0], phase=PREEMPTING)
    world.start_preempting(gang[0], first)
    world.delete(first.victims[0].uid)

    answer = world.schedule(gang[0])

    assert answer.reason.code is Code.WAITING_FOR_VICTIMS
    assert uids(world.schedule(gang[1], phase=PREEMPTING))


@pytest.mark.parametrize("phase", [Phase.FILTERING, Phase.PREEMPTING, Phase.EVICTING])
def test_pods_that_do_not_go_are_nobodys_victims(phase):
    world = PackingHarness(node("a", cpu=1000), node("b", cpu=1000))
    for name in ("a", "b"):
        world.bound(pod(f"low-{name}", cpu=1000, priority=-1, terminating=name == "a"), name)
    p = pod("p", cpu=1000)
    world.submit(p)
    before = world.schedule(p, phase=phase)
    assert isinstance(before, Preempt)
    assert [victim.uid for victim in before.victims] == ["u-low-a"]
    world.algorithm.set_lingering_pods(frozenset(["u-low-a"]))
    after = world.schedule(p, phase=phase)
    assert isinstance(after, Preempt)
    assert [victim.uid for victim in after.victims] == ["u-low-b"]
    world.algorithm.set_lingering_pods(frozenset(["u-low-a", "u-low-b"]))
    assert isinstance(world.schedule(p, phase=phase), Wait)
