"""How well do estimated starts hold? Random queues, whose pods then take a random time within what they declared.

    python -m tests.bench.plan.estimates [--worlds N] [--pods N] [--seed N]

A plan estimates the starts; then the same run is made with the times that the pods really take. Printed: how many of
the pods that had to wait started within the estimated range, and how far the others were off, as a share of their wait.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from random import Random
from statistics import median

import msgspec

from extender.plan.records import Changes, Estimate, Options, Plan, PlanPod, World
from extender.plan.run import make_plan
from extender.plan.run.making import starting
from tests.support.plan.worlds import a_node, waiting

_NODES, _CPUS = 8, 8
_OPTIONS = Options(estimate=True)


class Held(msgspec.Struct, frozen=True):
    """Pods that had to wait: how many, how many of them started within the range, and how far the others were off."""

    pods: int
    within: int
    off: tuple[float, ...]

    @property
    def share(self) -> float:
        return self.within / self.pods if self.pods else 1.0


def random_world(random: Random, pods: int) -> World:
    """A queue for eight nodes: single pods and gangs that run 1 to 60 minutes, at most up to three times as long."""
    made: list[PlanPod] = []
    while len(made) < pods:
        low = random.uniform(60, 3600)
        more = {"seconds": (low, low * random.uniform(1.0, 3.0)), "runs_to_end": True}
        size = random.choice((1, 1, 1, 1, 2, 4))
        name, cpu = f"p{len(made)}", str(random.choice((1, 2, 4, 8)))
        declared = {"waggle.dev/gang": name, "waggle.dev/gang-min": str(size)} if size > 1 else {}
        made += [
            waiting(f"{name}-{index}", cpu=cpu, more=more, metadata={"annotations": declared}) for index in range(size)
        ]
    nodes = tuple(a_node(f"n{index}", cpu=str(_CPUS)) for index in range(_NODES))
    return World(nodes=nodes, pods=tuple(made))


def measure(worlds: int, pods: int, seed: int) -> Held:
    found, within, off = 0, 0, []
    for number in range(worlds):
        random = Random(f"{seed}-{number}")
        world = random_world(random, pods)
        plan = make_plan(world, Changes(), _OPTIONS)
        actual = _run(world, random)
        for name, start in _estimated(plan).items():
            if start.latest <= 0:
                continue
            found += 1
            at = actual[name]
            miss = max(start.earliest - at, at - start.latest, 0.0)
            within += miss == 0.0
            if miss:
                off.append(miss / max(at, 1.0))
    return Held(found, within, tuple(off))


def _estimated(plan: Plan) -> dict[tuple[str, str], Estimate]:
    return {(row.namespace, row.name): row.start for row in plan.rows if row.start is not None}


def _run(world: World, random: Random) -> dict[tuple[str, str], float]:
    """When each pod really starts. The pods of a gang take the same time."""
    times = {pod.seconds: random.uniform(*pod.seconds) for pod in world.pods if pod.seconds is not None}
    run = starting(world, Changes(), _OPTIONS, lambda pod: None if pod.seconds is None else times[pod.seconds])
    while True:
        try:
            next(run)
        except StopIteration as end:
            return dict(end.value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plan.estimates", description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=50)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    held = measure(chosen.worlds, chosen.pods, chosen.seed)
    print(f"{held.pods} pods had to wait; {held.share:.0%} of them started within the estimated range")
    if held.off:
        print(f"the others were off by {median(held.off):.0%} of their wait in the median, at most {max(held.off):.0%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
