"""Trials on a hive: whatever is done within one, everything that can be reached is as before, in the same order.

The oracle is a dump of every attribute of every object of the hive, so that state which somebody adds is compared too.
"""

from __future__ import annotations

import random

import pytest

from algorithm.hived.cells.cells import CellState
from algorithm.hived.formats.podspec import UserError
from algorithm.hived.insight.whatif import ended
from algorithm.hived.planning.planner import Plan, decide
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState
from algorithm.hived.state.recovery import claimed, restored
from tests.support.hived.crowd import asked, crowded
from tests.support.hived.dump import dump

SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 40))]


def something(hive: HivedCluster, rng: random.Random, seed: int) -> None:
    """One thing that a trial may do."""
    groups = [hive.groups[name] for name in sorted(hive.groups)]
    group = rng.choice(groups) if groups else None
    kind = rng.randrange(5)
    if kind == 0 or group is None:
        _decide(hive, rng, seed)
    elif kind == 1:
        _end(hive, group)
    elif kind == 2 and group.virtual is not None and group.state is GroupState.ALLOCATED:
        hive.make_opportunistic(group, "x")
    elif kind == 3 and group in hive.lazily_preempted:
        restored(hive, group)
    elif kind == 4 and group.state is GroupState.ALLOCATED:
        _give_up_and_claim(hive, group)


def _decide(hive: HivedCluster, rng: random.Random, seed: int) -> None:
    _, spec = rng.choice(list(asked(seed)))
    try:
        plan = decide(hive, spec, hive.layout.machines.keys(), preempting=True)
    except UserError:
        return
    if isinstance(plan, Plan) and plan.is_new and spec.group not in hive.groups:
        hive.take_quota(plan.lazily_preempted, spec.group)
        hive.overtake(plan.overtakes)
        hive.preempt(plan.group, "u")


def _end(hive: HivedCluster, group: Group) -> None:
    if group.state is GroupState.PREEMPTING:
        hive.cancel(group)
    else:
        hive.end(group)


def _give_up_and_claim(hive: HivedCluster, group: Group) -> None:
    if any(device.state is not CellState.USED for device, _ in group.leafs()):
        return
    devices = min(group.physical)
    hive.give_up(group, devices, 0)
    claimed(hive, group, devices, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trial_leaves_no_trace(seed: int) -> None:
    world, rng = crowded(seed), random.Random(seed)
    before = dump(world.hive)
    with world.hive.trial():
        for _ in range(6):
            something(world.hive, rng, seed)

    assert dump(world.hive) == before
    world.audit()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mark_within_a_trial_can_be_returned_to(seed: int) -> None:
    world, rng = crowded(seed), random.Random(seed)
    with world.hive.trial():
        something(world.hive, rng, seed)
        for _ in range(3):
            before, mark = dump(world.hive), world.hive.journal.mark()
            something(world.hive, rng, seed)
            something(world.hive, rng, seed)
            world.hive.journal.roll_back(mark)
            assert dump(world.hive) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_what_if_does_not_even_change_how_machines_are_sorted(seed: int) -> None:
    world, rng = crowded(seed), random.Random(seed)
    before = dump(world.hive, lists=True)
    with ended(world.hive, sorted(world.hive.groups.values(), key=lambda each: each.name)[: rng.randint(1, 3)]):
        _decide(world.hive, rng, seed)

    assert dump(world.hive, lists=True) == before


def test_the_dump_notices_a_trace() -> None:
    world = crowded(3)
    before = dump(world.hive)
    world.hive.make_opportunistic(next(each for each in world.hive.groups.values() if each.virtual), "x")

    assert dump(world.hive) != before


def test_nothing_comes_or_turns_bad_within_a_trial() -> None:
    world = crowded(3)
    with world.hive.trial(), pytest.raises(AssertionError):
        world.hive.set_health("m1", healthy=False)
