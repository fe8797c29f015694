"""`waggle plan`, `plan diff` and `apply` as people call them: what they print, their exit status, what they create."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.cluster_objects import node, pod

SHAPE = ("--nodes", "2", "--node-shape", "cpu=2")


def waggle(*arguments: object, **more: Any) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], **more)


def job(name: str, pods: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def written(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return path


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Five pods of which four fit on two nodes of two cores."""
    return written(tmp_path / "jobs.yaml", job("a", 3), job("b", 2))


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two nodes of two cores."""
    with serve_in_thread() as found:
        for name in ("n1", "n2"):
            found.create(node(name, capacity={"cpu": "2", "memory": "8Gi", "pods": "110"}))
        yield found


# -- waggle plan ---------------------------------------------------------------------------------------------------


def test_a_plan_says_what_runs_what_waits_and_why(jobs: Path) -> None:
    shown = waggle("plan", "-f", jobs, *SHAPE)
    assert shown.exit_code == 2, shown.stderr
    assert "+ Job/default/a" in shown.stdout
    assert "? Pod/default/b-x" in shown.stdout
    assert "Unschedulable: kube-scheduler's own filters leave no node: 0/2 nodes are available" in shown.stdout
    assert "Plan: 4 will run, 1 will wait." in shown.stdout
    assert "Made with the algorithm packing for 2 empty nodes of cpu=2." in shown.stdout


def test_nothing_waits_is_status_0_and_files_may_follow_without_an_option(jobs: Path) -> None:
    shown = waggle("plan", jobs, "--nodes", 3, "--node-shape", "cpu=2")
    assert (shown.exit_code, "Plan: 5 will run." in shown.stdout) == (0, True), shown.output


def test_standard_input_is_read(jobs: Path) -> None:
    shown = waggle("plan", "-f", "-", *SHAPE, input=jobs.read_text())
    assert "4 will run, 1 will wait" in shown.stdout


@pytest.mark.parametrize("form", ["json", "yaml", "markdown", "svg", "dot"])
def test_every_form_is_printed_alone(jobs: Path, form: str) -> None:
    shown = waggle("plan", "-f", jobs, *SHAPE, "-o", form)
    assert shown.exit_code == 2, shown.stderr
    begins = {"json": "{", "yaml": "version: 1", "markdown": "### Plan: 4 will run", "svg": "<svg ", "dot": "digraph"}
    assert shown.stdout.startswith(begins[form])
    if form == "json":
        assert json.loads(shown.stdout)["total"]["waits"] == 1


def test_the_same_input_gives_the_same_bytes(jobs: Path) -> None:
    first, second = (waggle("plan", "-f", jobs, *SHAPE, "-o", "json", "--add-nodes", 1).stdout for _ in range(2))
    assert first == second


def test_a_what_if_shows_the_difference(jobs: Path) -> None:
    shown = waggle("plan", "-f", jobs, *SHAPE, "--add-nodes", 1)
    assert shown.exit_code == 0, shown.output
    assert "With the change: 1 pod more would run." in shown.stdout
    drained = waggle("plan", "-f", jobs, *SHAPE, "--drain", "node-0", "-o", "json")
    assert json.loads(drained.stdout)["difference"]["pods_fewer"] == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-f", "/there/is/none.yaml"], "/there/is/none.yaml: No such file or directory"),
        (["--drain", "n9"], "drain: there is no node n9"),
        (["--delete", "job/none"], "delete: job/default/none: the cluster has no such object"),
        (["--algorithm", "none"], "none"),
        (["--snapshot", "/there/is/none"], "/there/is/none: No such file or directory"),
        (["--add-nodes", "/there/is/none"], "/there/is/none: No such file or directory"),
        (["--add-nodes", "0"], "nodes: expected 1 to 20000, got 0"),
        (["--node-shape", "cpu"], "expected RESOURCE=QUANTITY"),
        (["--settings", "/there/is/none"], "/there/is/none"),
    ],
)
def test_what_cannot_be_planned_is_told_with_status_1(arguments: Sequence[str], why: str) -> None:
    given = arguments if "--snapshot" in arguments else ["--nodes", "2", *arguments]
    shown = waggle("plan", *given)
    assert (shown.exit_code, shown.stdout) == (1, ""), shown.output
    assert why in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--unknown"],
        ["--delete", "a"],
        ["--delete", "node/a/b"],
        ["--priority", "job/a"],
        ["--priority", "job/a=2147483648"],
        ["--priority", "job/a=x"],
        ["--nodes", "1", "--snapshot", "s"],
        ["--nodes", "1", "--kubeconfig", "s"],
        ["diff", "a"],
        ["-o", "pdf"],
    ],
)
def test_a_wrong_call_is_status_1_as_2_means_that_something_waits(arguments: Sequence[str]) -> None:
    assert waggle("plan", *arguments).exit_code == 1


def test_invalid_manifests_are_told_with_file_document_and_field(tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.yaml", job("a", 1), job("b", 1, cpu="much"))
    shown = waggle("plan", "-f", bad, *SHAPE)
    assert shown.exit_code == 1
    assert "bad.yaml, document 2" in shown.stderr
    assert "cpu" in shown.stderr


@pytest.mark.slow
def test_ctrl_c_ends_a_plan_whose_input_does_not_end(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.yaml"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "extender.cli", "plan", "-f", str(pipe), *SHAPE]
    ends = subprocess.PIPE
    with subprocess.Popen(command, stderr=ends, stdout=ends, text=True) as process, pipe.open("w") as writer:
        writer.write("# and so on\n")  # it reads now
        writer.flush()
        printed, told = _interrupted(process)
    assert (process.returncode, printed) == (130, "")
    assert "stopped, nothing was changed" in told


def _interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it prints after Ctrl-C. A signal that comes just before a read counts only after it: once is not enough."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=5)
    raise AssertionError("it does not end")


# -- waggle plan diff ----------------------------------------------------------------------------------------------


def test_two_plans_are_compared(jobs: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    waggle("plan", "-f", jobs, *SHAPE, "--out", a)
    waggle("plan", "-f", jobs, "--nodes", 3, "--node-shape", "cpu=2", "--out", b)
    shown = waggle("plan", "diff", a, b)
    assert shown.exit_code == 2, shown.output
    assert shown.stdout.startswith("1 pod more would run.")
    assert "What changed in between:\n  Node/node-2 is new" in shown.stdout
    assert waggle("plan", "diff", a, a).exit_code == 0
    assert json.loads(waggle("plan", "diff", a, b, "--json").stdout)["pods_more"] == 1


def test_what_is_no_plan_is_told(tmp_path: Path, jobs: Path) -> None:
    shown = waggle("plan", "diff", jobs, jobs)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "jobs.yaml: is no plan" in shown.stderr.replace("\n", "")


# -- waggle apply --------------------------------------------------------------------------------------------------


def planned(cluster: EmbeddedCluster, file: Path, *more: object) -> Path:
    """The plan file for these manifests in the cluster."""
    out = file.with_suffix(".plan.json")
    shown = waggle("plan", "-f", file, "--server", cluster.url, "--out", out, *more)
    assert shown.exit_code in (0, 2), shown.output
    return out


def created(cluster: EmbeddedCluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cluster.objects("jobs"))


def test_a_plan_file_is_for_its_owner_alone(cluster: EmbeddedCluster, jobs: Path) -> None:
    assert stat.S_IMODE(planned(cluster, jobs).stat().st_mode) == 0o600


def test_what_was_planned_is_created_once(cluster: EmbeddedCluster, jobs: Path) -> None:
    out = planned(cluster, jobs)
    tried = waggle("apply", out, "--server", cluster.url, "--dry-run")
    assert (tried.exit_code, created(cluster)) == (0, []), tried.output
    assert "Job/default/a would be created" in tried.stdout
    shown = waggle("apply", out, "--server", cluster.url, "--if-fingerprint")
    assert (shown.exit_code, created(cluster)) == (0, ["a", "b"]), shown.output
    assert "The state is the one that was planned for" in shown.stdout
    again = waggle("apply", out, "--server", cluster.url)
    assert again.exit_code == 0
    assert "Job/default/a exists already, and is left as it is" in again.stdout


def test_a_change_that_does_not_matter_does_not_matter(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    out = planned(cluster, written(tmp_path / "one.yaml", job("a", 1)))
    cluster.create(pod("other", nodeName="n2", requests={"cpu": "1"}))
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (0, ["a"]), shown.output
    assert "The state has changed since, but not where it matters." in shown.stdout


def test_a_change_that_matters_is_told_and_nothing_is_created(cluster: EmbeddedCluster, jobs: Path) -> None:
    out = planned(cluster, jobs)
    for name in ("x", "y"):
        cluster.create(pod(name, nodeName="n2", requests={"cpu": "1"}))
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (2, []), shown.output
    assert "The plan does not hold any more; nothing was created." in shown.stdout
    assert "would wait (Unschedulable); the plan says that it would run on" in shown.stdout
    assert "Pod/default/x on n2 is new" in shown.stdout
    assert waggle("apply", out, "--server", cluster.url, "--any-state").exit_code == 0
    assert created(cluster) == ["a", "b"]


def test_what_the_api_server_refuses_is_told_before_anything_is_created(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    custom = {"apiVersion": "foo.dev/v1", "kind": "Foo", "metadata": {"name": "f"}}
    out = planned(cluster, written(tmp_path / "custom.yaml", job("a", 1), custom))
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (1, [])
    assert "the API server does not know foo.dev/v1 Foo" in shown.stderr.replace("\n", " ")


def test_a_failure_midway_says_what_exists_and_a_repetition_ends_it(cluster: EmbeddedCluster, jobs: Path) -> None:
    out = planned(cluster, jobs)
    cluster.faults.inject("status", method="POST", path="/jobs\\?fieldManager", skip=1, status=500)
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (1, ["a"]), shown.output
    assert "Job/default/a created" in shown.stdout
    assert "Do not exist: Job/default/b. Calling this again creates them." in shown.stderr.replace("\n", " ")
    again = waggle("apply", out, "--server", cluster.url)
    assert (again.exit_code, created(cluster)) == (0, ["a", "b"]), again.output


def test_a_write_without_an_answer_is_read_back(cluster: EmbeddedCluster, jobs: Path) -> None:
    out = planned(cluster, jobs)
    cluster.faults.inject("drop-after", method="POST", path="/jobs\\?fieldManager")
    cluster.faults.inject("status", method="POST", path="/jobs\\?fieldManager", status=429, skip=1)
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (0, ["a", "b"]), shown.output


def test_a_plan_with_what_ifs_is_not_applied(cluster: EmbeddedCluster, jobs: Path) -> None:
    out = planned(cluster, jobs, "--cordon", "n1")
    shown = waggle("apply", out, "--server", cluster.url)
    assert (shown.exit_code, created(cluster)) == (1, [])
    assert "the plan was made with --cordon" in shown.stderr.replace("\n", " ")


def test_what_was_printed_is_not_applied(cluster: EmbeddedCluster, jobs: Path, tmp_path: Path) -> None:
    printed = tmp_path / "printed.json"
    printed.write_text(waggle("plan", "-f", jobs, *SHAPE, "-o", "json").stdout)
    shown = waggle("apply", printed, "--server", cluster.url)
    assert shown.exit_code == 1
    assert "waggle plan --out" in shown.stderr.replace("\n", " ")


def test_help_has_the_examples_and_the_exit_status() -> None:
    for command in (["plan", "--help"], ["plan", "diff", "--help"], ["apply", "--help"]):
        shown = waggle(*command, env={"COLUMNS": "100"})
        assert shown.exit_code == 0
        assert "Exit status: 0" in shown.stdout
    assert "waggle plan --drain node-7" in waggle("plan", "--help").stdout
