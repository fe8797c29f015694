"""Records what a real kube-scheduler on a real API server asks its extenders, into calls.json.

    python -m tests.golden.record_calls --binaries FOLDER [--runs 3] [WORKLOAD ...]

The folder has `etcd`, `kube-apiserver` and `kube-scheduler`; without the option it is what the environment variable
WAGGLE_CONTROL_PLANE names. Everything is started here, on loopback and in a temporary folder, and stopped again. Each
workload is played several times: what differs between the runs is recorded as such (`calls/sequences.py`). Workloads
that are named are recorded again and the others kept; without names, all are. Needed only when workloads or the
Kubernetes version change: the tests replay what was recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.golden.calls.schedulers import real
from tests.golden.calls.sequences import arranged, merge
from tests.golden.calls.stage import Stage
from tests.golden.calls.workloads import WORKLOADS
from tests.golden.control_plane import apiserver, etcd, write_kubeconfig

CALLS = Path(__file__).with_name("calls.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", type=Path, default=os.environ.get("WAGGLE_CONTROL_PLANE"), metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], metavar="WORKLOAD")
    chosen = parser.parse_args()
    if chosen.binaries is None:
        parser.error("--binaries or WAGGLE_CONTROL_PLANE must name a folder with the binaries")
    document = read()
    with _stage(Path(chosen.binaries)) as (stage, version):
        for name in chosen.workloads or WORKLOADS:
            runs = [arranged(stage.play(WORKLOADS[name])) for _ in range(chosen.runs)]
            document["workloads"][name] = merge(runs)
            document["scheduler"] = version
            _write(document)
            print(name, "" if all(run == runs[0] for run in runs) else "(differs from run to run)", flush=True)


@contextmanager
def _stage(binaries: Path) -> Iterator[tuple[Stage, str]]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        storage = stack.enter_context(etcd(binaries / "etcd", Path(folder)))
        http = stack.enter_context(apiserver(binaries / "kube-apiserver", Path(folder), storage))
        server = str(http.base_url).rstrip("/")
        cluster = {"kubeconfig": write_kubeconfig(Path(folder) / "kubeconfig", server)}
        version = http.get("/version").json()["gitVersion"]
        yield Stage(http, cluster, partial(real, binaries / "kube-scheduler", server)), version


def read() -> dict[str, Any]:
    if not CALLS.exists():
        return {"scheduler": "", "workloads": {}}
    document: dict[str, Any] = json.loads(CALLS.read_text())
    return document


def _write(document: dict[str, Any]) -> None:
    """One line a call: a new recording shows line by line what has changed."""
    found = {name: document["workloads"][name] for name in WORKLOADS if name in document["workloads"]}
    texts = [f'"{name}": {_lines(workload)}' for name, workload in found.items()]
    CALLS.write_text(f'{{"scheduler": "{document["scheduler"]}", "workloads": {{\n' + ",\n".join(texts) + "\n}}\n")


def _lines(value: Any, depth: int = 0) -> str:
    text = json.dumps(value, sort_keys=True)
    if not value or not isinstance(value, (dict, list)) or (len(text) < 100 and depth):
        return text
    if isinstance(value, dict) and ("verb" in value or depth > 3):
        return text
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_lines(item, depth + 1)}" for key, item in value.items()]
        return "{" + ",\n".join(inner) + "}"
    return "[" + ",\n".join(_lines(item, depth + 1) for item in value) + "]"


if __name__ == "__main__":
    main()
