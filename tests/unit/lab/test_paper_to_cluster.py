"""docs/paper-to-cluster.md: its pieces are one plug-in, which decides as `fgd` does and keeps the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from algorithm.conformance.harness import AlgorithmHarness
from algorithm.fgd import FgdAlgorithm
from algorithm.fgd.settings import FgdSettings
from algorithm.interface import Bind, Phase, PodRefused, SchedulerAlgorithm, SuggestedNodes, Wait
from algorithm.model import CPU, PODS, Node, Pod
from extender.lab.fgd_study import Line, Study, columns, typical
from extender.lab.fgd_study import _node as node_of
from extender.lab.fgd_study import _pod as pod_of
from extender.lab.openb import PodLine, read_nodes, read_pods
from extender.lab.translate import Translator
from extender.lab.workload import Job
from tests.support.pages import blocks, page
from tests.unit.lab.test_fgd_study import NODES
from tests.unit.lab.test_fgd_study import PODS as LINES

ROOT = Path(__file__).parents[3]
PAGE = page("paper-to-cluster.md")
PIECES = blocks(PAGE, "python")
TEXT = "\n\n".join(PIECES)


@pytest.fixture(scope="module")
def gradient() -> Iterator[ModuleType]:
    module = ModuleType("gradient")
    sys.modules["gradient"] = module
    exec(compile(TEXT, "docs/paper-to-cluster.md", "exec"), module.__dict__)
    yield module
    del sys.modules["gradient"]


def made(gradient: ModuleType, lines: list[PodLine] | None = None, **settings: Any) -> SchedulerAlgorithm:
    expected = [each.model_dump() for each in typical(lines)] if lines else []
    found: SchedulerAlgorithm = gradient.PLUGIN.create(gradient.Settings(typical=expected, **settings))
    return found


def test_the_pieces_are_as_many_lines_as_the_page_says_and_no_more_than_it_promises() -> None:
    assert len(PIECES) == 4
    lines = len(TEXT.splitlines())
    assert lines <= 300
    assert f"{lines} lines in four pieces" in PAGE
    assert max(map(len, TEXT.splitlines())) <= 120


def test_it_decides_as_fgd_does(gradient: ModuleType) -> None:
    nodes = [node_of(line, line.name) for line in NODES]
    offered = SuggestedNodes(node.name for node in nodes)
    theirs, ours = FgdAlgorithm(FgdSettings(typical=typical(LINES))), made(gradient, LINES)
    for algorithm in (theirs, ours):
        for node in nodes:
            algorithm.add_node(node)
    placed: list[Pod] = []
    for number, line in enumerate(LINES * 3):
        pod = pod_of(line, number)
        answers = []
        for algorithm in (theirs, ours):
            algorithm.add_unallocated_pod(pod)
            answers.append(algorithm.schedule(pod, offered, Phase.FILTERING))
        first, second = answers
        assert type(first) is type(second)
        if isinstance(first, Bind):
            assert first == second, number
            placed.append(pod.placed(first.node, first.annotations))
            for algorithm in (theirs, ours):
                algorithm.add_allocated_pod(placed[-1])
        if number % 3 == 0 and placed:
            gone = placed.pop(number % len(placed))
            for algorithm in (theirs, ours):
                algorithm.delete_allocated_pod(gone)
    assert len(placed) > 20


def test_parts_fill_a_gpu_and_a_restart_knows_them(gradient: ModuleType) -> None:
    amounts = ((CPU, 64_000), ("example.com/gpu", 2), (PODS, 10))
    cluster = AlgorithmHarness(
        lambda: made(gradient, resource="example.com/gpu"), [Node(name="n1", allocatable=amounts)]
    )
    for name, milli in (("a", 300), ("b", 700), ("c", 500), ("d", 500)):
        assert cluster.place(part(name, milli)) == "n1"
    gpus = {uid: pod.annotation("waggle.dev/gpu-index") for uid, pod in cluster.allocated.items()}
    assert gpus["uid-a"] == gpus["uid-b"] != gpus["uid-c"] == gpus["uid-d"]
    cluster.submit(part("e", 1))
    assert isinstance(cluster.schedule(part("e", 1)), Wait)
    again = cluster.restarted(7)
    assert isinstance(again.schedule(part("e", 1), SuggestedNodes(["n1"]), Phase.FILTERING), Wait)
    cluster.delete("uid-a")
    assert cluster.place(part("f", 300)) == "n1"


@pytest.mark.parametrize("milli", ["0x1", "-1", "1000", "²", "9" * 50])
def test_a_wrong_annotation_is_refused(gradient: ModuleType, milli: str) -> None:
    pod = Pod(namespace="x", name="x", uid="x", annotations=(("waggle.dev/gpu-milli", milli),))
    with pytest.raises(PodRefused, match="waggle.dev/gpu-milli: expected 1 to 999"):
        made(gradient).schedule(pod, SuggestedNodes(["n"]), Phase.FILTERING)


def part(name: str, milli: int) -> Pod:
    return Pod(namespace="default", name=name, uid=f"uid-{name}", annotations=(("waggle.dev/gpu-milli", str(milli)),))


def test_a_simulation_asks_it_for_parts_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (made,) = Translator("gradient").pods(Job("a", 0, {"gpu": 300}))
    assert made.pod.annotation("waggle.dev/gpu-milli") == "300"
    assert "nvidia.com/gpu" not in dict(made.pod.requests)
    (made,) = Translator("packing").pods(Job("a", 0, {"gpu": 300}))
    assert dict(made.pod.requests)["nvidia.com/gpu"] == 1


def install(folder: Path) -> None:
    """Leave the plug-in in a folder as pip would."""
    (folder / "gradient.py").write_text(TEXT)
    info = folder / "gradient-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gradient\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[waggle.algorithms]\ngradient = gradient:PLUGIN\n")


@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    (tmp_path / "gradient.py").write_text(TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "extender.cli", "conformance", "gradient:PLUGIN", "--lives", "20"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]


FOLDER = os.environ.get("WAGGLE_OPENB", "")


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="WAGGLE_OPENB names no folder with the trace")
def test_it_allocates_what_was_published(gradient: ModuleType) -> None:
    folder = Path(FOLDER)
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        nodes = read_nodes(file, file.name)
    with (folder / "openb_pod_list_default.csv").open() as file:
        lines = read_pods(file, file.name)
    study = Study(nodes, lines, policy="fgd", seed=42)
    ours, used, arrived, found = made(gradient, lines), 0, 0, []
    names = sorted(study._offered)
    for name in names:
        ours.add_node(study.algorithm._state.nodes[name].node)  # type: ignore[arg-type] - it is known
    for number, line in enumerate(study.pods):
        pod = pod_of(line, number)
        ours.add_unallocated_pod(pod)
        answer = ours.schedule(pod, study._offered, Phase.FILTERING)
        if isinstance(answer, Bind):
            ours.add_allocated_pod(pod.placed(answer.node, answer.annotations))
            used += line.all_milli
        else:
            ours.delete_unallocated_pod(pod)
        arrived += line.all_milli
        found.append(Line(arrived, used, 0.0))
    assert columns(found, study.total).allocation[100] == 95.14
