"""`waggle simulate`, as users call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{n},64000,65536,4,A\n" for n in range(4))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"p{n},2000,64,1,{(300, 500, 1000)[n % 3]}\n" for n in range(12)
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]


def test_a_result_is_written_as_json_and_told(files: list[str], tmp_path: Path) -> None:
    options = ["--trace", "openb", "--algorithm", "fgd", "--policy", "bestfit", "--seed", "43"]
    done = CliRunner().invoke(app, ["simulate", *options, *files, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 0, done.output
    assert "on 16 GPUs" in done.output
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["policy"] == "bestfit"
    assert result["total_gpus"] == 16
    assert len(result["gpu_allocation_percent"]) == 131
    assert result["gpu_allocation_percent_at_100"] == result["gpu_allocation_percent"][100]


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("Random", "random"),
        ("Random-fit", "random"),
        ("02-DotProd", "dotprod"),
        ("Dot-product", "dotprod"),
        ("GpuClustering", "clustering"),
        ("GPU Packing", "packing"),
        ("best_fit", "bestfit"),
        ("06-FGD", "fgd"),
    ],
)
def test_policies_may_be_spelled_as_in_the_paper(spelled: str, name: str, files: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", *files, "--policy", spelled, "--json", "-"])
    assert json.loads(done.stdout)["policy"] == name


def test_an_unknown_policy_is_told_the_others(files: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", *files, "--policy", "tetris"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "expected one of fgd, random, dotprod, clustering, packing, bestfit, got 'tetris'" in done.stderr


def test_a_byte_order_mark_other_ends_of_lines_and_another_order_of_columns_change_nothing(
    files: list[str], tmp_path: Path
) -> None:
    expected = CliRunner().invoke(app, ["simulate", *files, "--json", "-"]).stdout
    turned = "\r\n".join(",".join(reversed(line.split(","))) for line in PODS.splitlines())
    (tmp_path / "pods.csv").write_bytes(b"\xef\xbb\xbf" + turned.encode())
    assert CliRunner().invoke(app, ["simulate", *files, "--json", "-"]).stdout == expected


def test_a_node_with_too_many_gpus_is_named(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES + "big,1,1,1001,A\n")
    done = CliRunner().invoke(app, ["simulate", *files])
    assert done.exit_code == 2
    assert "line 6: gpu: expected at most 1000 GPUs" in done.stderr.replace("\n", "")


def test_json_may_go_to_standard_output(files: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", *files, "--json", "-"])
    assert json.loads(done.stdout)["algorithm"] == "fgd"


def test_a_broken_trace_is_named(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS + "p0,1,2,3,1000\n")
    done = CliRunner().invoke(app, ["simulate", *files])
    assert done.exit_code == 2
    assert f"{tmp_path / 'pods.csv'}, line 14: name: p0 appears twice" in done.stderr.replace("\n", "")


def test_a_list_without_pods_is_refused(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS.splitlines()[0] + "\n")
    done = CliRunner().invoke(app, ["simulate", *files])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "expected at least one pod, got none" in done.stderr


def test_a_missing_file_is_named(files: list[str]) -> None:
    done = CliRunner().invoke(app, ["simulate", "--nodes", "/none.csv", *files[2:]])
    assert done.exit_code == 2
    assert "/none.csv: No such file or directory" in done.stderr


def test_a_page_is_written_and_broken_lines_are_left_out_and_told(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS + "broken\n")
    page = tmp_path / "page.html"
    options = [
        "--trace",
        files[3],
        "--nodes",
        files[1],
        "--algorithm",
        "packing",
        "--algorithm",
        "fgd",
        "--html",
        str(page),
    ]
    assert CliRunner().invoke(app, ["simulate", *options]).exit_code == 2
    assert not page.exists()
    done = CliRunner().invoke(app, ["simulate", *options, "--skip-broken"])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "The same jobs on the same nodes under packing and fgd." in text
    assert "Broken lines, left out: 1: " in text
