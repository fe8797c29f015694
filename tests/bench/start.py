"""How long from the start of `waggle serve` until /readyz says yes, in an empty cluster: nearly all of it is imports.

    python -m tests.bench.start [--rounds N] [--modules]

Each round is a process of its own, against the bench's API server in another one. CPU is that of the process until it
is ready: on a machine that others use too, it is the number that can be compared. `--modules` prints what was imported.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.client import Process

_ROUNDS = 7
#: Seconds.
_AIM = 0.9
#: Runs the command line beside a thread that asks until it is ready, then prints what it took, and ends the process.
_SCRIPT = """
import os, signal, sys, threading

def look(url_file):
    import time
    from http.client import HTTPConnection
    from urllib.parse import urlsplit
    address = None
    while True:
        time.sleep(0.005)
        if address is None and os.path.exists(url_file):
            address = urlsplit(open(url_file).read()).netloc
        if address is not None:
            connection = HTTPConnection(address, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                break
    print(time.time(), time.process_time(), *sys.modules, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

sys.argv[0] = "waggle"
threading.Thread(target=look, args=(sys.argv[-1],), daemon=True).start()
from extender.cli import main
main()
"""


class Start(NamedTuple):
    """One start: seconds of wall time and of CPU until it was ready, and the modules that were imported by then."""

    wall: float
    cpu: float
    modules: frozenset[str]


def start(api_server: str, *, config: str = "") -> Start:
    """Start `waggle serve` once, until it is ready; `config` is YAML beside the port and the API server's URL.

    Raises RuntimeError if it ends before.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "waggle.yaml")
        text = f"server: {{host: 127.0.0.1, port: 0}}\ncluster: {{server: '{api_server}'}}\nlog: {{level: error}}\n"
        file.write_text(text + config)
        command = [
            sys.executable,
            "-c",
            _SCRIPT,
            "serve",
            "--config",
            str(file),
            "--url-file",
            str(Path(folder, "url")),
        ]
        began = time.time()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if not done.stdout:
        raise RuntimeError(f"waggle serve ended before it was ready: {done.stderr[-2000:]}")
    ready, cpu, *modules = done.stdout.split()
    return Start(float(ready) - began, float(cpu), frozenset(modules))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.start", description="How long until it is ready?")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--modules", action="store_true", help="print the modules that were imported")
    chosen = parser.parse_args(arguments)
    with Process("tests.bench.cluster", "0") as api_server:
        starts = [start(api_server.url) for _ in range(chosen.rounds)]
    if chosen.modules:
        print(*sorted(starts[0].modules), sep="\n")
    for name, taken in (("wall", [each.wall for each in starts]), ("CPU", [each.cpu for each in starts])):
        print(f"{name:4}  median {median(taken):.2f} s, {min(taken):.2f} to {max(taken):.2f}")
    print(f"{len(starts[0].modules)} modules; aim {_AIM} s; load average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
