"""Random graphs of pods under random faults and restarts: all start, and none before what it waits for was ready."""

from __future__ import annotations

import random

import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import OrderingWorld, ordering_world

WAGGLE = "^waggle$"


def strike(w: OrderingWorld, chance: random.Random) -> None:
    """Something goes wrong with the API server, a few times."""
    times = chance.randint(1, 3)
    writes = {"method": "PATCH", "path": "/pods/", "agent": WAGGLE, "times": times}
    match chance.randrange(7):
        case 0:
            w.cluster.faults.inject("drop-after", **writes)
        case 1:
            w.cluster.faults.inject("drop-before", **writes)
        case 2:
            w.cluster.faults.inject("status", status=chance.choice((409, 422, 500, 503)), **writes)
        case 3:
            w.cluster.faults.inject("delay", seconds=0.2, **writes)
        case 4:
            w.cluster.faults.inject("watch-expire", after=1, method="WATCH", agent=WAGGLE, times=times)
            w.cluster.end_watches("waggle")
        case 5:
            w.cluster.end_watches("waggle")
        case 6:
            w.end(w.server)
            w.serve()


def run(seed: int, pods: int) -> None:
    """A graph in which each pod waits for some that are created before or after it."""
    chance = random.Random(seed)
    names = [f"p{number}" for number in range(pods)]
    with ordering_world(ordering={"grace_seconds": chance.choice((0.1, 60))}) as w:
        needs = {
            name: chance.sample(names[:index], min(index, chance.randint(0, 3))) for index, name in enumerate(names)
        }
        w.witness.needs = {name: set(before) for name, before in needs.items()}
        for count, name in enumerate(chance.sample(names, len(names))):
            after = ", ".join(f"{{kind: Pod, name: {each}}}" for each in needs[name])
            w.pod(name, f"[{after}]" if after else "")
            if count % 4 == 3:
                strike(w, chance)
        eventually(
            lambda: all(map(w.node_of, names)),
            seconds=90,
            why=lambda: f"seed {seed}: {w.reasons()}, {[name for name in names if not w.node_of(name)]}",
        )
        w.cluster.faults.clear()
        eventually(lambda: w.reasons() == {})


@pytest.mark.parametrize("seed", range(2))
def test_random_courses(seed: int) -> None:
    run(seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_courses(seed: int) -> None:
    run(seed, 40)
