"""What a simulation says: one `Run` for each algorithm, side by side in `Results`. Plain data that msgspec encodes.

Times are seconds from the beginning of the trace. GPUs and cores are in thousandths, and so are sums over time: a
`gpu_milli_seconds` of 3,600,000 is one GPU for an hour. The same workload, options and seed give the same results, byte
for byte, in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

#: The version of encoded results. A reader refuses another one.
VERSION = 1
#: Most points of a series.
MOST_POINTS = 1024
#: Lists that are as long as the workload, and what is encoded together of them.
_LONG, _TOGETHER = frozenset({"runs", "jobs", "stays"}), 1000


class JobState(StrEnum):
    """How a job ended."""

    DONE = "done"
    #: It ran when the simulation ended.
    RUNNING = "running"
    #: Some of its pods had a place when the simulation ended, and it could not begin.
    PARTLY = "partly placed"
    WAITING = "waiting"


class JobResult(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What became of one job."""

    name: str
    tenant: str = ""
    priority: int = 0
    pods: int = 1
    gang: bool = False
    #: Of all pods together.
    gpu_milli: int = 0
    cpu_milli: int = 0
    arrival: float
    #: How long one run takes; None: it never ends.
    seconds: float | None = None
    state: JobState = JobState.WAITING
    #: When its first pod had a place for the first time; when the last of its pods had one for the first time (of a
    #: gang: when all had one at the same time); when it was done. None: never.
    first_start: float | None = None
    start: float | None = None
    end: float | None = None
    #: How often it (of a job that is no gang: one of its pods) began again, because it was evicted or its node failed.
    evictions: int = 0
    failures: int = 0
    #: GPU time of runs that had to begin again, and core time of them.
    lost_gpu_milli_seconds: float = 0.0
    lost_cpu_milli_seconds: float = 0.0
    #: Why it waits at the end: a code of `algorithm.reasons`, if the algorithm gave one, and a text.
    code: str = ""
    text: str = ""

    @property
    def delay(self) -> float | None:
        """From its arrival until all of its pods had a place; None: never."""
        return None if self.start is None else self.start - self.arrival

    @property
    def completion(self) -> float | None:
        """From its arrival to its end; None: it was not done."""
        return None if self.end is None else self.end - self.arrival


class Ended(StrEnum):
    """Why a pod left its node."""

    DONE = "done"
    EVICTED = "evicted"
    FAILED = "node failed"
    #: Another pod of its gang was evicted, or lost its node.
    RESTARTED = "restarted"
    #: The simulation ended.
    CUT = "cut"


