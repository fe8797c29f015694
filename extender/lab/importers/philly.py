"""Microsoft's Philly clusters, 2017: the list of jobs in JSON (`cluster_job_log`), and of machines.

Format: https://github.com/msr-fiddle/philly-traces/blob/master/README.md. The trace says where attempts of a job ran,
not what it asked for. It is taken to ask for the GPUs of its first attempt, on as few machines of 8 as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from extender.lab.importers.json_entries import Entry, entries
from extender.lab.importers.registry import JSON_LIST, Format, Part
from extender.lab.tables import Lines, Problems, TraceError, seconds
from extender.lab.workload import GPU, Job, MachineNode, Workload
from extender.lab.workload_builder import MOST_GPUS, MOST_PODS, Where, WorkloadBuilder

#: GPUs of the larger machines of the clusters.
_MACHINE = 8
_STATES = ("Pass", "Killed", "Failed")
_NEVER = (None, "", "None")


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    builder = WorkloadBuilder("philly", problems)
    if "nodes" in paths:
        with Lines(paths["nodes"]) as lines:
            for row in FORMAT.table(lines, "nodes", problems):
                with problems.of_a_line():
                    gpus = row.whole("number of GPUs", MOST_GPUS)
                    model = row.text("single GPU mem")
                    node = MachineNode(row.name("machineId"), {GPU: gpus * 1000}, model)
                    builder.node(node, Where(lines.file, row.number, "machineId"))
    latest, running = 0.0, dict[str, float]()
    for entry in entries(paths["jobs"]):
        with problems.of_a_line():
            latest = max(latest, _job(entry, builder, running))
    builder.end_at(latest, running)
    builder.remark("Jobs ask for the GPUs of their first attempt, on as few machines of 8 as possible.")
    builder.remark("Cpu and memory are not known. Tenants are virtual clusters (vc); all jobs have the same priority.")
    builder.remark("A job runs as long as all its attempts together.")
    return builder.workload(from_first=True)


def _job(entry: Entry, builder: WorkloadBuilder, running: dict[str, float]) -> float:
    """Add a job, and return the latest time in it. `running` gets the start of a job that has not ended."""
    if entry.text("status") not in _STATES:
        raise entry.error("status", f"one of {', '.join(_STATES)}")
    arrival = _time(entry, "submitted_time", entry.value("submitted_time"))
    attempts = entry.value("attempts")
    if not isinstance(attempts, list):
        raise entry.error("attempts", "a list")
    if arrival is None:  # the reader that Microsoft published allows it
        builder.count("Jobs without a time of submission, left out")
        return 0.0
    if not attempts:
        builder.count("Jobs without an attempt, left out")
        return arrival
    gpus = _gpus(entry, attempts[0])
    if gpus == 0:
        builder.count("Jobs without a GPU in their first attempt, left out")
        return arrival
    ran, latest, begun = _attempts(entry, attempts, builder)
    pods = ceil(gpus / _MACHINE)
    if gpus % pods:
        builder.count("Jobs whose pods cannot share the GPUs evenly; each pod has the next whole number")
    job = Job(
        name=entry.text("jobid"),
        arrival=arrival,
        requests=builder.requests(gpu_milli=ceil(gpus / pods) * 1000),
        seconds=ran,
        pods=pods,
        gang=pods > 1,
        tenant=builder.shared(entry.text("vc")),
    )
    builder.job(job, Where(entry.file, entry.line, "jobid"))
    if begun is not None:
        builder.count("Jobs that still ran at the end of the trace; they run until then")
        running[job.name] = begun - ran
    return max(arrival, latest)


def _gpus(entry: Entry, attempt: Any) -> int:
    """Return the number of GPUs of an attempt."""
    detail = attempt.get("detail") if isinstance(attempt, dict) else None
    if not isinstance(detail, list) or not all(
        isinstance(each, dict) and isinstance(each.get("gpus"), list) for each in detail
    ):
        raise entry.error("attempts[0].detail", "a list of machines with their gpus")
    gpus = sum(len(each["gpus"]) for each in detail)
    if gpus > MOST_GPUS * MOST_PODS:
        raise entry.error("attempts[0].detail", f"at most {MOST_GPUS * MOST_PODS} GPUs")
    return gpus


def _attempts(entry: Entry, attempts: list[Any], builder: WorkloadBuilder) -> tuple[float, float, float | None]:
    """Return the seconds of all attempts, the latest time in them, and when the last one began if it still runs."""
    ran, latest, begun = 0.0, 0.0, None
    for number, attempt in enumerate(attempts):
        if not isinstance(attempt, dict):
            raise entry.error(f"attempts[{number}]", "an object")
        start = _time(entry, f"attempts[{number}].start_time", attempt.get("start_time"))
        end = _time(entry, f"attempts[{number}].end_time", attempt.get("end_time"))
        begun = start if end is None else None
        if start is not None and end is not None and end >= start:
            ran += end - start
        elif begun is None or number < len(attempts) - 1:
            builder.count("Attempts without a start or an end, or with the end before the start: not counted")
        latest = max(latest, start or 0.0, end or 0.0)
    return ran, latest, begun


def _time(entry: Entry, path: str, value: Any) -> float | None:
    if value in _NEVER:
        return None
    found = seconds(value) if isinstance(value, str) else None
    if found is None:
        raise TraceError(f"{entry.where}: {path}: expected a time like 2017-10-07 01:11:39, got {value!r:.50}")
    return found


FORMAT = Format(
    name="philly",
    title="Microsoft, philly-traces",
    url="https://github.com/msr-fiddle/philly-traces",
    parts=(
        Part("jobs", beginning=JSON_LIST),
        Part("nodes", ("machineId", "number of GPUs", "single GPU mem"), needed=False),
    ),
    read=_read,
)
