"""Workloads as files: JSON with `"format": "waggle-workload"`. Importers and the generator can write one, and any
program can.

    {"format": "waggle-workload", "version": 1, "name": "two jobs",
     "nodes": [{"name": "n0", "capacity": {"cpu": 64000, "memory": 274877906944, "gpu": 8000}}],
     "jobs": [{"name": "a", "arrival": 0, "seconds": 60, "pods": 8, "gang": true,
               "requests": {"cpu": 4000, "gpu": 1000}}]}
"""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec

from extender.lab.workload import Job, MachineNode, NodeChange, NodeFailure, Workload

FORMAT = "waggle-workload"
VERSION = 1
#: The largest file that is read, bytes.
LARGEST = 1 << 30


class WorkloadError(ValueError):
    """A workload cannot be used. The message names the job, node or failure, the field, and what was expected."""


class File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: str
    version: int = VERSION
    name: str = ""
    jobs: tuple[Job, ...] = ()
    nodes: tuple[MachineNode, ...] = ()
    failures: tuple[NodeFailure, ...] = ()
    changes: tuple[NodeChange, ...] = ()
    remarks: tuple[str, ...] = ()


def encode(workload: Workload) -> bytes:
    """Return the workload as JSON."""
    made = File(
        format=FORMAT,
        name=workload.name,
        jobs=workload.jobs,
        nodes=workload.nodes,
        failures=workload.failures,
        changes=workload.changes,
        remarks=workload.remarks,
    )
    return msgspec.json.encode(made) + b"\n"


def decode(text: bytes) -> Workload:
    """Return the workload in this JSON; its values are checked by `checking`. Raises WorkloadError."""
    try:
        found = msgspec.json.decode(text.removeprefix(BOM_UTF8), type=File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WorkloadError(f"not a {FORMAT}: {error}") from error
    if found.format != FORMAT:
        raise WorkloadError(f"format: expected {FORMAT}, got {found.format[:50]!r}")
    if found.version != VERSION:
        raise WorkloadError(f"version: expected {VERSION}, got {found.version}")
    return Workload(found.name, found.jobs, found.nodes, found.failures, found.remarks, found.changes)


def read(path: Path) -> Workload:
    """Return the workload of a file. Raises WorkloadError, which names the file, and OSError."""
    if path.stat().st_size > LARGEST:
        raise WorkloadError(f"{path}: larger than {LARGEST >> 20} MiB")
    try:
        return decode(path.read_bytes())
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
