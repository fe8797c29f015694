"""What docs/simulate.md and docs/paper-to-cluster.md print is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from tests.unit.lab.test_paper_to_cluster import ROOT, install

pytestmark = pytest.mark.slow


def examples(page: str) -> list[tuple[str, list[str]]]:
    """The commands of a page with the lines that stand below each."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[tuple[str, list[str]]] = []
    for line in "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line or (found and found[-1][1]):
            found[-1][1].append(line)
    return found


@pytest.mark.parametrize("page", ["simulate.md", "paper-to-cluster.md"])
def test_each_example_prints_what_is_printed_there(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    tried = 0
    for command, lines in examples(page):
        if "jobs.csv" in command:
            header = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type"
            rows = (f"{number},1,A10,1,1,1,0,1,HP\n" for number in range(765_431))
            (tmp_path / "jobs.csv").write_text(f"{header}\n{''.join(rows)}broken\n")
        printed = CliRunner().invoke(app, shlex.split(command)[1:]).output
        pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in trimmed(lines))
        assert re.match(pattern, printed), f"{command}\n{printed}"
        tried += 1
    assert tried >= 2


def trimmed(lines: list[str]) -> list[str]:
    """Lines without empty ones at the end."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines
