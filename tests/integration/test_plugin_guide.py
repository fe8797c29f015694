"""docs/plugin-authors.md, followed to the letter: a package, its tests, a simulation, three processes, seven pods."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.apiserver.api import eventually
from tests.support.guide import environment_of, free_ports, get, ready, running, substituted, write_commands

PAGE = pages.page("plugin-authors.md")

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    return pages.blocks(PAGE, language)


@pytest.fixture
def ports() -> dict[str, str]:
    return free_ports()


PIP = """#!/bin/sh
# `pip install -e '.[test]'` without an index: the package alone, since what it needs is here.
exec "{python}" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \\
  --target "{site}" .
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The page's commands on the PATH."""
    commands, site = tmp_path / "bin", tmp_path / "site"
    commands.mkdir()
    write_commands(commands, {"waggle": "-m extender.cli", "python": "", "pytest": "-m pytest"})
    (commands / "pip").write_text(PIP.format(python=sys.executable, site=site))
    (commands / "pip").chmod(0o755)
    return environment_of(commands, site)


def sh(script: str, folder: Path, environment: dict[str, str]) -> str:
    """Run one block of the page. Returns what it says."""
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, check=False, timeout=300, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str], ports: dict[str, str]) -> Path:
    """The folder after the first block of the page, with the algorithm's explanation, and free ports."""
    first = blocks("sh")[0]
    assert "waggle new-algorithm my-slots" in first
    said = sh(first, tmp_path, environment)
    assert " passed" in said
    explain = blocks("python")[-1]
    folder = tmp_path / "my-slots"
    with (folder / "slots" / "algorithm.py").open("a") as module:  # `python -m` finds it in the current folder
        module.write(f"\n\n{explain}\nSlots.explain = explain\n")
    for name in ("waggle.yaml", "scheduler.yaml"):
        (folder / name).write_text(substituted((folder / name).read_text(), ports))
    with (folder / "waggle.yaml").open("a") as config:
        config.write(f"server: {{port: {ports['9096']}}}\n")
    return folder


@pytest.fixture
def started(project: Path, ports: dict[str, str], environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The three programs of the page run."""
    lines = [line.removesuffix(" &") for block in blocks("sh") for line in block.splitlines() if line.endswith(" &")]
    with running([substituted(line, ports) for line in lines], project, environment):
        yield ports


def states(url: str) -> list[str]:
    return sorted(pod["state"] for pod in get(f"{url}/v1/inspect/pods")["items"])


def test_the_workload_is_simulated_as_the_page_shows(project: Path, environment: dict[str, str]) -> None:
    (block,) = (block for block in blocks("sh") if block.startswith("waggle simulate"))
    said = sh(block, project, environment).splitlines()
    shown = PAGE.partition(block)[2].partition("```\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(shown) > 5
    assert [line for line in shown if line != "..." and line not in said] == []


def test_seven_pods_for_six_slots(started: dict[str, str], project: Path, environment: dict[str, str]) -> None:
    url = f"http://127.0.0.1:{started['9096']}"
    eventually(lambda: ready(url), seconds=60)
    (script,) = (block for block in blocks("sh") if "for i in" in block)
    sh(substituted(script, started), project, environment)
    eventually(lambda: states(url) == ["Bound"] * 6 + ["Waiting"], seconds=60)
    waiting = next(pod for pod in get(f"{url}/v1/inspect/pods")["items"] if pod["state"] == "Waiting")
    eventually(
        lambda: (
            get(f"{url}/v1/explain/default/{waiting['name']}")["reason"]["text"]
            == "every offered node has its number of pods"
        )
    )
    assert get(f"{url}/v1/explain/default/{waiting['name']}")["summary"] == "6 of 6 slots are taken."
    request = urllib.request.Request(
        f"http://127.0.0.1:{started['8001']}/api/v1/namespaces/default/pods/pod-1", method="DELETE"
    )
    urllib.request.urlopen(request, timeout=10).close()
    eventually(lambda: states(url) == ["Bound"] * 6, seconds=60)
