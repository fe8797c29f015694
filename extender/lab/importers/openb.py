"""Alibaba's GPU cluster of 2023: cluster-trace-gpu-v2023, "openb". A pod is a job of one pod.

Format: https://github.com/alibaba/clusterdata/blob/master/cluster-trace-gpu-v2023/README.md
The files without times (`multigpu`) have five columns; their pods come a second apart, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from extender.lab.importers.registry import Format, Part
from extender.lab.openb import NODE_COLUMNS, POD_COLUMNS, node_line, pod_line
from extender.lab.tables import NOTHING, Lines, Problems, Row, Table
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, Workload
from extender.lab.workload_builder import LATEST, Where, WorkloadBuilder

_MIB_OF_A_GIB = 1024


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    builder = WorkloadBuilder("openb", problems)
    if "nodes" in paths:
        with Lines(paths["nodes"]) as lines:
            _nodes(Table(lines, lines.file, NODE_COLUMNS, problems=problems), lines.file, builder)
    with Lines(paths["pods"]) as lines:
        table = Table(lines, lines.file, POD_COLUMNS, problems=problems)
        timed = "creation_time" in table.places
        for row in table:
            with problems.of_a_line():
                _pod(row, lines.file, builder, timed=timed)
    if not timed:
        builder.remark("The file has no times: pods come a second apart, in its order, and run for ever.")
    builder.remark("The quality of service (qos) is not used: all pods have the same priority and tenant.")
    return builder.workload()


def _nodes(table: Table, file: str, builder: WorkloadBuilder) -> None:
    for row in table:
        with builder.problems.of_a_line():
            line = node_line(row)
            capacity = {CPU: line.cpu_milli, MEMORY: line.memory_mib << 20, GPU: line.gpus * 1000}
            node = MachineNode(line.name, {name: each for name, each in capacity.items() if each}, line.model)
            builder.node(node, Where(file, row.number, "sn"))


def _pod(row: Row, file: str, builder: WorkloadBuilder, *, timed: bool) -> None:
    line = pod_line(row)
    arrival, seconds = _times(row) if timed else (float(row.number - 2), None)
    if timed and seconds is None:
        builder.count("Pods that were never scheduled and have no run time, left out")
        return
    job = Job(
        name=line.name,
        arrival=arrival,
        requests=builder.requests(
            cores=line.cpu_milli / 1000, gib=line.memory_mib / _MIB_OF_A_GIB, gpu_milli=line.all_milli
        ),
        seconds=seconds,
        gpu_models=builder.shared(tuple(dict.fromkeys(line.spec.split("|"))) if line.spec else ()),
    )
    builder.job(job, Where(file, row.number, "name"))


def _times(row: Row) -> tuple[float, float | None]:
    """Return when a pod arrives, and how long it runs."""
    arrival = row.number_of("creation_time", LATEST)
    if row.text("scheduled_time") in NOTHING:
        return arrival, None
    start, end = row.number_of("scheduled_time", LATEST), row.number_of("deletion_time", LATEST)
    if end < start:
        raise row.error("deletion_time", f"a time not before scheduled_time ({start:g})")
    return arrival, end - start


FORMAT = Format(
    name="openb",
    title="Alibaba, cluster-trace-gpu-v2023",
    url="https://github.com/alibaba/clusterdata/blob/master/cluster-trace-gpu-v2023/README.md",
    parts=(Part("pods", POD_COLUMNS), Part("nodes", NODE_COLUMNS, needed=False)),
    read=_read,
)
