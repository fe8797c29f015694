"""No command carries out what stands in a cluster or in somebody's file: it is shown, with its controls escaped."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.demo.report import show_farewell, show_report
from extender.demo.workloads import Act, Expect
from extender.operate.refusal import refuse
from tests.support.engine.scripted_log import two_nodes

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e\u2028evil"


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def assert_shows_it_and_does_nothing(text: str) -> None:
    controls = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}
    assert not controls
    assert "evil" in text


def test_lint_shows_a_value_of_the_file() -> None:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": f"http://{HOSTILE}", HOSTILE: 1, "filterVerb": HOSTILE}],
    }
    assert_shows_it_and_does_nothing(run("lint", "-", stdin=yaml.safe_dump(configuration)).output)
    assert_shows_it_and_does_nothing(run("lint", "-", "--json", stdin=yaml.safe_dump(configuration)).output)


def test_lint_shows_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text(f"kind: [{HOSTILE}")
    assert_shows_it_and_does_nothing(run("lint", str(path)).output)


@pytest.mark.parametrize("section", [{HOSTILE: 1}, {"server": {"host": HOSTILE}}, {"algorithm": {"name": HOSTILE}}])
def test_check_shows_a_value_of_the_configuration(tmp_path: Path, section: dict[str, Any]) -> None:
    path = tmp_path / "waggle.yaml"
    path.write_text(yaml.safe_dump({"cluster": {"server": "http://127.0.0.1:1"}} | section))
    assert_shows_it_and_does_nothing(run("check", "--config", str(path)).output)


def node(name: str, *, gpus: int) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": resources}}


def test_hived_init_shows_names_of_nodes_and_takes_none_for_configuration(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    nodes = [node("gpu-0", gpus=8), node(f"{HOSTILE}\nalgorithm: {{name: evil}}", gpus=0)]
    path.write_text(json.dumps({"kind": "List", "items": nodes}))
    made = run("hived", "init", "--from-file", str(path))
    assert made.exit_code == 0
    assert_shows_it_and_does_nothing(made.output)
    assert yaml.safe_load(made.stdout)["algorithm"]["name"] == "hived"


def test_hived_diff_shows_names_of_the_configuration(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for path, tenant in ((old, "a"), (new, f"{HOSTILE}\nThe configurations mean the same.")):
        types = {"box": {"childCellType": "gpu", "childCellNumber": 1, "isNodeLevel": True}}
        cells = [{"cellType": "box", "cellAddress": "m"}]
        promised = {tenant: {"virtualCells": [{"cellType": "box", "cellNumber": 1}]}}
        path.write_text(
            yaml.safe_dump(
                {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": promised}
            )
        )
    shown = run("hived", "diff", str(old), str(new)).output
    assert_shows_it_and_does_nothing(shown)
    assert "The configurations mean the same." not in shown.splitlines()


def test_the_demo_shows_reasons_and_names() -> None:
    item = {"name": f"[red]{HOSTILE}", "reason": {"code": "NoRoom", "text": HOSTILE}, "summary": HOSTILE}
    outlook: Any = SimpleNamespace(
        play=[Act(HOSTILE, Expect.ALL_RUN, pods=frozenset({"p"}))],
        pods={"p": {"spec": {"nodeName": HOSTILE}}},
        waiting=[item],
        explained={},
        wrong=[HOSTILE],
        gpus_by_node=dict,
        faults=0,
        gangs=True,
    )
    out = io.StringIO()
    console = Console(file=out, width=200)
    show_report(console, outlook)
    show_farewell(console, False, outlook, 1.0)
    assert_shows_it_and_does_nothing(out.getvalue())
    assert "[red]" in out.getvalue()


@pytest.mark.parametrize("command", [["replay"], ["record", "show"], ["record", "stats", "-o", "json"], ["--help"]])
def test_a_pipe_that_is_closed_ends_a_command_with_a_status_of_its_own(tmp_path: Path, command: list[str]) -> None:
    """1 would say that a decision differs, or something is wrong."""
    log = two_nodes().write(tmp_path / "log")
    read, write = os.pipe()
    os.close(read)
    called = [sys.executable, "-m", "extender.cli", *command, *([str(log)] if command != ["--help"] else [])]
    try:
        done = subprocess.run(called, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_who_does_not_read_on_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokenPipeError):
        refuse(BrokenPipeError())
    assert capsys.readouterr().err == ""
