"""The result of a job before anything has become of it: the fields that every result takes from its job."""

from __future__ import annotations

from extender.lab.results import JobResult
from extender.lab.workload import CPU, Job


def unstarted(job: Job) -> JobResult:
    """Return the result of a job that waits, and has never had a place."""
    return JobResult(
        name=job.name,
        tenant=job.tenant,
        priority=job.priority,
        pods=job.pods,
        gang=job.gang,
        gpu_milli=job.gpu_milli,
        cpu_milli=job.requests.get(CPU, 0) * job.pods,
        arrival=job.arrival,
        seconds=job.seconds,
    )
