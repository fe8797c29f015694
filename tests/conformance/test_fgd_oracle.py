"""The openb experiment of `waggle simulate`, against a second simulation that was written from its description.

Worlds are drawn here: traces that must be thinned or enlarged, names with four and five digits, many models, pods that
fit nowhere, nodes without GPUs.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from extender.lab import fgd_study, gorand, openb
from tests.conformance import fgd_oracle as oracle

MODELS = ("P100", "T4", "G2", "V100M16", "V100M32")
#: Kinds of worlds: nodes, pods, share of CPU-only pods, of shared ones, of pods with several GPUs, of pods with models.
KINDS = {
    "thinned": (30, 700, 0.15, 0.2, 0.5, 0.1),
    "models": (20, 150, 0.1, 0.5, 0.05, 0.6),
    "cpu": (20, 160, 0.6, 0.5, 0.02, 0.0),
    "shared": (12, 150, 0.1, 0.95, 0.1, 0.0),
    "large": (40, 30, 0.1, 0.1, 0.9, 0.0),
    "few nodes": (1, 12, 0.2, 0.5, 0.1, 0.3),
}


def draw(kind: str, seed: int, folder: Path) -> None:
    """Write nodes.csv and pods.csv."""
    nodes, pods, cpu_only, shared, several, named = KINDS[kind]
    draws = random.Random(f"{kind} {seed}")
    lines = ["sn,cpu_milli,memory_mib,gpu,model"]
    for number in range(nodes):
        gpus = draws.choice((1, 2, 2, 4, 8, 8)) if not number else draws.choice((0, 1, 2, 2, 4, 8, 8))
        model = draws.choice(MODELS[:4]) if gpus else ""
        cpu, memory = draws.choice((8000, 16000, 64000, 96000, 128000)), draws.choice((65536, 262144, 393216))
        lines.append(f"openb-node-{number:04d},{cpu},{memory},{gpus},{model}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    cpus = [draws.choice((0, 100, 1000, 3152, 4000, 8000, 11300, 32000, 96000, 150000)) for _ in range(8)]
    millis = [draws.randint(1, 999) for _ in range(6)]
    lines = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    for number in range(9950, 9950 + pods):
        if draws.random() < cpu_only:
            gpus, milli = 0, draws.choice((0, 1000))
        elif draws.random() < shared:
            gpus, milli = 1, draws.choice(millis)
        else:
            gpus, milli = draws.choice((2, 4, 8)) if draws.random() < several else 1, 1000
        spec = "|".join(draws.choices(MODELS, k=draws.randint(1, 3))) if draws.random() < named else ""
        spec += draws.choice(("", "", "|"))
        cpu, memory = draws.choice(cpus), draws.choice((0, 1024, 16384, 30517))
        lines.append(f"openb-pod-{number:04d},{cpu},{memory},{gpus},{milli},{spec}")
    (folder / "pods.csv").write_text("\n".join(lines) + "\n")


def simulated(folder: Path, policy: str, seed: int) -> dict[str, object]:
    options = ["--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv"), "--policy", policy]
    options += ["--trace", "openb", "--algorithm", "fgd", "--seed", str(seed), "--json", "-"]
    done = CliRunner().invoke(app, ["simulate", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_the_oracle_draws_the_numbers_of_go() -> None:
    random_numbers = oracle.GoRandom(42)
    assert [random_numbers.int63(), random_numbers.int63()] == [3440579354231278675, 608747136543856411]


@pytest.mark.parametrize(("kind", "nodes"), [("thinned", 1), ("thinned", 30), ("cpu", 20), ("large", 40)])
def test_pods_with_names_of_four_and_five_digits_come_in_the_same_order(kind: str, nodes: int, tmp_path: Path) -> None:
    draw(kind, nodes, tmp_path)
    theirs = oracle.read_nodes(tmp_path / "nodes.csv")[:nodes]
    with (tmp_path / "pods.csv").open() as file:
        pods = openb.read_pods(file, file.name)
    total = 1000 * sum(len(node.rests) for node in theirs)
    for seed in range(42, 52):
        expected = oracle.arrivals(oracle.read_pods(tmp_path / "pods.csv"), theirs, seed)
        found = fgd_study.arrivals(pods, total, gorand.GoRandom(seed))
        assert (len(found) < len(pods)) == (kind == "thinned")
        assert [pod.name for pod in found] == [pod.name for pod in expected]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", oracle.POLICIES)
def test_all_columns_are_those_of_the_oracle(kind: str, policy: str, tmp_path: Path) -> None:
    for seed in (42, 2**40 + 7):
        draw(kind, seed, tmp_path)
        found = simulated(tmp_path, policy, seed)
        nodes, pods = oracle.read_nodes(tmp_path / "nodes.csv"), oracle.read_pods(tmp_path / "pods.csv")
        run = oracle.simulate(nodes, pods, policy, seed)
        assert found["pods"] == len(run.placed)
        if policy == "Random":  # its choices are no one else's
            continue
        assert found["failed"] == sum(not node for _, node in run.placed)
        expected = run.columns()
        assert found["gpu_allocation_percent"] == expected["allocation"]
        assert found["gpu_allocation_percent_at_100"] == expected["allocation"][100]
        assert found["fragmentation_percent_of_cluster"] == expected["amount"]
        assert found["fragmentation_percent_of_idle"] == expected["ratio"]


FOLDER = os.environ.get("WAGGLE_OPENB", "")


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="WAGGLE_OPENB names no folder with the trace")
def test_the_oracle_finds_what_was_published() -> None:
    nodes = oracle.read_nodes(Path(FOLDER) / "openb_node_list_gpu_node.csv")
    found = oracle.simulate(nodes, oracle.read_pods(Path(FOLDER) / "openb_pod_list_default.csv"), "FGD", 42).columns()
    shown = (0, 25, 50, 75, 90, 95, 100, 130)
    assert [found["allocation"][k] for k in shown] == [0.25, 24.98, 49.95, 75.02, 89.98, 94.92, 95.14, 95.29]
    assert [found["amount"][k] for k in shown] == [13.88, 11.37, 8.99, 6.49, 4.97, 4.72, 4.83, 4.69]
