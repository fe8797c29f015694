"""`algorithm.settings_file`: a file that the algorithm reads as its own, beside the settings that stand in the
configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from algorithm.registry import AlgorithmError
from extender.cli import app
from extender.settings import AlgorithmSettings, SettingsError, algorithm_settings
from tests.support.hived.harness import RACKS


def resolved(path: Path, **more: Any) -> dict[str, Any]:
    return algorithm_settings(AlgorithmSettings(settings_file=path, **more))


def test_without_one_there_is_what_stands_in_the_configuration() -> None:
    assert algorithm_settings(AlgorithmSettings(settings={"strategy": "spread"})) == {"strategy": "spread"}


def test_it_is_yaml_unless_the_algorithm_reads_it_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("a: 010\n")
    assert resolved(file) == {"a": 8}
    assert resolved(file, name="hived") == {"a": "010"}, "a machine's name, as in the original"


def test_both_are_merged(tmp_path: Path) -> None:
    file = tmp_path / "hivedscheduler.yaml"
    file.write_text(RACKS)
    found = resolved(file, name="hived", settings={"lax": True})
    assert sorted(found) == ["lax", "physicalCluster", "virtualClusters"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strategy: pack", "strategy: stands in algorithm.settings too"),
        ("- 1", "expected fields"),
        ("a: [", "settings.yaml: "),
        ("a: 1\na: 2", "appears twice"),
    ],
)
def test_what_cannot_be_merged_is_named_with_the_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=f"algorithm.settings_file: .*{said}"):
        resolved(file, settings={"strategy": "pack"})


def test_an_empty_one_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert resolved(tmp_path / "empty.yaml", settings={"a": 1}) == {"a": 1}


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^algorithm.settings_file: \S*nowhere.yaml: No such file"):
        resolved(tmp_path / "nowhere.yaml")


def test_an_algorithm_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "any.yaml").write_text("")
    with pytest.raises(AlgorithmError, match="no algorithm named 'mine'"):
        resolved(tmp_path / "any.yaml", name="mine")


def test_check_looks_into_it(tmp_path: Path) -> None:
    config, file = tmp_path / "waggle.yaml", tmp_path / "hivedscheduler.yaml"
    config.write_text(f"cluster: {{server: 'http://127.0.0.1:1'}}\nalgorithm: {{name: hived, settings_file: {file}}}\n")
    file.write_text(RACKS + "kubeApiServerAddress: http://127.0.0.1:8080\n")
    assert CliRunner().invoke(app, ["check", "-c", str(config)]).exit_code == 0
    file.write_text(RACKS.replace("cellNumber: 2", "cellNumber: 9"))
    refused = CliRunner().invoke(app, ["check", "-c", str(config)])
    assert refused.exit_code == 2
    assert "promised 10 cells host" in refused.stderr
    assert "Value error" not in refused.stderr


def test_hiveds_own_file_in_place_of_waggles_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "hivedscheduler.yaml"
    file.write_text(RACKS + "kubeApiServerAddress: http://127.0.0.1:8080\n")
    refused = CliRunner().invoke(app, ["check", "-c", str(file)])
    assert refused.exit_code == 2
    assert f"{file}: this is HiveD's own file" in refused.stderr
    assert f"settings_file: {file}" in refused.stderr
