"""A file of `--settings`: a configuration of Waggle or the algorithm's own settings, and what it may not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithm.hived.settings import HivedSettings
from algorithm.registry import parser
from extender.demo.run import Demo, DemoInputError
from extender.operate.settings_files import configuration_text, own_settings
from extender.plan.run.configuration import as_yaml
from extender.settings import SettingsError, load, parse


def written(folder: Path, text: str) -> Path:
    (folder / "new.yaml").write_text(text)
    return folder / "new.yaml"


@pytest.mark.parametrize("text", ["strategy: spread", "algorithm: {name: packing, settings: {strategy: spread}}"])
def test_both_formats_are_the_same(tmp_path: Path, text: str):
    file = written(tmp_path, text)
    assert own_settings(file, "packing") == {"strategy": "spread"}
    assert parse(configuration_text(file, "packing"), file).algorithm.name == "packing"


def test_a_configuration_keeps_its_other_sections(tmp_path: Path):
    file = written(tmp_path, "holds: {lease_seconds: 7}")
    assert parse(configuration_text(file, "packing"), file).holds == load(file).holds


CELLS = """
physicalCluster:
  cellTypes: {host: {childCellType: gpu, childCellNumber: 010, isNodeLevel: true}}
  physicalCells: [{cellType: host, cellAddress: 010}]
virtualClusters: {a: {virtualCells: [{cellType: host, cellNumber: 1}]}}
"""


@pytest.mark.parametrize("form", ["alone", "named by a configuration"])
def test_numbers_are_read_as_the_algorithms_own_parser_reads_them(tmp_path: Path, form: str):
    file = written(tmp_path, CELLS)
    if form != "alone":
        named, file = file, tmp_path / "waggle.yaml"
        file.write_text(f"algorithm: {{name: hived, settings_file: {named}}}")
    found = HivedSettings.model_validate(own_settings(file, "hived"))
    own = HivedSettings.model_validate(parser("hived")(CELLS))  # type: ignore[misc]
    assert found.model_dump() == own.model_dump()
    assert [cell.cell_address for cell in found.physical_cluster.physical_cells] == ["010"]
    assert found.physical_cluster.cell_types["host"].child_cell_number == 8


def test_a_value_that_yaml_cannot_express_is_named():
    with pytest.raises(SettingsError, match=r"algorithm.settings: expected texts, .*, got a complex"):
        as_yaml({"algorithm": {"name": "mine", "settings": {"ratio": 1j}}})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("algorithm: {name: fgd}", "new.yaml: algorithm.name: expected packing, got 'fgd'"),
        ("- 3", "new.yaml: expected fields, as `name: value`"),
        ("a: {", "new.yaml: while parsing"),
        ("algorithm: {name: packing}\nmood: good", "new.yaml: mood"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, why: str):
    with pytest.raises(SettingsError, match=".*".join(why.split())):
        configuration_text(written(tmp_path, text), "packing")


def test_a_configuration_that_names_no_algorithm_is_of_the_default_one(tmp_path: Path):
    file = written(tmp_path, "algorithm: {settings: {strategy: spread}}")
    assert own_settings(file, "packing") == {"strategy": "spread"}
    with pytest.raises(SettingsError, match="expected fgd, got 'packing'"):
        configuration_text(file, "fgd")


def test_the_demo_takes_a_configuration_too(tmp_path: Path):
    """Bad settings show that they were read; nothing is started."""
    file = written(tmp_path, "algorithm: {name: packing, settings: {strategy: heap}}")
    with pytest.raises(DemoInputError, match="strategy"):
        Demo(settings=file).run()


@pytest.mark.parametrize("form", ["settings: {strategy: sprea}", "settings_file: FILE"])
def test_a_wrong_value_within_a_configuration_names_the_file(tmp_path: Path, form: str):
    own = tmp_path / "own.yaml"
    own.write_text("strategy: sprea\n")
    file = written(tmp_path, f"algorithm: {{name: packing, {form.replace('FILE', str(own))}}}")
    why = r"new.yaml: settings of algorithm 'packing': strategy: .*did you mean"
    with pytest.raises(SettingsError, match=why):
        configuration_text(file, "packing")
    with pytest.raises(DemoInputError, match=why):
        Demo(settings=file).run()


def test_errors_name_the_file_and_the_place(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"new.yaml: settings of algorithm 'packing': strategy: .*did you mean"):
        configuration_text(written(tmp_path, "strategy: sprea"), "packing")
    with pytest.raises(SettingsError, match=r"new.yaml: line 2, column 5: mapping values are not allowed here$"):
        configuration_text(written(tmp_path, "a: 1\nb: c: d"), "packing")
