"""What one plan costs: a process of its own makes it, so that its memory can be told.

python -m tests.bench.plan.placing SCENE [--quick]     (prints a `Figure` as JSON)
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec

from extender.plan.records import Changes, World
from extender.plan.run import make_plan
from tests.bench.plan.worlds import FULL, LEFT_TO_WAGGLE, QUICK, Size, cluster, new_gangs

_Scene = Callable[[Size], tuple[World, Changes]]

#: Each node has 4 GPUs left: members of 2 find room, members of 5 nowhere.
SCENES: dict[str, tuple[str, _Scene]] = {
    "load": ("the cluster alone, nothing new", lambda size: (cluster(size), Changes())),
    "placed": ("all find a place", lambda size: (cluster(size), new_gangs(size, gpus=2))),
    "nothing": ("nothing fits: kube-scheduler's filters say so", lambda size: (cluster(size), new_gangs(size, gpus=5))),
    "refused": (
        "nothing fits: Waggle says so",
        lambda size: (cluster(size, scheduler=LEFT_TO_WAGGLE), new_gangs(size, gpus=5)),
    ),
    "preempting": (
        "all find a place, half of them by evicting",
        lambda size: (cluster(size, free_gpus=0, priority=-1), new_gangs(size, gpus=1)),
    ),
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds` of CPU time, `mebibytes` that the process had more at most than before the plan."""

    scene: str
    what: str
    size: str
    seconds: float
    mebibytes: float
    attempts: int
    runs: int
    waits: int


def measure(scene: str, *, quick: bool = False, rounds: int = 3) -> Figure:
    """The fastest of several processes. Raises RuntimeError if one fails."""
    command = [sys.executable, "-m", "tests.bench.plan.placing", scene, *(["--quick"] if quick else [])]
    found = []
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        found.append(msgspec.json.decode(done.stdout, type=Figure))
    return min(found, key=lambda figure: figure.seconds)


def main(scene: str, size: Size) -> None:
    what, make = SCENES[scene]
    world, changes = make(size)
    gc.collect()
    gc.disable()  # as the process does that makes a server's plans
    before, began = _peak(), time.process_time()
    plan = make_plan(world, changes)
    seconds = time.process_time() - began
    figure = Figure(
        scene=scene,
        what=what,
        size=str(size),
        seconds=seconds,
        mebibytes=_peak() - before,
        attempts=plan.attempts,
        runs=plan.total.runs,
        waits=plan.total.waits,
    )
    sys.stdout.buffer.write(msgspec.json.encode(figure))


def _peak() -> float:
    """MiB that the process had at most so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / (1 << 20)


if __name__ == "__main__":
    main(sys.argv[1], QUICK if "--quick" in sys.argv else FULL)
