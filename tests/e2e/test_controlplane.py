"""The fixture itself: what it starts is real, and never outlives the test run, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e import build
from tests.e2e.cluster import ControlPlane
from tests.e2e.processes import Process, ProcessError
from tests.e2e.runs import KEPT, run_folder
from tests.e2e.world import RealCluster, eventually

ROOT = Path(__file__).parents[2]


# -- what it starts -------------------------------------------------------------------------------------------------


def test_waggle_may_do_what_it_needs_and_no_more(plane: ControlPlane) -> None:
    with plane.client("waggle") as waggle:
        assert waggle.get("/api/v1/pods").status_code == 200
        assert waggle.get("/api/v1/secrets").status_code == 403
        assert waggle.delete("/api/v1/namespaces/default/pods/any").status_code == 403


def test_disruption_budgets_have_real_numbers(w: RealCluster) -> None:
    w.nodes(1)
    labels = {"app": "web"}
    for i in range(4):
        w.pod(f"web{i}", labels=labels)
    w.all_placed([f"web{i}" for i in range(4)])
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    template = {"metadata": {"labels": labels}, "spec": w.pod_spec()}
    w.create(
        {
            "kind": "ReplicaSet",
            "metadata": {"name": "web"},
            "spec": {"replicas": 4, "selector": spec["selector"], "template": template},
        }
    )
    w.create({"kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec})
    eventually(
        lambda: (w.get("web", "PodDisruptionBudget") or {})["status"].get("disruptionsAllowed") == 1,
        lambda: f"one may go: {w.get('web', 'PodDisruptionBudget')}",
    )


def test_a_gracefully_deleted_pod_takes_its_time_and_goes(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("p")
    w.place("p")
    w.delete("p")
    assert (w.get("p") or {})["metadata"]["deletionTimestamp"]
    eventually(lambda: w.get("p") is None, "it is gone")


def test_kubectl_talks_to_it(w: RealCluster, programs: Mapping[str, Path]) -> None:
    w.nodes(1)
    command = [programs["kubectl"], f"--kubeconfig={w.cluster.kubeconfig('admin')}", "get", "nodes", "-o", "name"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "node/n0\n"


# -- how it ends ----------------------------------------------------------------------------------------------------

_RUNNER = """
import sys, time
from pathlib import Path
from tests.e2e.build import build
from tests.e2e.cluster import ControlPlane

with ControlPlane(build(), Path(sys.argv[1])) as plane:
    print(*(process.pid for process in plane.processes), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_nothing_survives_a_kill_of_the_test_run(programs: Mapping[str, Path], tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", _RUNNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    with runner.stdout:
        pids = [int(word) for word in runner.stdout.readline().split()]
    assert len(pids) == 4
    assert all(map(_runs, pids))
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    eventually(lambda: not any(map(_runs, pids)), lambda: f"all are gone: {[pid for pid in pids if _runs(pid)]}")


def _runs(pid: int) -> bool:
    """Whether it does anything: a dead one that nobody has waited for still has its pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_component_that_ends_by_itself_is_named_with_its_last_words(tmp_path: Path) -> None:
    process = Process("etcd", [sys.executable, "-c", "exit('no space left')"], tmp_path / "etcd.log")
    eventually(lambda: not process.alive, "it ended")
    with pytest.raises(ProcessError, match=r"etcd ended with status 1; .*etcd\.log ends with:\nno space left"):
        process.check()


def test_logs_of_the_last_runs_are_kept_and_data_is_not(tmp_path: Path) -> None:
    for i in range(KEPT + 2):
        (tmp_path / f"2020-{i}").mkdir()
    with run_folder(tmp_path) as folder:
        (folder / "etcd").mkdir()
        (folder / "etcd.log").touch()
    assert (folder / "etcd.log").exists()
    assert not (folder / "etcd").exists()
    assert len(list(tmp_path.iterdir())) == KEPT + 1


# -- what it is built from ------------------------------------------------------------------------------------------


def test_without_go_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WAGGLE_CONTROLPLANE_BIN", raising=False)
    with pytest.raises(build.BuildError, match=r"(?s)Go is not installed.*WAGGLE_CONTROLPLANE_BIN"):
        build.build()


def test_a_folder_of_ones_own_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, programs: Mapping[str, Path]
) -> None:
    monkeypatch.setenv("WAGGLE_CONTROLPLANE_BIN", str(tmp_path))
    with pytest.raises(build.BuildError, match="lacks etcd, kwok, kube-apiserver, kube-controller-manager"):
        build.build()
    for name, path in programs.items():
        (tmp_path / name).symlink_to(path)
    assert build.build() == {name: tmp_path / name for name in programs}


def test_a_build_that_was_interrupted_is_done_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a compiler that is a script: it writes what it is told to, and fails the first time."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(
        "#!/bin/sh\n"
        f'test "$1" = env && echo go1.99 && exit\ntest -e {tmp_path}/tried || {{ touch {tmp_path}/tried; '
        'echo disk full >&2; exit 1; }\nfor word; do test "$last" = -o && echo built > "$word"; last=$word; done\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("WAGGLE_E2E_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WAGGLE_CONTROLPLANE_BIN", raising=False)
    with pytest.raises(build.BuildError, match="disk full"):
        build.build()
    assert build.find("etcd") is None
    found = build.build()
    assert {path.read_text() for path in found.values()} == {"built\n"}
    assert build.find("etcd") == found["etcd"]
