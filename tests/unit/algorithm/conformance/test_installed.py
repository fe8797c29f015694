"""The log of a failure carries the name under which the plug-in is installed, however the plug-in was named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from algorithm.conformance.calls import NewLife
from algorithm.conformance.installed import how_to_open, installed_name
from algorithm.conformance.logs import write_logs
from algorithm.conformance.results import Report, Result
from algorithm.packing import algorithm as packing_module
from algorithm.registry import available
from extender.recording.log import open_log

PACKAGE = "waggle_test_slots"
#: To import it would fail: it is compared, and not imported.
ALGORITHM = "raise RuntimeError('imported')\nPLUGIN = OTHER = object()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that `pip install -e .` has installed: its folder, and its metadata, are found on the path."""
    package, metadata = tmp_path / "project" / PACKAGE, tmp_path / "site" / f"{PACKAGE}-1.dist-info"
    for folder in (package, metadata):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(f"from {PACKAGE}.algorithm import PLUGIN\n")
    (package / "relative.py").write_text("from .algorithm import OTHER as PLUGIN\nfrom .circle import ROUND\n")
    (package / "circle.py").write_text("from .relative import ROUND\n")
    (package / "broken.py").write_text("PLUGIN = (\n")
    (package / "algorithm.py").write_text(ALGORITHM)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    points = {"slots1": f"{PACKAGE}:PLUGIN", "slots2": f"{PACKAGE}.relative:PLUGIN", "gone": "waggle_test_gone:PLUGIN"}
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[waggle.algorithms]\n{lines}")
    for folder in (package.parent, metadata.parent):
        monkeypatch.syspath_prepend(str(folder))
    yield package
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]


def test_a_file_has_the_name_of_the_entry_point_that_leads_to_it(project: Path) -> None:
    assert installed_name(f"{project / 'algorithm.py'}:PLUGIN") == "slots1"
    assert installed_name(f"{project / '__init__.py'}:PLUGIN") == "slots1"
    assert installed_name(f"{PACKAGE}.algorithm:PLUGIN") == "slots1"
    assert installed_name(f"{project / 'algorithm.py'}:OTHER") == "slots2"
    assert how_to_open(Path("a.log"), f"{project / 'algorithm.py'}:PLUGIN") == "waggle replay a.log --step"


@pytest.mark.parametrize("which", ["algorithm.py:SOME", "broken.py:PLUGIN", "circle.py:ROUND", "none.py:PLUGIN"])
def test_another_file_or_name_is_not_installed(project: Path, which: str) -> None:
    assert installed_name(f"{project}/{which}") == f"{project}/{which}"
    said = how_to_open(Path("a.log"), f"{project}/{which}")
    assert said.startswith("waggle replay a.log --step, after you install the plug-in under a name")
    assert said.endswith("and test it again by that name")


def test_a_copy_of_the_file_is_not_the_installed_one(project: Path, tmp_path: Path) -> None:
    (tmp_path / "algorithm.py").write_text(ALGORITHM)
    assert installed_name(f"{tmp_path / 'algorithm.py'}:PLUGIN") == f"{tmp_path / 'algorithm.py'}:PLUGIN"


def test_the_log_of_a_file_carries_the_installed_name(project: Path, tmp_path: Path) -> None:
    failed = Result(check="only-offered-nodes", status="failed", calls=(NewLife(),))
    report = Report(plugin=f"{project / 'algorithm.py'}:PLUGIN", contract=1, results=(failed,))
    ((_, path),) = write_logs(tmp_path / "logs", report)
    (recording,) = open_log(path).recordings
    assert recording.header.algorithm == "slots1"


def test_a_plugin_is_found_by_its_name_also_through_the_module_that_it_comes_from() -> None:
    (value,) = (point.value for name, point in available().items() if name == "packing")
    imported, attribute = value.split(":")
    with patch.object(packing_module, "ALIAS", getattr(sys.modules[imported], attribute), create=True):
        assert installed_name(f"{packing_module.__name__}:ALIAS") == "packing"
    assert installed_name("nobody:PLUGIN") == "nobody:PLUGIN"
    assert how_to_open(Path("a.log"), "packing") == "waggle replay a.log --step"
