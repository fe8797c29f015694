"""`@conformance` makes one test per check, and says what a skip is worth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from algorithm.conformance import conformance
from algorithm.conformance.catalogue import UnknownCheckError
from tests.support.conformance.slots import PLUGIN

ROOT = Path(__file__).parents[4]
TESTS = """
from algorithm.conformance import conformance
from algorithm.registry import Plugin
from tests.support.conformance.faulty import IgnoresTheOffer
from tests.support.conformance.slots import Settings

BROKEN = Plugin(settings=Settings, create=IgnoresTheOffer)
ONLY = ["only-offered-nodes", "answers-well-formed", "fork-equal"]


@conformance(BROKEN, {"slots": 2}, only=ONLY, lives=8)
def test_broken(tmp_path):
    assert tmp_path.is_dir()


@conformance(BROKEN, skip={"only-offered-nodes": "it knows better", "answers-well-formed": "no"}, only=ONLY, lives=8)
class TestExcused: ...
"""


@pytest.mark.slow
def test_one_test_per_check(tmp_path: Path) -> None:
    file = tmp_path / "test_them.py"
    file.write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:randomly", "--rootdir", str(tmp_path), str(file)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    assert "PASSED test_them.py::test_broken[answers-well-formed]" in said
    assert "FAILED test_them.py::test_broken[only-offered-nodes]" in said
    assert "SKIPPED [2]" in said
    assert "the algorithm has no `fork`" in said
    assert "XFAIL test_them.py::TestExcused::test_contract[only-offered-nodes] - it knows better" in said
    assert "FAILED test_them.py::TestExcused::test_contract[answers-well-formed]" in said
    assert "opted out (no), but it passes" in said
    assert f"life_of('{file}:BROKEN', {{'slots': 2}}, check='only-offered-nodes')" in said
    assert "As a log: waggle replay " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("skip", "text"),
    [
        ({"only-ofered-nodes": "why"}, "did you mean only-offered-nodes?"),
        ({"only-offered-nodes": " "}, "needs a reason"),
    ],
)
def test_a_skip_needs_a_check_and_a_reason(skip: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        conformance(PLUGIN, skip=skip)


def test_names_without_reasons_are_no_skip() -> None:
    with pytest.raises(ValueError, match=r"skip: expected \{check: reason\}, got list"):
        conformance(PLUGIN, skip=["only-offered-nodes"])  # type: ignore[arg-type]


def test_an_unknown_check_is_not_chosen() -> None:
    with pytest.raises(UnknownCheckError, match="did you mean fork-equal"):
        conformance(PLUGIN, only=["fork-equals"])


def test_pytest_loads_nothing_heavy_at_its_start() -> None:
    code = (
        "import sys, algorithm.conformance.pytest_plugin;"
        "print(sorted({'hypothesis', 'msgspec', 'pydantic', 'subprocess', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
