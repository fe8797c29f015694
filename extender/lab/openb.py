"""Reads the traces of Alibaba's GPU cluster of 2023 ("openb"): nodes and pods as CSV files that the user gives.

Errors name the file, the line and the column. Nothing of the traces comes with Waggle. Format:
https://github.com/alibaba/clusterdata/blob/master/cluster-trace-gpu-v2023/README.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extender.lab.tables import Row, Table, TraceError

__all__ = ["NodeLine", "PodLine", "TraceError", "node_line", "pod_line", "read_nodes", "read_pods"]

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
#: Digits of a number.
_LONGEST = 15
#: GPUs of a node.
MOST_GPUS = 1000
#: MiB of a pod or a node: what a workload may have, in bytes.
_MOST_MIB = 1 << 33
#: What the published tables write for "no model".
_NONE = ("", "nan")


class NodeLine(NamedTuple):
    """A node: thousandths of a core, MiB, GPUs and their model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class PodLine(NamedTuple):
    """A pod: thousandths of a core, MiB, GPUs and thousandths of each, the models that it can use, as written."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    spec: str

    @property
    def all_milli(self) -> int:
        """Thousandths of GPUs that it asks for."""
        return self.gpus * self.gpu_milli


def read_nodes(lines: Iterable[str], file: str) -> list[NodeLine]:
    """Read a list of nodes. Raises TraceError."""
    return [node_line(row) for row in _named(Table(lines, file, NODE_COLUMNS), "sn", file)]


def read_pods(lines: Iterable[str], file: str) -> list[PodLine]:
    """Read a list of pods, of any phase. Raises TraceError."""
    return [pod_line(row) for row in _named(Table(lines, file, POD_COLUMNS), "name", file)]


def _named(table: Table, column: str, file: str) -> Iterator[Row]:
    """The rows of a table, after a look that no name stands there twice."""
    names: set[str] = set()
    for row in table:
        name = row.name(column)
        if name in names:
            raise TraceError(f"{file}, line {row.number}: {column}: {name} appears twice")
        names.add(name)
        yield row


def node_line(row: Row) -> NodeLine:
    """Return a row as a node. Raises TraceError."""
    cpu, memory, gpus = (_amount(row, column) for column in ("cpu_milli", "memory_mib", "gpu"))
    if gpus > MOST_GPUS:
        raise row.error("gpu", f"at most {MOST_GPUS} GPUs")
    model = row.text("model")
    return NodeLine(row.name("sn"), cpu, memory, gpus, model if gpus and model not in _NONE else "")


def pod_line(row: Row) -> PodLine:
    """Return a row as a pod. Raises TraceError.

    As the paper's program reads it: without GPUs, `gpu_milli` and `gpu_spec` count as absent; above 1000 it is 1000.
    """
    cpu, memory, gpus, milli = (_amount(row, column) for column in POD_COLUMNS[1:])
    spec = "|".join(part for part in row.text("gpu_spec").split("|") if part not in _NONE)
    milli = min(milli, 1000) if gpus else 0
    if gpus > 1 and milli < 1000:
        raise row.error("gpu_milli", f"1000 for {gpus} GPUs")
    return PodLine(row.name("name"), cpu, memory, gpus if milli else 0, milli, spec if milli else "")


def _amount(row: Row, column: str) -> int:
    text = row.text(column)
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise row.error(column, "a whole number, 0 or more")
    if column == "memory_mib" and int(text) > _MOST_MIB:
        raise row.error(column, f"at most {_MOST_MIB} MiB")
    return int(text)
