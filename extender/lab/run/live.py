"""The state of one job in the cluster: which of its pods have nodes, since when it runs, and what it has lost.

    waiting --- a pod gets a place ---> partly placed --- all have one ---> running --- its time is over ---> done
       ^                                     |                                 |
       +------- a pod is evicted or its node fails: it begins again -----------+

A gang runs from the moment when all of its pods have places, and begins again as a whole. Each pod of another job runs
from its own start, and begins again alone.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from algorithm.fgd.needs import Need
from extender.embedded.kubescheduler.model import SchedPod
from extender.lab.job_results import unstarted
from extender.lab.results import JobResult, JobState
from extender.lab.workload import Job


class LivePod:
    """One pod of a job. It gets another `uid` each time a controller creates it again."""

    __slots__ = ("done", "job", "made", "node", "number", "placed_at", "saved", "since", "uid")

    def __init__(self, job: LiveJob, number: int) -> None:
        self.job = job
        self.number = number
        self.made = 0
        self.uid = ""
        #: Where it is, since when, and since when it runs; "" and None: it is nowhere, it does not run.
        self.node = ""
        self.placed_at: float | None = None
        self.since: float | None = None
        #: Seconds of its run that need not be repeated.
        self.saved = 0.0
        self.done = False


class LiveJob:
    """A job that has arrived and is not done."""

    __slots__ = (
        "ended",
        "epoch",
        "ever_placed",
        "evictions",
        "failures",
        "first_start",
        "is_broken",
        "job",
        "kind",
        "lost",
        "lost_cpu",
        "need",
        "number",
        "placed",
        "pods",
        "records",
        "start",
        "taken",
    )

    def __init__(
        self, job: Job, number: int, *, records: tuple[SchedPod, ...], taken: Need, need: Need, kind: Hashable | None
    ) -> None:
        self.job, self.number = job, number
        #: Its pods as they are created: one record for all, or one for each.
        self.records = records
        #: What one pod takes of a node, and what it needs of that: an algorithm may know whole GPUs only.
        self.taken, self.need = taken, need
        #: Jobs of one kind are interchangeable; None: there is none like it.
        self.kind = kind
        self.pods = [LivePod(self, index) for index in range(job.pods)]
        #: How many pods have places, have had one, and are done; how often the gang began again.
        self.placed = self.ever_placed = self.ended = self.epoch = 0
        self.first_start: float | None = None
        self.start: float | None = None
        self.evictions = self.failures = 0
        #: Whether one of its pods was lost and is not replaced, so that the job cannot be done.
        self.is_broken = False
        self.lost = self.lost_cpu = 0.0

    @property
    def is_gang(self) -> bool:
        return self.job.gang and self.job.pods > 1

    @property
    def waiting(self) -> int:
        """The number of pods that have no node and are not done."""
        return len(self.pods) - self.placed - self.ended

    def record(self, number: int) -> SchedPod:
        return self.records[0] if len(self.records) == 1 else self.records[number]

    def name(self, number: int) -> str:
        """Return the name of a pod: that of its record, or the job's name with a number."""
        if len(self.job.templates) == self.job.pods:
            return self.job.templates[number].name
        return f"{self.job.name}-{number}"

    def result(self, end: float | None, code: str = "", text: str = "") -> JobResult:
        """Return the result of the job up to now. `end`: when it was done; `code`, `text`: why it waits."""
        return replace(
            unstarted(self.job),
            state=JobState.DONE if end is not None else self._state(),
            first_start=self.first_start,
            start=self.start,
            end=end,
            evictions=self.evictions,
            failures=self.failures,
            lost_gpu_milli_seconds=self.lost,
            lost_cpu_milli_seconds=self.lost_cpu,
            code=code,
            text=text,
        )

    def _state(self) -> JobState:
        if not self.placed:
            return JobState.WAITING
        return JobState.PARTLY if self.waiting else JobState.RUNNING
