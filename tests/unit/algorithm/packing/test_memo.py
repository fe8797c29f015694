"""Verdicts are remembered as long as they hold, and no longer; how much is remembered is bounded.

`PackingHarness.schedule` and the packing machine check that remembering changes no answer: both ask a fork, too.
"""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes, Victim, Wait
from algorithm.model import Pod, pairs
from algorithm.packing import memo, perdemand
from algorithm.packing.demand import demand_of
from algorithm.packing.nodes import Cluster
from algorithm.packing.perdemand import PerDemand
from algorithm.packing.plan import Member, hardest_first, orders
from algorithm.packing.preemption import Effort
from algorithm.reasons import Code
from tests.support.packing.harness import FILTERING, PREEMPTING, PackingHarness, member, node, pod, shown

BIG = pod("big", gpu=4)


def world_that_refuses():
    """`big` needs four GPUs; `a` has two that are taken, `b` has three."""
    world = PackingHarness(node("a", gpu=2), node("b", gpu=3))
    world.bound(pod("x", gpu=2), "a")
    world.submit(BIG)
    return world


def verdict(world, record=BIG, nodes=("a", "b"), phase=FILTERING):
    return world.algorithm.schedule(record, SuggestedNodes(nodes), phase)


# -- what is shared ------------------------------------------------------------------------------------------------


def test_the_order_of_the_offered_nodes_means_nothing():
    world = world_that_refuses()
    assert verdict(world) is verdict(world, nodes=("b", "a"))


def test_a_pod_like_the_one_refused_is_told_the_same():
    world = world_that_refuses()
    other = pod("other", gpu=4)
    world.submit(other)
    assert verdict(world) is verdict(world, other)


@pytest.mark.parametrize(
    "other",
    [
        pod("other", gpu=5),
        pod("other", gpu=4, priority=1),
        pod("other", gpu=4, may_preempt=False),
        member("other", "g", 1, gpu=4),
    ],
)
def test_a_pod_that_differs_in_what_counts_is_looked_at_by_itself(other):
    world = world_that_refuses()
    world.submit(other)
    assert verdict(world) is not verdict(world, other)


def test_the_phases_and_other_nodes_are_other_questions():
    world = world_that_refuses()
    first = verdict(world)
    assert first is not verdict(world, phase=PREEMPTING)
    assert first is not verdict(world, nodes=("a",))
    assert first is not verdict(world, nodes=("a", "c"))


def test_a_trial_of_one_node_does_not_push_out_the_verdict_about_all():
    world = world_that_refuses()
    first = verdict(world)
    verdict(world, nodes=("a",))
    assert verdict(world) is first


@pytest.mark.parametrize("phase", Phase)
def test_equal_members_of_a_gang_share_its_refusal_in_each_phase(phase):
    world = PackingHarness(node("a", gpu=4), node("b", gpu=2))
    world.bound(pod("low", gpu=4), "a")
    gang = [member(f"m{i}", "g", 3, gpu=2, priority=1) for i in range(4)]
    world.submit(*gang[:3])
    enough = {id(verdict(world, each, phase=phase)) for each in gang[:3]}
    assert len(enough) == (3 if phase is Phase.EVICTING else 1), "a plan names the others"
    world.bound(pod("high", gpu=2, priority=1), "b")
    assert len({id(verdict(world, each, phase=phase)) for each in gang[:3]}) == 1
    assert isinstance(verdict(world, gang[0], phase=phase), Wait)
    world.submit(gang[3])
    assert len({id(verdict(world, each, phase=phase)) for each in gang}) == 1


@pytest.mark.parametrize("lower", [0, 4, 6], ids=["nobody to evict", "too few to evict", "enough to evict"])
def test_a_plan_for_a_gang_takes_over_what_filtering_has_found(lower, monkeypatch):
    """Filtering looks at one node of those where eviction may help, and it does not help on the first."""
    monkeypatch.setattr("algorithm.packing.algorithm._ANNOUNCE", Effort(enough=1, looks=1))
    world = PackingHarness(node("a", gpu=3), node("b", gpu=6))
    world.bound(pod("small", gpu=1), "a")
    world.bound(pod("rival", gpu=2, priority=9), "a")
    world.bound(pod("many", gpu=max(lower, 1)), "b")
    world.bound(pod("other", gpu=6 - max(lower, 1), priority=9), "b")
    gang = [member(f"m{i}", "g", 2, gpu=3, priority=1) for i in range(2)]
    world.submit(*gang)
    refused = verdict(world, gang[0])
    assert refused.reason.code is Code.GANG_DOES_NOT_FIT
    with patch.object(world.algorithm, "_seat_all", side_effect=AssertionError("seats are looked for again")):
        plan = verdict(world, gang[0], phase=Phase.EVICTING)
    assert plan == verdict_of_a_fork(world, gang[0])
    assert plan is refused if lower < 6 else isinstance(plan, Preempt)


