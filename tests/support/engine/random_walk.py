"""Drives a EngineSimulation by a plain random generator: far more steps than Hypothesis would take."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.engine.simulation import CALLS, GHOSTS, NAMES, NODES, EngineSimulation

NETWORK = ("none",) * 6 + (
    "applied, no answer",
    "not applied, no answer",
    "applied later, no answer",
    "429",
    "403",
    "lost",
    "slow",
    "slow",
)
CHANGES = ("label", "terminating", "finished", "ungated", "disowned")


def drive(
    world: EngineSimulation, rng: random.Random, steps: int, *, faults: bool = False, resizing: bool = False
) -> None:
    """`steps` random happenings and now and then a crash, then everything settles and is checked."""
    for number in range(1, steps + 1):
        if number % 700 == 0:
            world.crash()
        happen(world, rng, faults=faults, resizing=resizing)
    world.settle()


def happen(world: EngineSimulation, rng: random.Random, *, faults: bool = False, resizing: bool = False) -> None:
    """One random happening."""
    if faults and rng.random() < 0.1:
        world.algorithm_will_fail(rng.choice(CALLS))
    if isinstance(world.algorithm, PlainAlgorithm) and world.policy.force_bind_unoffered:
        world.algorithm.choose = rng.choice(("", *NODES))
    if resizing and rng.random() < 0.02:
        world.node_resized(rng.choice(NODES), rng.choice((2000, 4000, 6000)))
    rng.choices(_STEPS, _WEIGHTS)[0](world, rng)
    world.check_room()


def _offer(rng: random.Random) -> list[str]:
    return rng.sample(NODES, rng.randint(0, 3))


def _create(world: EngineSimulation, rng: random.Random) -> None:
    kind = rng.choice(("ours", "ours", "ours", "theirs", "gated", "polite"))
    world.pod_created(rng.choice(NAMES), rng.choice((1000, 2000, 3000, 4000)), rng.choice((0, 10)), kind)


def _filter(world: EngineSimulation, rng: random.Random) -> None:
    stale, trial, bind = rng.random() < 0.3, rng.random() < 0.2, rng.random() < 0.8
    world.filtered(rng.choice(NAMES), _offer(rng), stale=stale, trial=trial, bind=bind)


_Step = Callable[[EngineSimulation, random.Random], None]
_TABLE: dict[_Step, float] = {
    _create: 4,
    lambda w, r: w.pod_deleted(r.choice(NAMES)): 1,
    lambda w, r: w.pod_changed(r.choice(NAMES), r.choice(CHANGES)): 2,
    lambda w, r: w.somebody_else_binds(r.choice(NAMES), r.choice(NODES)): 1,
    lambda w, _: w.event_arrives(): 6,
    lambda w, r: w.event_arrives_again(r.randint(0, 30)): 1,
    lambda w, _: w.events_are_missed(): 0.7,
    lambda w, _: w.relist(): 1.5,
    _filter: 11,
    lambda w, r: w.ghost_filtered(r.choice(GHOSTS), r.randint(0, 9), _offer(r)): 0.7,
    lambda w, r: w.bound_out_of_the_blue(r.choice(NAMES), r.choice(NODES)): 1,
    lambda w, r: w.preempt_asked(r.choice(NAMES), _offer(r)): 4,
    lambda w, r: w.work_is_done(r.randint(0, 5), r.choice(NETWORK)): 8,
    lambda w, r: w.late_report(r.randint(0, 3)): 1,
    lambda w, _: w.late_write(until=float("inf")): 0.5,
    lambda w, r: w.time_passes(r.choice((0.5, 3.0, 11.0))): 2.5,
    lambda w, r: w.node_flaps(r.choice(NODES)): 0.3,
}
_STEPS, _WEIGHTS = list(_TABLE), list(_TABLE.values())
