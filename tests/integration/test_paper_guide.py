"""docs/paper-to-cluster.md, "A live pod", followed to the letter: parts of GPUs get the GPUs that its table says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver.api import eventually
from tests.support.guide import (
    environment_of,
    free_ports,
    get,
    ready,
    running,
    substituted,
    write_commands,
)
from tests.support.pages import blocks, page
from tests.unit.lab.test_paper_to_cluster import PAGE, install

GUIDE = page("plugin-authors.md")

pytestmark = pytest.mark.slow


@pytest.fixture
def ports() -> dict[str, str]:
    return free_ports()


@pytest.fixture
def started(tmp_path: Path, ports: dict[str, str]) -> Iterator[dict[str, str]]:
    """The guide's three programs, with this page's plug-in and configuration."""
    install(tmp_path)
    (config,) = blocks(PAGE, "yaml")
    (tmp_path / "waggle.yaml").write_text(f"{config}\nserver: {{port: {ports['9096']}}}\n")
    (tmp_path / "scheduler.yaml").write_text(substituted(blocks(GUIDE, "yaml")[1], ports))
    write_commands(tmp_path, {"waggle": "-m extender.cli", "python": ""})
    lines = [line.removesuffix(" &") for block in blocks(GUIDE, "sh") for line in block.splitlines()]
    programs = [line for line in lines if line.startswith(("waggle cluster", "KUBE", "python -m"))]
    with running([substituted(line, ports) for line in programs], tmp_path, environment_of(tmp_path, tmp_path)):
        yield ports


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
    (script,) = (block for block in blocks(PAGE, "sh") if "for m in" in block)
    subprocess.run(["sh", "-ec", substituted(script, started)], cwd=tmp_path, check=True, timeout=60)
    assert json.loads((tmp_path / "pod.json").read_text())["kind"] == "Pod"
    table = re.findall(r"^\| (part-\S+) \| \d+ \| (\S+) \| (\d) \|$", PAGE, re.MULTILINE)
    assert len(table) == 5
    expected = {name: (node, gpu) for name, node, gpu in table}
    pods = f"http://127.0.0.1:{started['8001']}/api/v1/namespaces/default/pods"
    eventually(lambda: placed(pods) == expected, seconds=60)
