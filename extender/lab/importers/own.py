"""Waggle's own format, one object of JSON that `waggle trace` writes: extender/lab/workload_file.py describes it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

from extender.lab.checking import check_contents
from extender.lab.importers.registry import JSON_OBJECT, Format, Part
from extender.lab.tables import FatalTraceError, Problems, open_file
from extender.lab.workload import Workload
from extender.lab.workload_file import LARGEST, WorkloadError, decode


def _read(paths: Mapping[str, Path], _: Problems) -> Workload:
    """Read the whole file: broken parts cannot be skipped."""
    path = paths["workload"]
    try:
        with open_file(path) as file:
            text = file.read(LARGEST + 1)
    except (EOFError, zlib.error) as error:
        raise FatalTraceError(f"{path}: expected a whole gzip file: {error}") from error
    if len(text) > LARGEST:
        raise FatalTraceError(f"{path}: larger than {LARGEST >> 20} MiB")
    try:
        workload = decode(text)
        check_contents(workload)
    except WorkloadError as error:
        raise FatalTraceError(f"{path}: {error}") from error
    return workload


FORMAT = Format(
    name="waggle",
    title="Waggle's own format",
    url="docs/simulate.md",
    parts=(Part("workload", beginning=JSON_OBJECT),),
    read=_read,
)
