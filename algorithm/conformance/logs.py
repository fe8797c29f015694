"""Writes failures as recordings that `waggle replay` opens.

The kit must not import the server, which knows the format. So the writer is found by an entry point:

    [project.entry-points."waggle.conformance"]
    write_log = "extender.operate.conformance_log:write_log"
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from algorithm.conformance.results import BAD, Report, Result

GROUP, NAME = "waggle.conformance", "write_log"


def write_logs(folder: Path, report: Report) -> Iterator[tuple[Result, Path]]:
    """Write the log of each failure that has calls into the folder. Yields each with its file. Raises OSError.

    Writes nothing where Waggle's server is not installed.
    """
    writers = list(entry_points(group=GROUP, name=NAME))
    failed = [result for result in report.results if result.status in BAD and result.calls]
    if not writers or not failed:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write = writers[0].load()
    for result in failed:
        path = folder / f"{result.check}.log"
        write(path, report, result)
        yield result, path
