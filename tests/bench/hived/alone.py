"""The algorithm by itself, in this process: construction, health, planning, adding, deleting, cluster status.

CPU time, as was recorded of the original: that says the same on a busy machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import yaml

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.insight.status import Pages
from algorithm.hived.settings import HivedSettings
from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from tests.bench.hived import workload
from tests.bench.hived.figures import Figure
from tests.bench.hived.workload import DEVICES, DOES_NOT_FIT, KINDS, SPEC, TENANTS, Job

#: Machines that turn bad and healthy again.
_TURNING = 20
_STATUSES = 5
_ONCE = ("construction", "all nodes announced")

#: Then all promises are used up, with this priority or that of the jobs that run. A gang of 8x8 has no room, or plans
#: whom to evict.
CROWD = 1
NO_ROOM, PREEMPTS = "8x8, promise used up", "8x8, evicting others"
IN_VAIN: dict[str, tuple[int, type[Wait | Preempt]]] = {NO_ROOM: (0, Wait), PREEMPTS: (2, Preempt)}

_T = TypeVar("_T")


def measure(machines: int, levels: int, jobs: int, say: Callable[[str], None]) -> list[Figure]:
    """All figures of one cluster, `jobs` jobs of each kind."""
    say(f"the algorithm by itself, {machines:,} machines, {levels} levels")
    return Alone(machines, levels).run(jobs)


class Alone:
    """A cluster that is filled, and how long everything took."""

    def __init__(self, machines: int, levels: int) -> None:
        self._machines, self._levels = machines, levels
        self._names = [workload.node_name(number) for number in range(machines)]
        self._taken: dict[tuple[str, str], list[float]] = {}
        self._serial = count()
        # Reading the file is no matter of the algorithm, but what was read has to be checked.
        loaded = yaml.load(workload.config(machines, levels), yaml.CSafeLoader)
        self._algorithm = self._time(_ONCE[0], "", _construct, loaded)
        self._time(_ONCE[1], "", self._announce)

    def run(self, jobs: int) -> list[Figure]:
        with _as_in_service():
            for job in workload.fill(self._machines):
                self._place(job, "")
            self._taken = {key: ms for key, ms in self._taken.items() if key[0] in _ONCE}
            for kind in KINDS:
                for turn in range(jobs):
                    for pod in self._place(workload.timed_job(kind, turn, self._machines), kind):
                        self._time("delete", kind, self._algorithm.delete_allocated_pod, pod)
            for turn in range(max(_STATUSES, jobs // 10)):
                pod = self._pods(workload.timed_job(DOES_NOT_FIT, turn, self._machines))[0]
                answer = self._time("schedule first", DOES_NOT_FIT, self._algorithm.schedule, *self._question(pod))
                assert isinstance(answer, Wait), answer
            self._turn()
            self._look()
            self._crowd()
            for turn in range(max(_STATUSES, jobs // 10)):
                self._plan_in_vain(NO_ROOM, turn)
                self._plan_in_vain(PREEMPTS, turn)
        return [Figure(self._machines, self._levels, what, kind, ms) for (what, kind), ms in self._taken.items()]

    def _time(self, what: str, kind: str, work: Callable[..., _T], *arguments: Any) -> _T:
        began = time.thread_time()
        done = work(*arguments)
        self._taken.setdefault((what, kind), []).append((time.thread_time() - began) * 1e3)
        return done

    def _announce(self) -> None:
        for name in self._names:
            self._algorithm.add_node(Node(name=name))

    def _pods(self, job: Job) -> list[Pod]:
        group = f"group-{next(self._serial)}"
        annotations = ((SPEC, job.annotation(group)),)
        # A gang of the whole cluster is asked about by its first pod only.
        return [
            Pod(namespace="bench", name=f"{group}-{number}", uid=f"{group}-{number}", annotations=annotations)
            for number in range(min(job.pods, workload.DEVICES))
        ]

    def _question(self, pod: Pod) -> tuple[Pod, SuggestedNodes, Phase]:
        """Every question comes with its own fresh list of names, as it does over HTTP."""
        return pod, SuggestedNodes(self._names), Phase.FILTERING

    def _place(self, job: Job, kind: str) -> list[Pod]:
        """The job's pods, placed."""
        placed = []
        for number, pod in enumerate(self._pods(job)):
            what = "schedule others" if number else "schedule first"
            answer = self._time(what, kind, self._algorithm.schedule, *self._question(pod))
            assert isinstance(answer, Bind), answer
            placed.append(pod.placed(answer.node, answer.annotations))
            self._time("add", kind, self._algorithm.add_allocated_pod, placed[-1])
        return placed

    def _turn(self) -> None:
        for name in self._names[:: max(1, self._machines // _TURNING)]:
            bad, healthy = Node(name=name, ready=False), Node(name=name)
            self._time("node to bad", "", self._algorithm.update_node, healthy, bad)
            self._time("node to healthy", "", self._algorithm.update_node, bad, healthy)

    def _crowd(self) -> None:
        """Whatever is left of all promises is used."""
        for tenant in range(TENANTS):
            for devices in (8, 4, 2, 1):
                while True:
                    pod = self._pods(Job(tenant, CROWD, 1, devices))[0]
                    answer = self._algorithm.schedule(*self._question(pod))
                    if not isinstance(answer, Bind):
                        break
                    self._algorithm.add_allocated_pod(pod.placed(answer.node, answer.annotations))

    def _plan_in_vain(self, kind: str, turn: int) -> None:
        """The answer is not taken: nobody is evicted here."""
        priority, wanted = IN_VAIN[kind]
        pod = self._pods(Job(turn % TENANTS, priority, DEVICES, DEVICES))[0]
        question = (pod, SuggestedNodes(self._names), Phase.PREEMPTING)
        answer = self._time("schedule first", kind, self._algorithm.schedule, *question)
        assert isinstance(answer, wanted), answer

    def _look(self) -> None:
        """Written anew, as the original does each time; and again after one more job."""
        for turn in range(_STATUSES):
            pages = Pages(self._algorithm.hive)
            self._time("cluster status", "", _written, pages)
            pods = self._place(workload.timed_job("1x1", turn, self._machines), "1x1")
            self._time("cluster status, again", "", _written, pages)
            for pod in pods:
                self._algorithm.delete_allocated_pod(pod)


def _construct(loaded: Any) -> HivedAlgorithm:
    return HivedAlgorithm(HivedSettings.model_validate(loaded))


def _written(pages: Pages) -> bytes:
    return b"".join(pages.page("clusterstatus"))


@contextmanager
def _as_in_service() -> Iterator[None]:
    """What exists when the server is ready is left alone by the garbage collector."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
