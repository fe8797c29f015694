"""Records what a real API server answers to `operations.py`, into answers.json.

    python -m tests.golden.record --kube-apiserver PATH --etcd PATH

Both binaries are started here, on loopback and in a temporary folder, and stopped again. Needed only when operations
or the Kubernetes version change; the tests replay the recorded answers. (How to build the binaries with nothing but Go:
`k8s.io/kubernetes/cmd/kube-apiserver` and `go.etcd.io/etcd/server/v3` as `tool` lines of a go.mod.)
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.golden.control_plane import apiserver, etcd
from tests.golden.custom_resources import CUSTOM
from tests.golden.operations import SCENARIOS
from tests.golden.replay import Replay

ANSWERS = Path(__file__).with_name("answers.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kube-apiserver", type=Path, required=True)
    parser.add_argument("--etcd", type=Path, required=True)
    parser.add_argument("--only", default="", help="only scenarios whose names begin so; the others stay as recorded")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        storage = stack.enter_context(etcd(chosen.etcd, Path(folder)))
        http = stack.enter_context(apiserver(chosen.kube_apiserver, Path(folder), storage))
        version = http.get("/version").json()["gitVersion"]
        kept = json.loads(ANSWERS.read_text())["scenarios"] if chosen.only else {}
        answers = {
            name: Replay(http, name).run(steps) if name.startswith(chosen.only) else kept[name]
            for name, steps in {**SCENARIOS, **CUSTOM}.items()
        }
    # One line an answer: small, and a new recording shows line by line what has changed.
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(each, separators=(",", ":"), sort_keys=True) for each in given) + "\n]"
        for name, given in answers.items()
    ]
    ANSWERS.write_text(f'{{"server": "{version}", "scenarios": {{\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
