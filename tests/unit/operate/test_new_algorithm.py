"""`waggle new-algorithm`: what it writes, what it refuses, and that it leaves nothing behind when it cannot go on."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.lab.workload_file import decode
from extender.operate.scaffold.writing import LONGEST, ScaffoldError, check_name, contents, name_for, write
from extender.settings import Settings
from tests.support.small_files import files_of_at_most


def run(*arguments: object) -> tuple[int, str]:
    """The exit status, and all that it says."""
    result = CliRunner().invoke(app, ["new-algorithm", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_writes_a_package_with_tests_and_a_workload(tmp_path: Path) -> None:
    status, said = run(tmp_path / "new" / "my-quota", "--name", "quota")
    folder = tmp_path / "new" / "my-quota"
    assert status == 0
    assert files(folder) == sorted(contents("quota"))
    assert {"quota/algorithm.py", "quota/py.typed", "tests/test_contract.py", ".gitignore", "README.md"} <= {
        *files(folder)
    }
    assert f"environment of this Waggle ({sys.prefix})" in said.replace("\n", "")
    for line in ("pip install -e '.[test]'", "pytest", "waggle simulate --trace trace.json --algorithm quota"):
        assert line in said


def test_the_name_is_that_of_the_folder_unless_another_is_given(tmp_path: Path) -> None:
    assert name_for(tmp_path / "My-Own algorithm") == "my_own_algorithm"
    assert run(tmp_path / "My-Own")[0] == 0
    assert "class MyOwn(SchedulerAlgorithm)" in (tmp_path / "My-Own/my_own/algorithm.py").read_text()
    assert run(tmp_path / "other", "--name", "gpu_quota")[0] == 0
    project = tomllib.loads((tmp_path / "other/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["waggle.algorithms"] == {"gpu_quota": "gpu_quota:PLUGIN"}
    assert project["name"] == "waggle-gpu-quota"


def test_no_placeholder_is_left() -> None:
    for path, text in contents("quota").items():
        assert "<" not in path
        assert "<name>" not in text
        assert "<distribution>" not in text
        assert "Slots" not in text


def test_the_configurations_and_the_workload_are_valid() -> None:
    texts = contents("quota")
    settings = Settings.model_validate(yaml.safe_load(texts["waggle.yaml"]))
    assert (settings.algorithm.name, settings.algorithm.settings) == ("quota", {"slots": 2})
    assert from_kube_scheduler_configuration(yaml.safe_load(texts["scheduler.yaml"])).extenders
    workload = decode(texts["trace.json"].encode())
    assert (len(workload.jobs), len(workload.nodes)) == (40, 3)
    assert json.loads(texts["trace.json"])["version"] == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("class", "'class' is a keyword of Python"),
        ("2fast", "expected at most 50 of a-z, 0-9 and _, a letter first"),
        ("my-name", "expected at most 50 of a-z"),
        ("Slots", "expected at most 50 of a-z"),
        ("größe", "expected at most 50 of a-z"),
        ("../up", "expected at most 50 of a-z"),
        ("a" * (LONGEST + 1), "expected at most 50 of a-z"),
        ("packing", "an algorithm 'packing' is installed here (algorithm.packing:PLUGIN)"),
        ("hived", "is installed here"),
        ("algorithm", "a package 'algorithm' is here already"),
        ("random", "a package 'random' is here already"),
        ("pydantic", "a package 'pydantic' is here already"),
        ("tests", "a package 'tests' is here already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, name: str, why: str) -> None:
    status, said = run(tmp_path / "new", "--name", name)
    assert status == 2
    assert why in said
    assert not (tmp_path / "new").exists()


def test_a_folder_whose_name_cannot_be_used_asks_for_a_name(tmp_path: Path) -> None:
    status, said = run(tmp_path / "packing")
    assert status == 2
    assert "take another name (--name)" in said
    assert not (tmp_path / "packing").exists()


def test_a_name_is_not_looked_for_in_packages() -> None:
    with pytest.raises(ScaffoldError, match="expected at most 50"):
        check_name("os.path")


@pytest.mark.parametrize("there", ["slots.py", ".git/config", "quota/algorithm.py"])
def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path, there: str) -> None:
    file = tmp_path / there
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    status, said = run(tmp_path, "--name", "quota")
    assert status == 2
    assert "is not an empty folder: nothing was written" in said
    assert files(tmp_path) == [there]
    assert file.read_text() == "mine"


def test_a_file_in_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "quota"
    file.write_text("mine")
    assert run(file)[0] == 2
    assert file.read_text() == "mine"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    assert run(tmp_path, "--name", "quota")[0] == 0
    assert files(tmp_path) == sorted(contents("quota"))


def test_nothing_is_left_of_what_cannot_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest paths do not fit any more."""
    monkeypatch.chdir(tmp_path)
    deep, length = tmp_path, 4096 - len("/tests/test_algorithm.py")
    while len(str(deep)) < length - 201:
        deep /= "d" * 200
    deep /= "e" * (length - len(str(deep)) - 1)
    with pytest.raises(OSError, match="too long"):
        write(deep, "quota")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    status, said = run(tmp_path / "file" / "new", "--name", "quota")
    assert status == 2
    assert "file" in said


def test_a_file_that_a_full_disk_does_not_take_is_named(tmp_path: Path) -> None:
    with files_of_at_most(10):
        result = CliRunner().invoke(app, ["new-algorithm", str(tmp_path / "first_try")])
    assert result.exit_code == 2
    assert re.search(rf"{tmp_path}/first_try/\S+: File too large", "".join(result.output.splitlines()))
    assert not (tmp_path / "first_try").exists()
