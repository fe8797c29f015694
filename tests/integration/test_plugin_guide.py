"""docs/plugin-authors.md, "See it decide", followed to the letter: three processes, seven pods, six slots."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver.api import eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugin-authors.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def ports() -> dict[str, str]:
    """The page's ports, and free ones to use instead."""
    return {"8001": str(free_port()), "9096": str(free_port())}


@pytest.fixture
def environment(tmp_path: Path, ports: dict[str, str]) -> dict[str, str]:
    """The page's files, its plug-in as pip would leave it, and its two commands on the PATH."""
    (algorithm, _, explain), (project,), (config, scheduler) = blocks("python"), blocks("toml"), blocks("yaml")
    (tmp_path / "slots.py").write_text(f"{algorithm}\n\n{explain}\nSlots.explain = explain\n")
    (tmp_path / "waggle.yaml").write_text(f"{config}\nserver: {{port: {ports['9096']}}}\n")
    (tmp_path / "scheduler.yaml").write_text(scheduler.replace("9096", ports["9096"]))
    info = tmp_path / "my_algorithm-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-algorithm\nVersion: 1\n")
    (name, point) = next(iter(tomllib.loads(project)["project"]["entry-points"]["waggle.algorithms"].items()))
    (info / "entry_points.txt").write_text(f"[waggle.algorithms]\n{name} = {point}\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    for command, arguments in (("waggle", "-m extender.cli "), ("python", "")):
        (commands / command).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        (commands / command).chmod(0o755)
    path = os.pathsep.join((str(commands), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}


@pytest.fixture
def started(tmp_path: Path, ports: dict[str, str], environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The three programs of the page run."""
    line_of = [line.removesuffix(" &") for block in blocks("sh") for line in block.splitlines() if line.endswith(" &")]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, line in enumerate(line_of):
            with (tmp_path / f"{number}.log").open("wb") as log:
                command = ["sh", "-c", substituted(line, ports)]
                running.append(
                    subprocess.Popen(
                        command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )
            if number == 0:
                eventually(lambda: "kubeconfig is" in (tmp_path / "0.log").read_text())
        yield ports
    finally:
        for process in reversed(running):
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(20)


def substituted(text: str, ports: dict[str, str]) -> str:
    for there, here in ports.items():
        text = text.replace(there, here)
    return text


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def states(url: str) -> list[str]:
    return sorted(pod["state"] for pod in get(f"{url}/v1/inspect/pods")["items"])


def ready(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/readyz", timeout=10).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def test_seven_pods_for_six_slots(started: dict[str, str], tmp_path: Path, environment: dict[str, str]) -> None:
    url = f"http://127.0.0.1:{started['9096']}"
    eventually(lambda: ready(url), seconds=60)
    (script,) = (block for block in blocks("sh") if "for i in" in block)
    subprocess.run(
        ["sh", "-ec", substituted(script, started)],
        cwd=tmp_path,
        env=environment,
        check=True,
        timeout=60,
        capture_output=True,
    )
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
