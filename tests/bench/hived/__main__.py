"""make bench-hived: how fast is HiveD, beside what the original was recorded to take on the same workload?

    python -m tests.bench.hived [--sizes N,...] [--levels N,...] [--alone | --end-to-end] [--quick] [--json FILE]
                                [--check]

The algorithm by itself, and end to end through /filter of a real server. What is measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.hived import alone, end_to_end
from tests.bench.hived.figures import Figure, aims, as_json, show
from tests.bench.hived.workload import LEVELS, sizes

#: Jobs of each kind by themselves and end to end; half of it in the largest cluster, as for the original.
_JOBS, _JOBS_END_TO_END, _LARGEST = 300, 200, 4000
_QUICK_SIZE, _QUICK_JOBS = 100, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hived", description="How fast is HiveD?")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--alone", action="store_true", help="only the algorithm by itself")
    part.add_argument("--end-to-end", action="store_true", help="only /filter over loopback")
    parser.add_argument("--sizes", default=None, metavar="N,...", help=f"numbers of machines, of {sizes()}")
    parser.add_argument(
        "--levels", default="4", metavar="N,...", help=f"cell levels from device to rack, of {[*LEVELS]}"
    )
    parser.add_argument("--quick", action="store_true", help="a small cluster and few jobs: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single measurement to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    wanted = chosen.sizes or (str(_QUICK_SIZE) if chosen.quick else ",".join(map(str, sizes())))
    machines, levels = _numbers(parser, wanted, sizes()), _numbers(parser, chosen.levels, LEVELS)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    figures: list[Figure] = []
    with console.status("starting") as status:
        for part, measure, jobs in (("alone", alone.measure, _JOBS), ("end", end_to_end.measure, _JOBS_END_TO_END)):
            if (part == "alone" and chosen.end_to_end) or (part == "end" and chosen.alone):
                continue
            for depth in levels:
                for size in machines:
                    number = _QUICK_JOBS if chosen.quick else jobs // 2 if size == _LARGEST else jobs
                    figures += measure(size, depth, number, status.update)
    show(console, figures)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(figures)), indent=2))
    return 1 if chosen.check and not all(aim.met for aim in aims(figures)) else 0


def _numbers(parser: argparse.ArgumentParser, text: str, known: Sequence[int]) -> list[int]:
    names = {str(each): each for each in known}
    chosen = text.split(",")
    for each in chosen:
        if each not in names:
            parser.error(f"{each} is none of {', '.join(names)}")
    return [names[each] for each in chosen]


if __name__ == "__main__":
    raise SystemExit(main())
