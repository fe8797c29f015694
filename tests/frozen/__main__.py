"""`python -m tests.frozen`: holds this Waggle against the frozen recordings, both ways; says where it differs.

python -m tests.frozen                    replay and run again; exit status 1 if anything differs
python -m tests.frozen --only hived-6     one of them
python -m tests.frozen --show hived-6     print it, in today's words
python -m tests.frozen --write            freeze anew: only when behaviour was changed on purpose, and said so
"""

from __future__ import annotations

import argparse
import sys

from tests.frozen import recording
from tests.frozen.plain import line_of
from tests.frozen.worlds import RUNS, Run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.frozen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [run.name for run in RUNS]
    parser.add_argument("--only", metavar="NAME", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--show", metavar="NAME", choices=names, help="print this one")
    parser.add_argument("--write", action="store_true", help="freeze anew")
    given = parser.parse_args()
    if given.show:
        print(*map(line_of, recording.read(given.show)), sep="\n")
        return 0
    runs = [run for run in RUNS if given.only in (None, run.name)]
    return _write(runs) if given.write else _compare(runs)


def _write(runs: list[Run]) -> int:
    total = 0
    for run in runs:
        lines = run.record()
        total += (size := recording.write(run.name, lines))
        print(f"{run.name:12} {len(lines):5} lines {size:7} bytes", flush=True)
    print(f"{total} bytes")
    return 0


def _compare(runs: list[Run]) -> int:
    status = 0
    for run in runs:
        then = recording.read(run.name)
        for how, now in (("replayed", recording.replay(then)), ("run again", run.record())):
            differs = recording.difference(run.name, then, now)
            status |= bool(differs)
            print(f"{run.name:12} {how:9} {'DIFFERS' if differs else 'the same'}: {len(then)} lines", flush=True)
            if differs:
                print(f"\n{differs}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
