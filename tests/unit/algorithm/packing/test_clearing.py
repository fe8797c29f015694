"""EVICTING: one plan for a pod and its gang, with everybody who has to go for it."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import msgspec
import pytest

from algorithm.interface import Bind, GangInfo, MemberPlan, Phase, Preempt, Victim, Wait
from algorithm.reasons import Code
from tests.support.packing.harness import GPU, PackingHarness, member, node, pod

EVICTING = Phase.EVICTING


def full(*names: str, pods: int = 2) -> PackingHarness:
    """Nodes of `pods` gpus, each of which one pod of priority 0 takes."""
    world = PackingHarness(*(node(name, gpu=pods) for name in names))
    for name in names:
        for i in range(pods):
            world.bound(pod(f"low-{name}{i}", gpu=1), name)
    return world


def member_plans(asked, plan) -> dict[str, MemberPlan]:
    assert isinstance(plan, Preempt), plan
    return {
        member_plan.uid: member_plan
        for member_plan in (MemberPlan(asked.uid, plan.node, plan.victims), *plan.gang_members)
    }


def victims(asked, plan) -> list[str]:
    return sorted(victim.uid for member_plan in member_plans(asked, plan).values() for victim in member_plan.victims)


def gang(world: PackingHarness, size: int, *, minimum: int = 0, gpu: int = 1, **more) -> list:
    members = [member(f"m{i}", "g", minimum or size, gpu=gpu, priority=2, **more) for i in range(size)]
    world.submit(*members)
    return members


def carry_out(world: PackingHarness, asked, plan) -> None:
    """The extender takes the plan for real, and the victims go."""
    for member_plan in member_plans(asked, plan).values():
        world.preempting[member_plan.uid] = member_plan.victims
        world.algorithm.add_preempting_pod(world.waiting[member_plan.uid], member_plan.victims, member_plan.node)
    world.algorithm.validate()


def test_the_plan_names_everybody_who_has_to_go_for_the_whole_gang():
    world = full("a", "b")
    members = gang(world, 4)
    plan = world.schedule(members[0], phase=EVICTING)
    assert victims(members[0], plan) == ["u-low-a0", "u-low-a1", "u-low-b0", "u-low-b1"]
    assert Counter(member_plan.node for member_plan in member_plans(members[0], plan).values()) == {"a": 2, "b": 2}


def test_a_single_pod_has_no_mates():
    world = full("a", "b")
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=EVICTING) == world.schedule(high, phase=Phase.PREEMPTING)


def test_a_mate_gets_the_free_seat_and_nobody_goes_for_it():
    world = full("a")
    world.add_node(node("b", gpu=1))
    members = gang(world, 3)
    plan = world.schedule(members[1], phase=EVICTING)
    assert victims(members[1], plan) == ["u-low-a0", "u-low-a1"]
    assert sorted(len(member_plan.victims) for member_plan in member_plans(members[1], plan).values()) == [0, 1, 1]


def test_no_more_members_are_planned_for_than_have_to_have_a_place():
    world = full("a", "b")
    members = gang(world, 4, minimum=3)
    plan = world.schedule(members[0], phase=EVICTING)
    assert len(member_plans(members[0], plan)) == len(victims(members[0], plan)) == 3


def test_a_gang_that_does_not_fit_even_so_evicts_nobody():
    world = full("a", "b")
    members = gang(world, 5)
    assert world.schedule(members[0], phase=EVICTING).reason.code is Code.GANG_DOES_NOT_FIT


def test_nobody_goes_on_a_node_that_was_not_offered():
    world = full("a", "b")
    members = gang(world, 4)
    assert isinstance(world.schedule(members[0], ["a"], EVICTING), Wait)


def test_room_that_is_there_needs_no_plan():
    world = full("a")
    world.add_node(node("b", gpu=1))
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=EVICTING) == Bind("b")


def test_equal_priority_stays():
    world = PackingHarness(node("a", gpu=1))
    world.bound(pod("same", gpu=1, priority=2), "a")
    [alone] = gang(world, 1)
    assert isinstance(world.schedule(alone, phase=EVICTING), Wait)


def strict(world: PackingHarness, size: int, *, minimum: int = 0) -> list:
    """A gang of which only the first one may preempt."""
    first, *others = (member(f"m{i}", "g", minimum or size, gpu=1, priority=2) for i in range(size))
    members = [first, *(msgspec.structs.replace(each, may_preempt=False) for each in others)]
    world.submit(*members)
    return members


def test_a_member_that_must_not_preempt_gets_the_free_seat_and_the_asking_one_evicts():
    world = full("a", pods=1)
    world.add_node(node("b", gpu=1))
    asking, other = strict(world, 2)
    plan = world.schedule(asking, phase=EVICTING)
    assert plan.node == "a"
    assert (victims(asking, plan), member_plans(asking, plan)[other.uid].node) == (["u-low-a0"], "b")
    carry_out(world, asking, plan)
    assert world.schedule(asking, phase=EVICTING) == plan, "while it is carried out"


def test_the_asking_one_is_always_among_those_that_get_a_seat():
    world = full("a", pods=1)
    world.add_node(node("b", gpu=1))
    world.add_node(node("c", gpu=1))
    asking, *_ = strict(world, 4, minimum=3)
    plan = world.schedule(asking, phase=EVICTING)
    assert (plan.node, len(member_plans(asking, plan)), victims(asking, plan)) == ("a", 3, ["u-low-a0"])


def test_nobody_goes_if_a_member_that_must_not_preempt_has_no_free_seat():
    world = full("a", "b", pods=1)
    asking, _ = strict(world, 2)
    assert isinstance(world.schedule(asking, phase=EVICTING), Wait)


def test_protected_pods_are_spared_if_others_can_go():
    world = full("a", "b", pods=1)
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    before = world.schedule(high, phase=EVICTING)
    world.algorithm.set_protected_pods(frozenset(victim.uid for victim in before.victims))
    after = world.schedule(high, phase=EVICTING)
    assert (before.node, after.node) == ("a", "b")


def test_if_only_protected_pods_are_in_the_way_that_is_the_reason():
    world = full("a")
    members = gang(world, 2)
    world.algorithm.set_protected_pods(frozenset(["u-low-a1"]))
    why = world.schedule(members[0], phase=EVICTING).reason
    assert why.code is Code.VICTIM_PROTECTED
    assert why.text == "pods that would have to go cannot be evicted now: ns/low-a1"
    world.algorithm.set_protected_pods(frozenset())
    assert isinstance(world.schedule(members[0], phase=EVICTING), Preempt)


def test_a_victim_that_a_later_one_makes_unnecessary_is_spared():
    world = PackingHarness(node("a", gpu=4))
    world.bound(pod("small", gpu=1), "a")
    world.bound(pod("large", gpu=3), "a")
    members = [member("m0", "g", 2, gpu=1, priority=2), member("m1", "g", 2, gpu=2, priority=2)]
    world.submit(*members)
    assert victims(members[0], world.schedule(members[0], phase=EVICTING)) == ["u-large"]


def test_while_it_is_carried_out_the_plan_stays_the_same():
    world = full("a", "b", "c")
    members = gang(world, 4)
    plan = world.schedule(members[0], phase=EVICTING)
    carry_out(world, members[0], plan)
    assert world.schedule(members[0], phase=EVICTING) == plan
    first, *rest = victims(members[0], plan)
    world.delete(first)
    later = world.schedule(members[0], phase=EVICTING)
    assert victims(members[0], later) == rest
    assert {u: s.node for u, s in member_plans(members[0], later).items()} == {
        u: s.node for u, s in member_plans(members[0], plan).items()
    }


def test_what_a_lesser_preemptor_waits_for_is_named_by_the_higher_one_too():
    world = full("a", pods=1)
    lesser, high = pod("lesser", gpu=1, priority=1), pod("high", gpu=1, priority=2)
    world.submit(lesser, high)
    carry_out(world, lesser, world.schedule(lesser, phase=EVICTING))
    assert victims(high, world.schedule(high, phase=EVICTING)) == ["u-low-a0"]


def test_what_a_higher_preemptor_waits_for_is_left_to_it():
    world = full("a", "b", pods=1)
    lesser, high = pod("lesser", gpu=1, priority=1), pod("high", gpu=1, priority=2)
    world.submit(lesser, high)
    carry_out(world, high, world.schedule(high, phase=EVICTING))
    assert victims(lesser, world.schedule(lesser, phase=EVICTING)) == ["u-low-b0"]


def test_who_is_in_a_gang():
    world = full("a")
    members = gang(world, 2)
    single, alone = pod("single"), member("alone", "h", 1)
    world.submit(single, alone)
    assert [world.algorithm.gang(p) for p in (members[0], single, alone)] == [
        GangInfo("ns/g", all_or_nothing=True),
        None,
        GangInfo("ns/h", all_or_nothing=False),
    ]
    world.bound(member("placed", "g", 2, gpu=0), "a")
    left_over = GangInfo("ns/g", all_or_nothing=False)
    assert world.algorithm.gang(members[0]) == left_over, "it is placed by itself"


@pytest.mark.parametrize("seed", range(60))
def test_random_plans_fit_are_minimal_and_exist_whenever_anything_does(seed):
    """Against brute force over all sets of victims, for members of one size."""
    rng = random.Random(seed)
    names = ["a", "b", "c"][: rng.randint(1, 3)]
    capacity = {name: rng.randint(1, 4) for name in names}
    world = PackingHarness(*(node(name, gpu=gpu) for name, gpu in capacity.items()))
    running: dict[str, tuple[str, int, int]] = {}
    for number in range(rng.randint(1, 6)):
        where, gpu, priority = rng.choice(names), rng.randint(1, 2), rng.randint(0, 2)
        if sum(g for n, g, _ in running.values() if n == where) + gpu <= capacity[where]:
            running[f"u-p{number}"] = (where, gpu, priority)
            world.bound(pod(f"p{number}", gpu=gpu, priority=priority), where)
    protected = frozenset(uid for uid in running if rng.random() < 0.2)
    world.algorithm.set_protected_pods(protected)
    size = rng.randint(1, 3)
    members = gang(world, size, gpu=rng.randint(1, 2))
    gpu = dict(members[0].requests)[GPU]

    def seats(gone: frozenset[str]) -> int:
        left = {n: capacity[n] - sum(g for u, (w, g, _) in running.items() if w == n and u not in gone) for n in names}
        return sum(free // gpu for free in left.values())

    evictable = [uid for uid, (_, _, priority) in running.items() if priority < 2 and uid not in protected]
    ways = [
        frozenset(chosen)
        for count in range(len(evictable) + 1)
        for chosen in itertools.combinations(evictable, count)
        if seats(frozenset(chosen)) >= size
    ]
    answer = world.schedule(members[0], phase=EVICTING)
    if not ways:
        assert isinstance(answer, Wait), answer
    elif frozenset() in ways:
        assert isinstance(answer, Bind), answer
    else:
        chosen = frozenset(victims(members[0], answer))
        assert chosen <= set(evictable)
        assert seats(chosen) >= size
        assert all(seats(chosen - {spared}) < size for spared in chosen), "somebody goes for nothing"
        taken = Counter(member_plan.node for member_plan in member_plans(members[0], answer).values())
        assert sum(taken.values()) == size
        for member_plan in member_plans(members[0], answer).values():
            assert all(victim == Victim(running[victim.uid][0], victim.uid) for victim in member_plan.victims)


def test_once_a_gang_is_broken_its_other_members_go_before_those_of_a_whole_gang():
    world = PackingHarness(*(node(name, gpu=1) for name in "abc"))
    for name, broken in (("a", "one"), ("b", "two"), ("c", "one")):
        world.bound(member(f"low-{name}", broken, 2, gpu=1), name)
    world.add_node(node("d", gpu=0))
    world.bound(member("low-d", "two", 2, gpu=0), "d")
    members = gang(world, 2)
    plan = world.schedule(members[0], phase=EVICTING)
    assert victims(members[0], plan) == ["u-low-a", "u-low-c"]


def test_a_seat_does_not_move_to_room_that_the_member_could_not_make_itself():
    """m1 may evict `b`, and leaves room for m0, which may not: once m0's seat is held there, the same plan is made."""
    world = PackingHarness(node("n0", gpu=2), node("n1", gpu=4))
    world.bound(pod("a", gpu=2), "n0")
    world.bound(pod("b", gpu=4, priority=12), "n1")
    m0, m1 = (member(f"m{i}", "g", 2, gpu=2, priority=priority) for i, priority in enumerate((10, 15)))
    world.submit(m0, m1)
    plan = world.schedule(m0, phase=EVICTING)
    places = {uid: each.node for uid, each in member_plans(m0, plan).items()}
    world.start_preempting(m0, plan)
    for each in plan.gang_members:
        world.start_preempting(m1, Preempt(each.victims, plan.reason, each.node))
    again = world.schedule(m0, phase=EVICTING)
    assert victims(m0, again) == victims(m0, plan)
    assert {uid: each.node for uid, each in member_plans(m0, again).items()} == places


def test_many_seats_move_to_one_large_room():
    """The cheapest seats are on small nodes. The last one needs a large node, whose only pod leaves room for all."""
    size = 20
    small = [f"n{i:02}" for i in range(size - 1)]
    world = PackingHarness(*(node(name, gpu=1) for name in small), node("large", gpu=size))
    for name in small:
        world.bound(pod(f"low-{name}", gpu=1), name)
    world.bound(pod("big", gpu=size, priority=1), "large")
    members = gang(world, size)
    plan = world.schedule(members[0], phase=EVICTING)
    assert victims(members[0], plan) == ["u-big"]
    assert {each.node for each in member_plans(members[0], plan).values()} == {"large"}