def test_a_plan_takes_nothing_over_from_another_state_or_offer():
    world = PackingHarness(node("a", gpu=4), node("b", gpu=4))
    world.bound(pod("x", gpu=4, priority=9), "a")
    gang = [member(f"m{i}", "g", 2, gpu=4, priority=1) for i in range(2)]
    world.submit(*gang)
    assert isinstance(verdict(world, gang[0]), Wait)
    assert verdict(world, gang[0], nodes=("a",), phase=Phase.EVICTING) == verdict_of_a_fork(world, gang[0], ("a",))
    world.delete("u-x")
    assert isinstance(verdict(world, gang[0], phase=Phase.EVICTING), Bind)


def test_a_plan_does_not_take_over_that_too_many_pods_would_have_to_go(monkeypatch):
    """Filtering counts nodes that are not offered, too: a plan on the offered ones fails for want of seats."""
    world = PackingHarness(node("a", gpu=4), node("b", gpu=4))
    for name in "yz":
        world.bound(pod(f"a-{name}", gpu=2), "a")
        world.bound(pod(f"b-{name}", gpu=2), "b")
    gang = [member(f"m{i}", "g", 2, gpu=4, priority=1) for i in range(2)]
    world.submit(*gang)
    monkeypatch.setattr("algorithm.packing.trial.MOST_VICTIMS", 3)
    monkeypatch.setattr("algorithm.packing.algorithm.MOST_VICTIMS", 3)
    assert "more than 3 pods would have to go" in verdict(world, gang[0], nodes=("a",)).reason.text
    plan = verdict(world, gang[0], nodes=("a",), phase=Phase.EVICTING)
    assert plan == verdict_of_a_fork(world, gang[0], ("a",))
    assert "insufficient example.com/gpu" in plan.reason.text


def verdict_of_a_fork(world, record, nodes=("a", "b")):
    return world.algorithm.fork().schedule(record, SuggestedNodes(nodes), Phase.EVICTING)


def test_members_of_different_gangs_do_not():
    world = PackingHarness(node("a", gpu=1))
    one, other = member("m", "g", 1, gpu=4), member("n", "h", 1, gpu=4)
    world.submit(one, other)
    assert verdict(world, one) is not verdict(world, other)


def test_a_place_is_never_shared():
    world = PackingHarness(node("a", gpu=4), node("b", gpu=4))
    one, other = member("m", "g", 2, gpu=4), member("n", "g", 2, gpu=4)
    world.submit(one, other)
    first = world.allocate(one, world.schedule(one))
    second = world.allocate(other, world.schedule(other))
    assert {first.node_name, second.node_name} == {"a", "b"}


def test_a_pod_for_which_something_is_held_is_looked_at_by_itself():
    world = PackingHarness(node("a", gpu=4))
    world.bound(pod("low", gpu=4), "a")
    one, other = pod("one", gpu=4, priority=1), pod("other", gpu=4, priority=1)
    world.submit(one, other)
    world.start_preempting(one, world.schedule(one, phase=PREEMPTING))
    assert isinstance(verdict(world, one, ("a",), PREEMPTING), Preempt)
    assert isinstance(verdict(world, other, ("a",), PREEMPTING), Wait)


# -- for how long --------------------------------------------------------------------------------------------------

