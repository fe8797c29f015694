"""`python -m tests.attacks`: see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.catalogue import ATTACKS
from tests.attacks.report import as_json, as_markdown, line, summary
from tests.attacks.runner import Runner

#: The names of the attacks that broke the server, one a line.
_FAILED = Path(".pytest_cache") / "attacks-that-broke"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status is 0 if no attack missed the aims on a machine that gave the CPU time it was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description="Attacks on a server that runs.")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="attacks whose name has one of these in it")
    parser.add_argument("--list", action="store_true", help="print the attacks and their limits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table of docs/security.md to FILE")
    parser.add_argument("--server", choices=("waggle", "uvicorn", "granian"), default="waggle", help="what is attacked")
    parser.add_argument("--last-failed", action="store_true", help="those that broke the server the last time")
    chosen = parser.parse_args(arguments)
    if chosen.only:
        attacks = [each for each in ATTACKS if any(word in each.name for word in chosen.only)]
    else:
        attacks = [each for each in ATTACKS if chosen.list or not each.only_by_name]
    if chosen.server == "uvicorn":
        attacks = [each for each in attacks if each.comparable]
    if chosen.last_failed:
        failed = _FAILED.read_text().split() if _FAILED.is_file() else []
        attacks = [each for each in attacks if each.name in failed] or attacks
    if chosen.list:
        print("\n".join(f"{each.name:<34} {each.title}: {each.limit}" for each in attacks))
        return 0
    began = time.monotonic()
    with Runner(chosen.server) as runner:
        results = runner.run(attacks, lambda result: print(line(result), flush=True))
    _FAILED.parent.mkdir(exist_ok=True)
    _FAILED.write_text("\n".join(result.attack.name for result in results if result.broke))
    if chosen.json is not None:
        chosen.json.write_text(as_json(results))
    if chosen.markdown is not None:
        chosen.markdown.write_text(as_markdown(results))
    print(f"\n{summary(results, time.monotonic() - began)}")
    return 1 if not results or any(result.broke for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
