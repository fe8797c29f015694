"""Records what Waggle decides in a full cluster with a real control plane, to be replayed.

    python -m tests.bench.busy_cluster FOLDER [--seconds 3600] [--rate 4.5] [--nodes 100] [--seed 7]

Pods come at random times, `rate` a second on average, and run for a minute on average, so that nine of ten GPUs of a
hundred nodes are in use with the defaults. One pod in six is in a gang; there are three priorities, of which two evict.
Everything is as the e2e tests have it (`make e2e`): etcd, kube-apiserver, kube-scheduler, KWOK, and `waggle serve
--record`. The seed chooses the pods and their times; what the cluster makes of it is another thing each time.
"""

from __future__ import annotations

import argparse
import heapq
import shutil
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.e2e.build import build
from tests.e2e.cluster import ControlPlane
from tests.e2e.world import RealCluster, world

#: Seconds that every pod runs, and how much longer on average.
_LEAST, _MORE = 10.0, 50.0
#: Of so many arrivals one is a gang.
_GANGS = 25
#: Seconds between two looks at the clock.
_TICK = 0.2


class Wish(NamedTuple):
    """Pods that come together: a gang, or one alone (`size` 1)."""

    name: str
    size: int
    gpus: int
    priority: int
    seconds: tuple[float, ...]


def _wish(rng: Random, number: int) -> Wish:
    if rng.randrange(_GANGS):
        size, gpus, priority = 1, rng.choice((1, 1, 1, 2, 2, 4, 8)), rng.choice((0, 0, 0, 10, 100))
    else:
        size, gpus, priority = rng.choice((2, 4, 4, 8)), rng.choice((1, 4, 8)), rng.choice((0, 0, 10))
    seconds = tuple(_LEAST + rng.expovariate(1 / _MORE) for _ in range(size))
    return Wish(f"j{number}", size, gpus, priority, seconds)


class Users:
    """They create pods, and delete each when its time is over, whether it ran or not."""

    def __init__(self, cluster: RealCluster, rate: float, rng: Random) -> None:
        self._cluster, self._rate, self._rng = cluster, rate, rng
        self._ends: list[tuple[float, str]] = []
        self._due = 0.0
        self.created = 0

    def act(self, now: float) -> None:
        """Do what is due, seconds since the beginning."""
        gone = []
        while self._ends and self._ends[0][0] <= now:
            gone.append(heapq.heappop(self._ends)[1])
        there = {pod["metadata"]["name"] for pod in self._cluster.list("Pod")} if gone else set()
        for name in gone:
            if name in there:  # it may have been evicted
                self._cluster.delete(name)
        while self._due <= now:
            wish = _wish(self._rng, self.created)
            fields = {"gpus": wish.gpus, "priority": wish.priority}
            if wish.size > 1:
                names = self._cluster.gang(wish.name, wish.size, **fields)
            else:
                names = [wish.name]
                self._cluster.pod(wish.name, **fields)
            for name, seconds in zip(names, wish.seconds, strict=True):
                heapq.heappush(self._ends, (now + seconds, name))
            self.created += wish.size
            self._due += sum(self._rng.expovariate(self._rate) for _ in names)


def record(out: Path, *, seconds: float, rate: float, nodes: int, seed: int) -> int:
    """Write the recording into a new folder; returns how many pods were created."""
    programs = build()
    with (
        tempfile.TemporaryDirectory(prefix="waggle-busy-") as folder,
        ControlPlane(programs, Path(folder), audited=False) as plane,
        world(plane, programs, records=True) as cluster,
    ):
        cluster.nodes(nodes, gpus=8)
        users = Users(cluster, rate, Random(seed))
        begun = time.monotonic()
        while (now := time.monotonic() - begun) < seconds:
            users.act(now)
            time.sleep(_TICK)
        assert cluster.waggle is not None
        assert cluster.recording is not None
        cluster.waggle.stop()
        shutil.copytree(cluster.recording, out)
        cluster.start_waggle()  # the world checks at its end that it runs
        return users.created


def main() -> None:
    parser = argparse.ArgumentParser(description="Record a full cluster with a real control plane.")
    parser.add_argument("folder", type=Path, help="where the recording goes; it must not exist")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--rate", type=float, default=4.5, help="pods a second")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    if given.folder.exists():
        parser.error(f"{given.folder} exists; expected the name of a new folder")
    created = record(given.folder, seconds=given.seconds, rate=given.rate, nodes=given.nodes, seed=given.seed)
    print(f"{given.folder}: {created:,} pods; waggle replay {given.folder}")


if __name__ == "__main__":
    main()
