"""`waggle simulate --trace openb`: the experiment of "Beware of Fragmentation" (USENIX ATC 2023).

docs/algorithm-fgd.md shows it. Pods come in random order until they have asked for 130 % of the cluster's GPUs, and
none leaves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from algorithm.fgd.settings import Policy
from extender.lab.fgd_study import Columns, Study, columns
from extender.lab.openb import TraceError, read_nodes, read_pods
from extender.lab.tables import Lines
from extender.operate.output import say
from extender.operate.output_files import OutputError, check_outputs, write_output
from extender.operate.refusal import refuse

#: The first seed of the published runs.
FIRST_SEED = 42
#: Pods between two updates of the progress on a terminal.
_OFTEN = 200
#: The columns that the text shows, per cent of arrived requests.
_SHOWN = (25, 50, 75, 90, 95, 100, 130)


def run_fgd_study(nodes: Path, pods: Path, *, policy: Policy, seed: int, json_file: Path | None) -> None:
    """Run the experiment once, and write the result. Raises typer.Exit with status 2 for what cannot be used."""

    try:
        check_outputs([("--json", json_file)], [nodes, pods])
        with Lines(nodes) as lines:
            read = read_nodes(lines, str(nodes))
        with Lines(pods) as lines:
            made = Study(read, read_pods(lines, str(pods)), policy=policy, seed=seed)
    except (OSError, OutputError, TraceError) as error:
        raise refuse(error) from error
    found = columns(_with_progress(made), made.total)
    result = {"trace": "openb", "algorithm": "fgd", "policy": policy, "seed": seed}
    result |= _numbers(made, found)
    if json_file is None:
        say(_text(made, found))
        return
    text = json.dumps(result, indent=1)
    try:
        if str(json_file) == "-":
            say(text)
        else:
            write_output(json_file, text + "\n")
            say(_text(made, found))
    except OSError as error:
        raise refuse(error) from error


def _with_progress(study: Study) -> list[Any]:
    if not sys.stderr.isatty():
        return list(study.lines())
    lines = []
    with typer.progressbar(length=len(study.pods), label="placing pods", file=sys.stderr) as bar:
        for number, line in enumerate(study.lines(), 1):
            lines.append(line)
            if number % _OFTEN == 0:
                bar.update(_OFTEN)
    return lines


def _numbers(study: Study, found: Columns) -> dict[str, Any]:
    return {
        "total_gpus": study.total // 1000,
        "pods": len(study.pods),
        "failed": study.failed,
        "gpu_allocation_percent_at_100": found.allocation[100],
        "fragmentation_percent_of_cluster_at_100": found.amount[100],
        "fragmentation_percent_of_idle_at_100": found.ratio[100],
        "gpu_allocation_percent": found.allocation,
        "fragmentation_percent_of_cluster": found.amount,
        "fragmentation_percent_of_idle": found.ratio,
    }


def _text(study: Study, found: Columns) -> str:
    rows = [("requested", "allocated", "fragmented", "of what is idle")]
    for k in _SHOWN:
        rows.append((f"{k} %", _share(found.allocation[k]), _share(found.amount[k]), _share(found.ratio[k])))
    table = "\n".join("".join(f"{cell:>12}" if n < 3 else f"{cell:>18}" for n, cell in enumerate(row)) for row in rows)
    many = f"{len(study.pods)} pods, {study.failed} of them without a place, on {study.total // 1000} GPUs"
    return f"{many}. Per cent of all GPUs:\n{table}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} %"
