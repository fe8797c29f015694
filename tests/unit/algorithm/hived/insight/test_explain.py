"""Explanations: what they say in plain cases, and that in random ones all they say is true."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import combinations

import pytest

from algorithm.hived import HivedAlgorithm
from algorithm.hived.cells.cells import CellState, PhysicalCell, VirtualCell
from algorithm.hived.formats.podspec import SPEC, PodSpec, UserError, parse_spec
from algorithm.hived.insight.capacity import capacity_of
from algorithm.hived.insight.unblockers import Steps, Unblockers, find_unblockers
from algorithm.hived.planning.planner import Refusal, candidate_chains, decide
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes
from algorithm.model import Pod
from tests.support.hived.crowd import PINNED, admit, asked, crowded, wish
from tests.support.hived.harness import RACKS, HivedHarness, explained, gang, one, racks, snapshot


def told(world: HivedHarness, each: Pod) -> list[str]:
    return explained(world, each)


# -- plain cases ------------------------------------------------------------------------------------------------------


def test_free_devices_beyond_the_promise_are_no_answer():
    world = HivedHarness()
    world.bind(one("first", leafs=4, priority=3), one("second", leafs=4, priority=2))

    assert told(world, one("third", leafs=4, priority=2)) == [
        "The guarantee is used up: a is promised 8 gpu in rack; 8 are held by groups of the same or a higher priority, "
        "and 0 are left. third needs 4: 4 more have to become free.",
        "8 healthy gpu are free in rack, but a cannot have more than it is promised: they are kept for their owners, "
        "and lent to pods of priority -1.",
        "It would run if any one of these ended: second (priority 2, 4 devices), first (priority 3, 4 devices).",
    ]


def test_enough_in_pieces_is_not_enough():
    world = HivedHarness()
    world.bind(*gang("filler", leafs=3, pods=2, priority=3))

    assert told(world, one("wide", leafs=2, priority=3)) == [
        "Enough is left, but scattered: a is promised 8 gpu in rack, 2 healthy ones are left, and wide needs 2. A pod "
        "has its 2 in one piece, and no piece has so many. The largest: 1 in 0/m1, 1 in 0/m2.",
        "It would run if this ended: filler (priority 3, 6 devices).",
    ]


def test_nobody_is_named_who_could_be_left_out():
    world = HivedHarness()
    world.bind(*(one(f"g{number}", leafs=1, priority=5) for number in range(8)))

    sentence = told(world, one("wide", leafs=4, priority=5))[-1]

    assert sentence.startswith("It would run if all 4 of these ended: ")


def test_what_is_larger_than_the_promise_can_never_run():
    assert told(HivedHarness(), one("huge", leafs=4, members={4: 3})) == [
        "huge can never run: it needs 12 gpu, and a is promised 8 gpu in rack."
    ]


def test_promised_parts_of_machines_are_no_machine():
    assert told(HivedHarness(racks(a="rack.host.socket 2")), one("wide", leafs=4)) == [
        "wide can never run: a pod has its 4 gpu in one piece (a machine, or a promised part of one), and a is "
        "promised 4 gpu in rack, with no such piece."
    ]


def test_bad_machines_are_named():
    world = HivedHarness()
    world.turn("m1", "m2", "m3", healthy=False)

    assert told(world, one("wide", leafs=4, members={4: 2})) == [
        "Hardware is bad: a is promised 8 gpu in rack, and 8 are left, but 4 of these are bad. wide needs 8.",
        "Nobody gets bad machines (not Ready, cordoned, unknown) or bad devices: m1, m2, m3.",
        "The end of other groups would not help.",
    ]


def test_without_a_guarantee_there_is_only_what_nobody_uses():
    world = HivedHarness()
    world.bind(one("mine", leafs=4, priority=1), *gang("lent", tenant="b", leafs=4, pods=2, priority=-1))
    world.turn("m4", healthy=False)

    assert told(world, one("more", leafs=4, priority=-1)) == [
        "Hardware is bad: rack has 16 gpu, and 4 are left, but 4 of these are bad. more needs 4.",
        "Nobody gets bad machines (not Ready, cordoned, unknown) or bad devices: m4.",
        "It would run if any one of these ended: mine (priority 1, 4 devices), "
        "lent (of b, without guarantee, 8 devices).",
    ]


def test_a_pinned_cell_is_all_there_is_for_who_names_it():
    world = HivedHarness(PINNED)
    world.bind(one("first", tenant="c", leafs=3, pinnedCellId="corner"))

    assert told(world, one("second", tenant="c", leafs=2, pinnedCellId="corner")) == [
        "Not enough of the guarantee is left: pinned cell corner has 4 gpu; 3 are held by groups of the same or a "
        "higher priority, and 1 is left. second needs 2: 1 more has to become free.",
        "13 healthy gpu are free in rack, but c cannot have more than it is promised: they are kept for their owners, "
        "and lent to pods of priority -1.",
        "It would run if this ended: first (priority 0, 3 devices).",
    ]


def test_lower_priorities_make_way():
    world = HivedHarness()
    world.bind(*gang("low", leafs=4, pods=2))

    assert told(world, one("high", leafs=4, priority=7)) == [
        "high takes the place of lower priorities; it runs when these pods are gone: low-0, low-1."
    ]


def test_who_is_protected_is_said():
    world = HivedHarness()
    world.bind(one("low", leafs=4), one("low2", leafs=4))
    world.algorithm.set_protected_pods(frozenset({"u-low-0"}))

    sentences = told(world, one("high", leafs=4, priority=7, members={4: 2}))

    assert sentences[1:] == ["A PodDisruptionBudget forbids to evict low-0 now."]


def test_who_is_to_have_the_quota_back_first_is_said():
    world = HivedHarness(RACKS + "promoteLazilyPreempted: true\n")
    world.bind(*gang("mild", leafs=4, pods=2, lazyPreemptionEnable=True))
    world.bind(one("first", leafs=4, priority=4), one("second", leafs=4, priority=3))

    sentences = told(world, one("third", leafs=4, priority=3))

    assert sentences[-1] == (
        "What becomes free may go to groups first that lost their quota and are to have it back: mild."
    )


def test_room_is_told_of_and_whom_to_ask_about_it():
    assert told(HivedHarness(), one("small", leafs=4)) == [
        "There is room for all of small now, on m1. It runs as soon as kube-scheduler asks again and offers that node.",
        "What kube-scheduler does not offer was refused by its own filters: taints, affinity, cpu, memory, ports.",
    ]


def test_a_late_pod_learns_its_place():
    world = HivedHarness()
    first, second = gang("pair", leafs=4, pods=2)
    world.bind(first)

    assert told(world, second)[0] == (
        "pair has its devices; this pod's are on m2. It runs as soon as kube-scheduler asks again and offers that node."
    )


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"tenant": "z"}, "There is no virtual cluster z; there are: a, b, c."),
        ({"pinnedCellId": "corner"}, "a has no pinned cell corner; it has: none."),
        ({"tenant": "c", "pinnedCellId": "corners"}, "c has no pinned cell corners; it has: corner."),
        ({"leafCellType": "tpu"}, "No device is a tpu; there are: gpu."),
        ({"tenant": "c"}, "c is promised nothing but pinned cells, and wrong names none."),
        (
            {"tenant": "c", "leafCellType": "gpu"},
            "c is promised no gpu, but: none. With priority -1 it could use what is idle.",
        ),
    ],
)
def test_a_wrong_wish_is_told_what_there_is(wish: dict[str, str], said: str):
    assert told(HivedHarness(PINNED), one("wrong", **wish)) == [said]


# -- random cases -----------------------------------------------------------------------------------------------------


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 25))]


def refused(world: HivedHarness, seed: int) -> Iterable[tuple[Pod, PodSpec, Unblockers]]:
    """Groups that wait in that world for want of cells, each with whose end is said to help."""
    for each, spec in asked(seed):
        try:
            decision = decide(world.hive, spec, world.hive.layout.machines, preempting=True)
        except UserError:
            continue
        capacities = [capacity_of(world.hive, spec, chain) for chain in candidate_chains(world.hive, spec)]
        if isinstance(decision, Refusal) and not all(found.never for found in capacities):
            yield each, spec, _answer(find_unblockers(world.hive, spec, capacities))


def _answer(steps: Steps[Unblockers]) -> Unblockers:
    """What comes of all steps, if nothing happens in between."""
    while True:
        try:
            next(steps)
        except StopIteration as found:
            return found.value


def runs_without(world: HivedHarness, each: Pod, groups: Iterable[Group]) -> bool:
    """Whether it would have a place if the pods of these groups were really gone: tried with a fork."""
    names = {group.name for group in groups}
    fork = world.algorithm.fork()
    for uid, pod in [*world.preempting.items(), *world.allocated.items()]:
        if group_of(pod) in names:
            forget(fork, world, uid, pod)
    fork.add_unallocated_pod(each)
    answer = fork.schedule(each, SuggestedNodes(world.hive.layout.machines), Phase.PREEMPTING)
    return isinstance(answer, Bind | Preempt)


def forget(fork: HivedAlgorithm, world: HivedHarness, uid: str, pod: Pod) -> None:
    if uid in world.preempting:
        fork.delete_preempting_pod(pod)
        fork.delete_unallocated_pod(pod)
    else:
        fork.delete_allocated_pod(pod)


def group_of(pod: Pod) -> str:
    return parse_spec(pod.annotation(SPEC), namespace="ns", name=pod.name).group


@pytest.mark.parametrize("seed", SEEDS)
def test_whose_end_is_named_makes_room_and_nobody_can_be_left_out(seed: int):
    world = crowded(seed)
    for each, _, ends in refused(world, seed):
        for group in ends.alone:
            assert runs_without(world, each, [group])
        if ends.together:
            assert runs_without(world, each, ends.together)
            for left_out in ends.together if ends.minimal else ():
                assert not runs_without(world, each, [group for group in ends.together if group is not left_out])


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_named_only_if_nobodys_end_would_help(seed: int):
    world = crowded(seed)
    for each, _, ends in refused(world, seed):
        groups = list(world.hive.groups.values())
        if not ends.alone:
            assert not any(runs_without(world, each, [group]) for group in groups)
        if not ends.alone and not ends.together and len(groups) <= 6:
            several = (some for number in range(2, len(groups) + 1) for some in combinations(groups, number))
            assert not any(runs_without(world, each, some) for some in several)


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_true_and_asking_leaves_no_trace(seed: int):
    world = crowded(seed)
    before, order = snapshot(world.hive), orders(world.hive)
    for each, spec in asked(seed):
        assert told(world, each)
        for chain in candidate_chains(world.hive, spec) if spec.tenant in world.hive.layout.tenants else ():
            found = capacity_of(world.hive, spec, chain)
            leafs = may_have(world.hive, spec, chain)
            held = [leaf for leaf in leafs if leaf.priority >= spec.priority]
            left = [leaf for leaf in leafs if leaf not in held]
            assert (found.total, found.held, found.left) == (len(leafs), len(held), len(left))
            assert found.lower == sum(leaf.priority > -2 for leaf in left)
            assert found.bad == sum(not leaf.healthy for leaf in left)
            assert found.idle == sum(
                leaf.healthy and leaf.state is CellState.FREE for leaf in world.hive.layout.chains[chain].full[1]
            )
    assert snapshot(world.hive) == before
    assert orders(world.hive) == order
    world.audit()


def may_have(hive: HivedCluster, spec: PodSpec, chain: str) -> list[PhysicalCell] | list[VirtualCell]:
    if spec.priority < 0:
        return hive.layout.chains[chain].full[1]
    tenant = hive.layout.tenants[spec.tenant]
    return tenant.pinned[spec.pinned_id][1] if spec.pinned_id else tenant.full[chain][1]


def orders(hive: HivedCluster) -> list[list[str]]:
    """The order in which equal machines are tried."""
    lists = [*hive.nodes.values(), *hive.pinned_nodes.values(), *hive.open_nodes.values()]
    return [[cell.address for cell, *_ in each.candidates(0, 0)] for each in lists]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_while_it_is_explained_an_explanation_changes_nothing(seed):
    world, twin = crowded(seed), crowded(seed)
    waiting = [each for each, _ in asked(seed)]
    explanations = [world.algorithm.explain(each) for each in waiting]
    for turn in range(30):
        for each in explanations:
            assert next(each, "") is not None
        for one_of_them in (world, twin):
            something_happens(one_of_them, random.Random(f"{seed} {turn}"), f"later{turn}")
        world.audit()
        assert snapshot(world.hive) == snapshot(twin.hive)
        assert orders(world.hive) == orders(twin.hive)
    for each in explanations:
        list(each)
    assert snapshot(world.hive) == snapshot(twin.hive)


def something_happens(world: HivedHarness, rng: random.Random, name: str) -> None:
    if rng.random() < 0.3:
        world.turn(rng.choice(["m1", "m2", "m3", "m4"]), healthy=rng.random() < 0.6)
    elif rng.random() < 0.5 and world.allocated:
        world.delete(world.allocated[rng.choice(sorted(world.allocated))])
    else:
        admit(world, wish(rng, name))
