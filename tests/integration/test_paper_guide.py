"""docs/paper-to-cluster.md, "A live pod", followed to the letter: parts of GPUs get the GPUs that its table says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_plugin_guide import PAGE as GUIDE
from tests.integration.test_plugin_guide import free_port, get, ready, substituted
from tests.support.apiserver.api import eventually
from tests.unit.lab.test_paper_to_cluster import PAGE, ROOT, install

pytestmark = pytest.mark.slow


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.fixture
def ports() -> dict[str, str]:
    """The pages' ports, and free ones to use instead."""
    return {"8001": str(free_port()), "9096": str(free_port())}


@pytest.fixture
def started(tmp_path: Path, ports: dict[str, str]) -> Iterator[dict[str, str]]:
    """The guide's three programs, with this page's plug-in and configuration."""
    install(tmp_path)
    (config,) = blocks("yaml")
    (tmp_path / "waggle.yaml").write_text(f"{config}\nserver: {{port: {ports['9096']}}}\n")
    (tmp_path / "scheduler.yaml").write_text(substituted(blocks("yaml", GUIDE)[1], ports))
    (tmp_path / "waggle").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m extender.cli "$@"\n')
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for command in ("waggle", "python"):
        (tmp_path / command).chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    lines = [line.removesuffix(" &") for block in blocks("sh", GUIDE) for line in block.splitlines()]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, line in enumerate(
            line for line in lines if line.startswith(("waggle cluster", "KUBE", "python -m"))
        ):
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


def placed(url: str) -> dict[str, tuple[str, str]]:
    """Node and GPU of each pod."""
    items: list[dict[str, Any]] = get(url)["items"]
    return {
        each["metadata"]["name"]: (
            each["spec"].get("nodeName", ""),
            each["metadata"].get("annotations", {}).get("waggle.dev/gpu-index", ""),
        )
        for each in items
    }


def test_parts_get_the_gpus_of_the_table(started: dict[str, str], tmp_path: Path) -> None:
    eventually(lambda: ready(f"http://127.0.0.1:{started['9096']}"), seconds=60)
    (script,) = (block for block in blocks("sh") if "for m in" in block)
    subprocess.run(["sh", "-ec", substituted(script, started)], cwd=tmp_path, check=True, timeout=60)
    assert json.loads((tmp_path / "pod.json").read_text())["kind"] == "Pod"
    table = re.findall(r"^\| (part-\S+) \| \d+ \| (\S+) \| (\d) \|$", PAGE, re.MULTILINE)
    assert len(table) == 5
    expected = {name: (node, gpu) for name, node, gpu in table}
    pods = f"http://127.0.0.1:{started['8001']}/api/v1/namespaces/default/pods"
    eventually(lambda: placed(pods) == expected, seconds=60)
