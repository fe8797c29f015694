"""A workload that is being read: checks and counts jobs and nodes, and remembers what was left out.

Names are unique, and requests that are alike share one record, so that a million jobs take some 310 MiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from extender.lab.tables import FatalTraceError, Problems, TraceError
from extender.lab.workload import CPU, GPU, LONGEST_NAME, MEMORY, Job, MachineNode, Workload
from extender.logs.printable import printable

T = TypeVar("T", bound=Hashable)
#: Bounds of one workload, of one job, and of one pod or node.
MOST_JOBS, MOST_NODES, MOST_PODS = 8_000_000, 200_000, 100_000
MOST_GPUS, MOST_CORES, MOST_GIB = 1024, 65_536, 1 << 20
#: Seconds: some three hundred years.
LATEST = 1e10
GIB = 1 << 30


class Where(NamedTuple):
    """A place in a file, for messages."""

    file: str
    line: int
    column: str


class WorkloadBuilder:
    """What has been read so far."""

    def __init__(self, name: str, problems: Problems) -> None:
        self.problems = problems
        self._name = name
        self._jobs: list[Job] = []
        self._nodes: list[MachineNode] = []
        self._job_names: set[str] = set()
        self._node_names: set[str] = set()
        self._requests: dict[tuple[int, int, int], Mapping[str, int]] = {}
        self._shared: dict[Hashable, Any] = {}
        self._counts: Counter[str] = Counter()
        self._remarks: list[str] = []

    def job(self, job: Job, where: Where) -> None:
        """Add a job. Raises TraceError if its name is taken."""
        _free(job.name, self._job_names, where, MOST_JOBS, "jobs")
        self._jobs.append(job)

    def node(self, node: MachineNode, where: Where) -> None:
        """Add a node. Raises TraceError if its name is taken."""
        _free(node.name, self._node_names, where, MOST_NODES, "nodes")
        self._nodes.append(node)

    def requests(self, *, cores: float = 0, gib: float = 0, gpu_milli: int = 0) -> Mapping[str, int]:
        """Return amounts by resource; what is 0 is left out."""
        key = (round(cores * 1000), round(gib * GIB), gpu_milli)
        found = self._requests.get(key)
        if found is None:
            found = {name: each for name, each in zip((CPU, MEMORY, GPU), key, strict=True) if each}
            self._requests[key] = found
        return found

    def shared(self, value: T) -> T:
        """Return a value that is equal to this one, always the same: tenants and models of many jobs are alike."""
        found: T = self._shared.setdefault(value, value)
        return found

    def remark(self, sentence: str) -> None:
        """Remember a sentence about the whole."""
        self._remarks.append(sentence)

    def count(self, what: str) -> None:
        """Count one of something that was assumed or left out: "Jobs without an end, left out"."""
        self._counts[what] += 1

    def end_at(self, latest: float, begun: Mapping[str, float]) -> None:
        """Let jobs run until `latest`, as if each had begun when `begun` says by its name."""
        for place, job in enumerate(self._jobs):
            if job.name in begun:
                self._jobs[place] = replace(job, seconds=max(0.0, latest - begun[job.name]))

    def workload(self, *, from_first: bool = False) -> Workload:
        """Return the workload; `from_first`: times count from the first arrival."""
        jobs = self._jobs
        if from_first and jobs:
            origin = min(job.arrival for job in jobs)
            for place, job in enumerate(jobs):
                jobs[place] = replace(job, arrival=job.arrival - origin)
        jobs.sort(key=lambda job: job.arrival)
        counted = [f"{what}: {number:,}." for what, number in self._counts.items()]
        remarks = (*self._remarks, *counted, *self.problems.remarks())
        return Workload(self._name, tuple(jobs), tuple(self._nodes), remarks=remarks)


def _free(name: str, taken: set[str], where: Where, most: int, what: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME:
        raise TraceError(
            f"{where.file}, line {where.line}: {where.column}: expected a name of 1 to {LONGEST_NAME} characters, got "
            f"{len(name)}"
        )
    if name in taken:
        raise TraceError(f"{where.file}, line {where.line}: {where.column}: {printable(name)} appears twice")
    if len(taken) >= most:
        raise FatalTraceError(f"{where.file}, line {where.line}: expected at most {most:,} {what}")
    taken.add(name)