class Stay(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod on a node: `pod` is its number in the job."""

    job: str
    pod: int
    node: str
    start: float
    end: float
    ended: Ended


class Point(msgspec.Struct, frozen=True, gc=False):
    """The cluster during one step of a series: means over the step, and counts of what happened in it."""

    #: When the step begins.
    at: float
    #: GPUs: there, taken by pods, and taken by jobs that run (a gang that waits for more of its pods does not).
    gpu_milli: float
    gpu_allocated_milli: float
    gpu_running_milli: float
    #: Free, and of no use for a typical pod (`measures` has the definition).
    gpu_fragmented_milli: float
    cpu_milli: float
    cpu_allocated_milli: float
    cpu_running_milli: float
    waiting_jobs: float
    waiting_pods: float
    running_jobs: float
    nodes: float
    arrivals: int
    ends: int
    evictions: int
    failures: int


class Series(msgspec.Struct, frozen=True):
    """At most `MOST_POINTS` points, `step` seconds apart, from 0 on."""

    step: float = 0.0
    points: tuple[Point, ...] = ()


class Spread(msgspec.Struct, frozen=True):
    """Seconds of some jobs: how many jobs, mean, percentiles (the smallest value that so many per cent do not exceed)
    and the largest. All None without jobs."""

    jobs: int = 0
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    most: float | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one tenant, or of one size."""

    name: str
    jobs: int
    done: int
    #: Never had all of their places.
    never_started: int
    delay: Spread
    completion: Spread
    #: The mean of (delay + run) / run, with runs of less than ten seconds counted as ten; None: nobody was done.
    slowdown: float | None = None
    gpu_milli_seconds: float = 0.0
    evictions: int = 0
    failures: int = 0


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of one run. `measures` has the definitions, docs/simulate.md the sources."""

    #: From the first arrival to the last end; the time until which the run was followed.
    makespan: float
    until: float
    all: Group
    tenants: tuple[Group, ...]
    sizes: tuple[Group, ...]
    #: Of the GPU time of all nodes: taken by pods; used by runs that were not lost. None: there are no GPUs.
    gpu_allocation: float | None = None
    gpu_utilisation: float | None = None
    cpu_allocation: float | None = None
    cpu_utilisation: float | None = None
    #: Mean of fragmented GPUs by all GPUs, and by GPUs that are not allocated.
    gpu_fragmentation: float | None = None
    gpu_fragmentation_of_idle: float | None = None
    #: GPU time: of all nodes; taken; done and in progress; lost; held by gangs that waited for more of their pods.
    gpu_milli_seconds: float = 0.0
    allocated_gpu_milli_seconds: float = 0.0
    done_gpu_milli_seconds: float = 0.0
    lost_gpu_milli_seconds: float = 0.0
    held_gpu_milli_seconds: float = 0.0
    evictions: int = 0
    failures: int = 0
    #: Jain's index of the tenants' slowdowns, 1 (all alike) to 1 / number of tenants; None: less than two tenants.
    fairness: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One algorithm on the workload."""

    #: What the run is called: the algorithm's name, or what the user called it.
    name: str
    algorithm: str
    seed: int = 0
    jobs: tuple[JobResult, ...] = ()
    series: Series = Series()
    measures: Measures
    #: What had to be assumed to translate the workload.
    remarks: tuple[str, ...] = ()
    #: Why the run ended early; "" if it ran to its end.
    stopped: str = ""
    #: How often kube-scheduler tried to place a pod.
    attempts: int = 0
    #: Only if they were asked for.
    stays: tuple[Stay, ...] = ()


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Several algorithms on one workload."""

    version: int = VERSION
    release: str = ""
    workload: str = ""
    jobs: int = 0
    pods: int = 0
    nodes: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    horizon: float | None = None
    remarks: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()


def encode(results: Results) -> bytes:
    """Return the results as JSON, in one piece."""
    return b"".join(pieces(results))


def pieces(results: Results) -> Iterator[bytes]:
    """Yield the same JSON in pieces of some hundred KiB: each ends between two tokens."""
    yield from _object(results, 0)
    yield b"\n"


def _object(value: Results | Run, depth: int) -> Iterator[bytes]:
    """As msgspec indents it by one space, but its long lists are never encoded as a whole."""
    separator = b"{"
    for name in value.__struct_fields__:
        yield separator + _line(depth + 1) + msgspec.json.encode(name) + b": "
        found = getattr(value, name)
        yield from _array(found, depth + 1) if name in _LONG else (_indented(found, depth + 1),)
        separator = b","
    yield _line(depth) + b"}"


def _array(items: Sequence[Any], depth: int) -> Iterator[bytes]:
    if not items or not isinstance(items, tuple):
        yield _indented(items, depth)
        return
    separator = b"["
    for start in range(0, len(items), _TOGETHER):
        some = items[start : start + _TOGETHER]
        if isinstance(some[0], Run):
            for run in some:
                yield separator + _line(depth + 1)
                yield from _object(run, depth + 1)
                separator = b","
        else:
            yield separator + _indented(some, depth)[len(b"[") : -len(_line(depth) + b"]")]
            separator = b","
    yield _line(depth) + b"]"


def _indented(value: object, depth: int) -> bytes:
    """A value that stands so deep. There is no line break in the texts of JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).replace(b"\n", _line(depth))


def _line(depth: int) -> bytes:
    return b"\n" + b" " * depth


def decode(text: bytes) -> Results:
    """Return results from JSON. Raises ValueError for anything else."""
    try:
        found = msgspec.json.decode(text, type=Results)
    except msgspec.DecodeError as error:
        raise ValueError(f"not results of a simulation: {error}") from error
    if found.version != VERSION:
        raise ValueError(f"version: expected {VERSION}, got {found.version}")
    return found
