"""Alibaba's trace of AI jobs with spot GPUs, 2026: jobs of high priority (HP), and spot jobs that give way to them.

Format: https://github.com/alibaba/clusterdata/blob/master/cluster-trace-v2026-spot-gpu/README.md
Columns may stand in any order: those of the published file of nodes are in another one than its documentation says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from extender.lab.importers.registry import Format, Part
from extender.lab.tables import Lines, Problems, Row
from extender.lab.workload import CPU, GPU, Job, MachineNode, Workload
from extender.lab.workload_builder import LATEST, MOST_CORES, MOST_GPUS, MOST_PODS, Where, WorkloadBuilder

_PRIORITIES = {"hp": 1, "spot": 0}


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    builder = WorkloadBuilder("spot", problems)
    if "nodes" in paths:
        with Lines(paths["nodes"]) as lines:
            for row in FORMAT.table(lines, "nodes", problems):
                with problems.of_a_line():
                    builder.node(_node(row), Where(lines.file, row.number, "node_name"))
    with Lines(paths["jobs"]) as lines:
        for row in FORMAT.table(lines, "jobs", problems):
            with problems.of_a_line():
                builder.job(_job(row, builder), Where(lines.file, row.number, "job_name"))
    builder.remark("HP jobs have priority 1, spot jobs 0. Memory is not known.")
    builder.remark("A job of several workers is a gang: all of them start together.")
    return builder.workload()


def _node(row: Row) -> MachineNode:
    gpus, cores = row.whole("gpu_capacity_num", MOST_GPUS), row.number_of("cpu_num", MOST_CORES)
    return MachineNode(row.name("node_name"), {CPU: round(cores * 1000), GPU: gpus * 1000}, row.text("gpu_model"))


def _job(row: Row, builder: WorkloadBuilder) -> Job:
    priority = _PRIORITIES.get(row.text("job_type").lower())
    if priority is None:
        raise row.error("job_type", "HP or Spot")
    workers = row.whole("worker_num", MOST_PODS)
    if workers == 0:
        raise row.error("worker_num", "1 or more")
    model = row.text("gpu_model")
    return Job(
        name=row.name("job_name"),
        arrival=row.number_of("submit_time", LATEST),
        requests=builder.requests(cores=row.number_of("cpu_request", MOST_CORES), gpu_milli=_gpu_milli(row)),
        seconds=row.number_of("duration", LATEST),
        pods=workers,
        gang=workers > 1,
        priority=priority,
        tenant=builder.shared(row.text("organization")),
        gpu_models=builder.shared((model,) if model else ()),
    )


def _gpu_milli(row: Row) -> int:
    """Return the GPUs of one worker in thousandths. A request below 1 is a part of a GPU."""
    gpus = row.number_of("gpu_request", MOST_GPUS)
    if gpus > 1 and gpus != int(gpus):
        raise row.error("gpu_request", "a whole number, or less than 1")
    return round(gpus * 1000)


FORMAT = Format(
    name="spot",
    title="Alibaba, cluster-trace-v2026-spot-gpu",
    url="https://github.com/alibaba/clusterdata/blob/master/cluster-trace-v2026-spot-gpu/README.md",
    parts=(
        Part("jobs", ("job_name", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration", "job_type")),
        Part("nodes", ("node_name", "gpu_model", "gpu_capacity_num", "cpu_num"), needed=False),
    ),
    read=_read,
)
