"""SenseTime's Helios: jobs of one Slurm cluster, April to September 2020, and the GPUs of its virtual clusters by day.

Format: https://github.com/S-Lab-System-Group/HeliosData (README.md). A job says how many GPUs and CPUs it has in
all, and on how many nodes: it becomes as many pods. The nodes of a virtual cluster carry its name as the label `vc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

from extender.lab.importers.registry import Format, Part
from extender.lab.tables import Lines, Problems, Row, Table, TraceError
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, Workload
from extender.lab.workload_builder import GIB, LATEST, MOST_CORES, MOST_GPUS, MOST_PODS, Where, WorkloadBuilder

_STATES = frozenset({"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "SUSPENDED"})
#: A node, as the paper's artifact describes one: https://github.com/S-Lab-System-Group/HeliosArtifact (2 x 12 cores
#: with two threads, 376 GB, 8 GPUs).
_GPUS, _THREADS, _MEMORY = 8, 48, 376


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    builder = WorkloadBuilder("helios", problems)
    if "nodes" in paths:
        with Lines(paths["nodes"]) as lines:
            _nodes(Table(lines, lines.file, ("date", "total"), problems=problems), builder)
    with Lines(paths["jobs"]) as lines:
        for row in FORMAT.table(lines, "jobs", problems):
            with problems.of_a_line():
                builder.job(_job(row, builder), Where(lines.file, row.number, "job_id"))
    builder.remark("A job becomes as many pods as it had nodes, a gang if these are several; memory is not known.")
    builder.remark("Tenants are virtual clusters (vc). All jobs have the same priority.")
    return builder.workload(from_first=True)


def _job(row: Row, builder: WorkloadBuilder) -> Job:
    if row.text("state") not in _STATES:
        raise row.error("state", f"one of {', '.join(sorted(_STATES))}")
    pods = max(1, row.whole("node_num", MOST_PODS))
    gpus, cpus = row.whole("gpu_num", MOST_GPUS * pods), row.number_of("cpu_num", MOST_CORES * pods)
    if gpus % pods:
        builder.count("Jobs whose nodes cannot share the GPUs evenly; each pod has the next whole number")
    return Job(
        name=row.name("job_id"),
        arrival=row.date("submit_time"),
        requests=builder.requests(cores=cpus / pods, gpu_milli=ceil(gpus / pods) * 1000),
        seconds=row.number_of("duration", LATEST),
        pods=pods,
        gang=pods > 1,
        tenant=builder.shared(row.text("vc")),
    )


def _nodes(table: Table, builder: WorkloadBuilder) -> None:
    """Add the nodes of the day with the most GPUs, so that as few jobs as possible are too large for the cluster."""
    clusters = [name for name in table.places if name not in ("date", "total")]
    best: Row | None = None
    most = -1
    for row in table:
        try:
            total = sum(row.whole(name, MOST_GPUS * MOST_PODS) for name in clusters)
        except TraceError as error:
            builder.problems.add(error)
            continue
        if total > most:
            most, best = total, row
    if best is None:
        return
    for cluster in clusters:
        left, number = best.whole(cluster, MOST_GPUS * MOST_PODS), 0
        while left > 0:
            capacity = {CPU: _THREADS * 1000, MEMORY: _MEMORY * GIB, GPU: min(left, _GPUS) * 1000}
            node = MachineNode(f"{cluster}-{number}", capacity, labels={"vc": cluster})
            builder.node(node, Where(table.file, best.number, cluster))
            left, number = left - _GPUS, number + 1
    builder.remark(
        f"Nodes are those of {best.text('date')}, the day with the most GPUs ({most:,}), with {_GPUS} GPUs, {_THREADS} "
        f"threads and {_MEMORY} GiB each, as the paper's artifact describes one of its clusters."
    )


FORMAT = Format(
    name="helios",
    title="SenseTime, Helios",
    url="https://github.com/S-Lab-System-Group/HeliosData",
    parts=(
        Part("jobs", ("job_id", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "duration")),
        Part("nodes", ("date", "total"), needed=False),
    ),
    read=_read,
)