CHANGES = {
    "add_node": lambda world: world.add_node(node("c")),
    "update_node": lambda world: world.update_node(node("b", gpu=4)),
    "update_node, cordoned": lambda world: world.update_node(node("b", gpu=3, unschedulable=True)),
    "delete_node": lambda world: world.delete_node("b"),
    "add_allocated_pod": lambda world: world.bound(pod("y", gpu=1), "b"),
    "delete_allocated_pod": lambda world: world.delete("u-x"),
    "update_allocated_pod": lambda world: world.algorithm.update_allocated_pod(
        world.allocated["u-x"], msgspec.structs.replace(world.allocated["u-x"], requests=())
    ),
    "add_preempting_pod": lambda world: world.algorithm.add_preempting_pod(BIG, (Victim("a", "u-x"),), "a"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_counts_makes_a_new_generation(change):
    world = world_that_refuses()
    before, first = world.algorithm._state.generation, verdict(world)
    CHANGES[change](world)
    assert world.algorithm._state.generation > before
    assert verdict(world) is not first


def test_the_end_of_a_preemption_makes_a_new_generation():
    world = world_that_refuses()
    world.algorithm.add_preempting_pod(BIG, (Victim("a", "u-x"),), "a")
    before = world.algorithm._state.generation
    world.algorithm.delete_preempting_pod(BIG)
    assert world.algorithm._state.generation > before


def test_asking_makes_no_new_generation():
    world = world_that_refuses()
    high = pod("high", gpu=2, priority=1)
    world.submit(high)
    before = world.algorithm._state.generation
    assert isinstance(world.schedule(high, ["a"], PREEMPTING), Preempt)
    assert isinstance(world.schedule(high, ["b"]), Bind)
    assert world.algorithm._state.generation == before


def test_a_heartbeat_costs_nobody_the_verdict():
    world = world_that_refuses()
    first = verdict(world)
    world.update_node(node("b", gpu=3, resource_version="7", labels=pairs({"seen": "now"})))
    assert verdict(world) is first


def test_new_labels_of_a_running_pod_cost_nobody_the_verdict():
    world = world_that_refuses()
    first, old = verdict(world), world.allocated["u-x"]
    new = msgspec.structs.replace(old, labels=pairs({"step": "2"}), phase="Running")
    world.algorithm.update_allocated_pod(old, new)
    world.algorithm.validate()
    assert verdict(world) is first
    world.algorithm.delete_allocated_pod(new)
    world.algorithm.validate()


def test_the_condition_that_tells_the_refusal_costs_nobody_the_verdict():
    world = PackingHarness(node("a", gpu=4))
    gang = [member(f"m{i}", "g", 2, gpu=4) for i in range(2)]
    world.submit(*gang)
    first = verdict(world, gang[0], ("a",))
    world.delete(gang[0].uid)
    again = msgspec.structs.replace(gang[0], resource_version="9")
    world.submit(again)
    assert verdict(world, again, ("a",)) is first
    assert verdict(world, gang[1], ("a",)) is first


@pytest.mark.parametrize("change", ["comes", "goes", "shrinks"])
def test_a_gang_whose_waiting_members_changed_is_looked_at_anew(change):
    world = PackingHarness(node("a", gpu=4), node("b", gpu=2))
    gang = [member(f"m{i}", "g", 2, gpu=4) for i in range(3)]
    world.submit(*gang)
    first = verdict(world, gang[0])
    if change == "comes":
        world.submit(member("late", "g", 2, gpu=2))
    else:
        world.delete(gang[2].uid)
    if change == "shrinks":
        world.submit(member("m2", "g", 2, gpu=2))
    second = verdict(world, gang[0])
    assert second is not first
    assert isinstance(second, Wait if change == "goes" else Bind)


def test_the_minimum_of_a_gang_that_runs_counts_for_its_preemptors():
    """Its word may be that of a waiting member alone: then the gang is broken already, and goes first."""
    world = PackingHarness(node("a", gpu=1), node("b", gpu=1))
    world.bound(member("m", "g", 1, gpu=1), "a")
    world.bound(member("n", "h", 1, gpu=1), "b")
    high = pod("high", gpu=1, priority=1)
    world.submit(high)
    assert world.schedule(high, phase=PREEMPTING).victims == (Victim("a", "u-m"),)
    demanding = member("k", "h", 5, gpu=1)
    world.submit(demanding)
    assert world.schedule(high, phase=PREEMPTING).victims == (Victim("b", "u-n"),)
    world.delete(demanding.uid)
    assert world.schedule(high, phase=PREEMPTING).victims == (Victim("a", "u-m"),)


def test_a_fork_has_a_memory_of_its_own():
    world = world_that_refuses()
    first = verdict(world)
    twin = world.algorithm.fork()
    twin.update_node(node("b", gpu=3), node("b", gpu=4))
    assert twin.schedule(BIG, SuggestedNodes(["a", "b"]), FILTERING) == Bind("b")
    assert verdict(world) is first


# -- how much ------------------------------------------------------------------------------------------------------


def test_no_more_than_so_many_verdicts_and_demands_are_remembered():
    world = world_that_refuses()
    offered = SuggestedNodes(["a", "b"])
    for i in range(3 * memo.REMEMBERED):
        asking = pod(f"p{i}", gpu=4, cpu=i + 1)
        world.algorithm.schedule(asking, offered, Phase.FILTERING)
        world.algorithm.prioritize(asking, offered)
    assert len(world.algorithm._memo) == memo.REMEMBERED
    assert len(world.algorithm._fullness) == perdemand.REMEMBERED
    world.algorithm.validate()


def test_verdicts_of_a_former_generation_are_forgotten():
    world = world_that_refuses()
    for i in range(5):
        verdict(world, pod(f"p{i}", gpu=4, cpu=i + 1))
    world.bound(pod("y", gpu=1), "b")
    verdict(world)
    assert len(world.algorithm._memo) == 1


def test_who_looks_again_after_very_many_changes_sees_all_of_them():
    cluster = Cluster(spread=False)
    free = PerDemand(cluster, lambda room, _: room.free.get("cpu"))
    demand = demand_of(())
    for name in ("a", "b"):
        cluster.put_node(node(name, cpu=9000))
    assert free.of(demand) == {"a": 9000, "b": 9000}
    cluster.drop_node("b")
    mover = pod("mover", cpu=1000, node_name="a")
    for _ in range(5000):
        cluster.place(mover)
        cluster.displace(mover)
    cluster.place(mover)
    assert free.of(demand) == {"a": 8000}


# -- what is shown -------------------------------------------------------------------------------------------------


def test_the_summary_sums_up():
    world = PackingHarness(node("a", gpu=4, cpu=8), node("b", gpu=4, cpu=8, unschedulable=True))
    gang = [member(f"m{i}", "g", 2, gpu=2) for i in range(2)]
    world.submit(*gang)
    world.allocate(gang[0], world.schedule(gang[0], ["a"]))
    summary = world.algorithm.inspect()
    assert summary["nodes"] == {"known": 2, "schedulable": 1, "empty": 1}
    assert summary["resources"]["example.com/gpu"] == {"allocatable": 8, "used": 2, "held": 2}
    assert summary["pods"] == {"allocated": 1, "waiting": 1, "preempting": 0, "held": 1}
    assert summary["waitingGangs"] == {"ns/g": {"minimum": 2, "allocated": 1, "waiting": 1, "seats": {"m1": "a"}}}


def test_the_summary_stays_short():
    world = PackingHarness(node("a", gpu=1))
    for i in range(80):
        world.algorithm.add_unallocated_pod(member(f"m{i:02}", f"g{i:02}", 2, gpu=1))
    summary = world.algorithm.inspect()
    assert summary["gangs"] == {"known": 80, "waiting": 80}
    assert list(summary["waitingGangs"])[::49] == ["ns/g00", "ns/g49"]
    assert shown(world.algorithm)["gangs"].keys() >= summary["waitingGangs"].keys()


# -- why members of one kind may share -----------------------------------------------------------------------------

#: Two of the three are of one size, but not the same.
requests = st.sampled_from([(("cpu", 1),), (("cpu", 1), ("ephemeral-storage", 1)), (("cpu", 2),)])


@given(
    kinds=st.lists(st.tuples(requests, st.integers(0, 1), st.booleans()), min_size=2, max_size=6),
    picks=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
@example(kinds=[((("cpu", 1),), 0, each) for each in (False, True, False)], picks=(0, 2))
@settings(deadline=None, derandomize=True, database=None)
def test_a_gang_is_seated_in_the_same_order_whichever_of_its_equal_members_asks(kinds, picks):
    pods = [
        Pod(namespace="ns", name=f"m{i}", uid=f"u{i}", requests=requests, priority=priority, created=str(i % 3))
        for i, (requests, priority, _) in enumerate(kinds)
    ]
    members = [
        Member(msgspec.structs.replace(each, may_preempt=may_preempt))
        for each, (*_, may_preempt) in zip(pods, kinds, strict=True)
    ]
    one, other = (pick % len(kinds) for pick in picks)
    other = other if kinds[one] == kinds[other] else one
    for spare in (True, False):
        asked = (orders(members, members[each].uid, spare=spare) for each in (one, other))
        for tried, tried_then in zip(*asked, strict=True):
            assert looks(tried) == looks(tried_then)
    rest = [[each for each in members if each is not members[out]] for out in (one, other)]
    assert looks(hardest_first(rest[0], "")) == looks(hardest_first(rest[1], ""))


def looks(members):
    return [(each.demand, each.pod.priority, each.pod.may_preempt) for each in members]


def test_members_that_must_not_preempt_come_together_whichever_mate_asks():
    """g1 and g3 are alike: where they come among those that must not preempt does not depend on who asks."""
    world = PackingHarness(
        node("n0", cpu=4000, gpu=4),
        node("n1", cpu=8000, gpu=4, pods=4),
        node("n2", cpu=4000, gpu=4),
        node("n3", cpu=4000, gpu=2),
    )
    for name, place, cpu, gpu, priority in (
        *(("a", "n1", 500, 2, 0), ("b", "n1", 250, 1, 3), ("c", "n3", 2000, 2, 5), ("d", "n0", 1000, 2, 0)),
        *(("e", "n0", 2000, 1, 0), ("f", "n0", 1000, 1, 1), ("g", "n2", 1000, 4, 5)),
    ):
        world.bound(pod(name, cpu=cpu, gpu=gpu, priority=priority), place)
    for i in range(4):
        mate = member(f"g{i}", "g", 4, cpu=1000, gpu=1, priority=5)
        world.submit(msgspec.structs.replace(mate, may_preempt=i % 2 == 1))
    for phase in Phase:
        answers = [world.schedule(world.waiting[f"u-g{i}"], ["n1"], phase) for i in (1, 3)]
        assert answers[0] == answers[1]
