"""Alibaba's PAI of 2020: cluster-trace-gpu-v2020. A task is a job of as many pods as it has instances.

Format: https://github.com/alibaba/clusterdata/blob/master/cluster-trace-gpu-v2020/README.md
The published tables have no header; a file is then recognised by its name (`pai_task_table.csv`). Tables of sensors and
metrics are not needed. The table of instances is optional, and large: with it, a task runs as long as its longest
instance, without it from its start to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from pathlib import Path
from typing import NamedTuple

from extender.lab.importers.registry import Format, Part
from extender.lab.tables import NOTHING, FatalTraceError, Lines, Problems, Row, Table, TraceError
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, Workload
from extender.lab.workload_builder import (
    GIB,
    LATEST,
    MOST_CORES,
    MOST_GIB,
    MOST_GPUS,
    MOST_PODS,
    Where,
    WorkloadBuilder,
)
from extender.logs.printable import printable

#: Plans are in per cent of a core and of a GPU.
_PERCENT = 100.0
#: Jobs and tasks that are remembered while tables are joined.
_MOST = 20_000_000


class _JobLine(NamedTuple):
    user: str
    submitted: float | None
    inst_id: str


class _Tables(NamedTuple):
    jobs: Mapping[str, _JobLine]
    models: Mapping[str, str]
    longest: Mapping[tuple[str, str], float]


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    builder = WorkloadBuilder("pai", problems)
    for row, file in _rows(paths, "machines", problems):
        with problems.of_a_line():
            builder.node(_machine(row), Where(file, row.number, "machine"))
    tables = _Tables(_jobs(paths, problems), _models(paths, problems), _longest(paths, problems))
    for row, file in _rows(paths, "tasks", problems):
        with problems.of_a_line():
            _task(row, file, tables, builder)
    builder.remark("Each task of a job is a job of its own; if its instances are several, they are a gang.")
    if not tables.jobs:
        builder.remark("Without pai_job_table, a task comes when it started, and tenants are not known.")
    if not tables.models:
        builder.remark("Without pai_group_tag_table it is not known which tasks ask for a model of GPU; none does.")
    return builder.workload(from_first=True)


def _rows(paths: Mapping[str, Path], part: str, problems: Problems) -> Iterator[tuple[Row, str]]:
    """Yield the rows of a table, with a header or without; nothing if the table was not given."""
    if part not in paths:
        return
    columns = FORMAT.part(part).columns
    with Lines(paths[part]) as lines:
        for row in Table(lines, lines.file, columns, columns=columns, problems=problems):
            yield row, lines.file


def _machine(row: Row) -> MachineNode:
    cores, memory = row.number_of("cap_cpu", MOST_CORES), row.number_of("cap_mem", MOST_GIB)
    gpus = row.whole("cap_gpu", MOST_GPUS)
    capacity = {CPU: round(cores * 1000), MEMORY: round(memory * GIB), GPU: gpus * 1000}
    model = row.text("gpu_type") if gpus else ""
    return MachineNode(row.name("machine"), {name: each for name, each in capacity.items() if each}, model)


def _jobs(paths: Mapping[str, Path], problems: Problems) -> dict[str, _JobLine]:
    """Return users and times of submission, by job."""
    found: dict[str, _JobLine] = {}
    for row, file in _rows(paths, "jobs", problems):
        with problems.of_a_line():
            name = row.name("job_name")
            if name in found:
                raise TraceError(f"{file}, line {row.number}: job_name: {printable(name)} appears twice")
            found[name] = _JobLine(row.text("user"), row.number_or_none("start_time", LATEST), row.text("inst_id"))
            _bounded(found, file)
    return found


def _models(paths: Mapping[str, Path], problems: Problems) -> dict[str, str]:
    """Return the requested models of GPUs, by `inst_id` of the job."""
    found: dict[str, str] = {}
    for row, file in _rows(paths, "tags", problems):
        model = row.text("gpu_type_spec")
        if model not in NOTHING:
            found[row.text("inst_id")] = model
            _bounded(found, file)
    return found


def _longest(paths: Mapping[str, Path], problems: Problems) -> dict[tuple[str, str], float]:
    """Return the seconds of the longest instance, by job and task."""
    found: dict[tuple[str, str], float] = {}
    for row, file in _rows(paths, "instances", problems):
        with problems.of_a_line():
            start, end = row.number_or_none("start_time", LATEST), row.number_or_none("end_time", LATEST)
            if start and end and end >= start:
                key = (row.text("job_name"), row.text("task_name"))
                found[key] = max(found.get(key, 0.0), end - start)
                _bounded(found, file)
    return found


def _bounded(found: Sized, file: str) -> None:
    if len(found) > _MOST:
        raise FatalTraceError(f"{file}: expected at most {_MOST:,} entries")


def _task(row: Row, file: str, tables: _Tables, builder: WorkloadBuilder) -> None:
    job, task = row.name("job_name"), row.name("task_name")
    start, end = row.number_or_none("start_time", LATEST), row.number_or_none("end_time", LATEST)
    known = tables.jobs.get(job, _JobLine("", None, ""))
    if not start or not end or row.text("inst_num") in NOTHING:
        builder.count("Tasks without a start, an end or a number of instances, left out")
        return
    if end < start:
        raise row.error("end_time", f"a time not before start_time ({start:g})")
    if known.submitted is not None and known.submitted > start:
        builder.count("Tasks that started before their job was submitted; they come when they started")
    pods = row.whole("inst_num", MOST_PODS)
    if pods == 0:
        raise row.error("inst_num", "1 or more")
    model = tables.models.get(known.inst_id, "") if known.inst_id else ""
    made = Job(
        name=f"{job}/{task}",
        arrival=min(known.submitted, start) if known.submitted else start,
        requests=_requests(row, builder),
        seconds=tables.longest.get((job, task), end - start),
        pods=pods,
        gang=pods > 1,
        tenant=builder.shared(known.user),
        gpu_models=builder.shared((model,) if model else ()),
    )
    builder.job(made, Where(file, row.number, "task_name"))


def _requests(row: Row, builder: WorkloadBuilder) -> Mapping[str, int]:
    """Return the requests of one instance; resources without a plan are left out."""
    cores = (row.number_or_none("plan_cpu", MOST_CORES * _PERCENT) or 0) / _PERCENT
    memory = row.number_or_none("plan_mem", MOST_GIB) or 0
    percent = row.number_or_none("plan_gpu", MOST_GPUS * _PERCENT) or 0
    milli = round(percent * 10)
    if milli > 1000 and milli % 1000:
        builder.count("Tasks that plan more than one GPU and a part of one; each instance gets the next whole number")
        milli = -(-milli // 1000) * 1000
    return builder.requests(cores=cores, gib=memory, gpu_milli=milli)


def _part(words: str, file: str) -> Part:
    """Return a part from its name and its columns in order, and the name of its file."""
    name, *columns = words.split()
    return Part(name, tuple(columns), file=file, needed=name == "tasks")


FORMAT = Format(
    name="pai",
    title="Alibaba, cluster-trace-gpu-v2020 (PAI)",
    url="https://github.com/alibaba/clusterdata/blob/master/cluster-trace-gpu-v2020/README.md",
    parts=(
        _part(
            "instances job_name task_name inst_name worker_name inst_id status start_time end_time machine",
            "pai_instance_table",
        ),
        _part(
            "tasks job_name task_name inst_num status start_time end_time plan_cpu plan_mem plan_gpu gpu_type",
            "pai_task_table",
        ),
        _part("jobs job_name inst_id user status start_time end_time", "pai_job_table"),
        _part("tags inst_id user gpu_type_spec group workload", "pai_group_tag_table"),
        _part("machines machine gpu_type cap_cpu cap_mem cap_gpu", "pai_machine_spec"),
    ),
    read=_read,
)
