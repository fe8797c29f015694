"""`waggle conformance`: what it writes, its exit status, and how it refuses what cannot be tried."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from algorithm.conformance.catalogue import CHECKS
from extender.cli import app

SLOTS, FAULTY = "tests.support.conformance.slots:PLUGIN", "tests.support.conformance.faulty:IGNORES_THE_OFFER"
QUICK = ("--lives", "8", "--only", "only-offered-nodes")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["conformance", *arguments])


def test_the_list_is_printed() -> None:
    said = run("--list")
    assert said.exit_code == 0
    assert all(f"  {check.name} " in said.stdout for check in CHECKS)


@pytest.mark.slow
def test_one_that_conforms_says_so_in_json(tmp_path: Path) -> None:
    settings = tmp_path / "slots.yaml"
    settings.write_text("slots: 2\n")
    said = run(SLOTS, *QUICK, "--settings", str(settings), "-o", "json")
    assert said.exit_code == 0, said.output
    report = json.loads(said.stdout)
    assert (report["conforms"], report["settings"]) == (True, {"slots": 2})


@pytest.mark.slow
def test_one_that_does_not_exits_with_1_and_writes_a_log(tmp_path: Path) -> None:
    said = run(FAULTY, *QUICK, "--logs", str(tmp_path / "logs"), "-o", "junit")
    assert said.exit_code == 1, said.output
    assert ET.fromstring(said.stdout).get("failures") == "1"
    assert (tmp_path / "logs" / "only-offered-nodes.log").read_bytes().startswith(b'{"waggle":2')


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "which plug-in? Give PACKAGE:PLUGIN"),
        (
            (SLOTS, "--only", "only-offerd-nodes"),
            "there is no check 'only-offerd-nodes'; did you mean only-offered-nodes?",
        ),
        ((SLOTS, "--skip", "only-offered-nodes"), "expected NAME=REASON"),
        ((SLOTS, "--skip", "no-check=why"), "there is no check 'no-check'"),
        ((SLOTS, "--settings", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("tests.support.conformance.slots:NOTHING", *QUICK), "has no NOTHING"),
    ],
)
def test_what_cannot_be_tried_exits_with_2_and_the_reason(arguments: tuple[str, ...], text: str) -> None:
    said = run(*arguments)
    assert said.exit_code == 2
    assert text in said.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("slots: a: 2", "line 1, column 9: mapping values are not allowed here"),
        ("slotts: 2", "slotts: there is no such field; did you mean slots?"),
        ("- 2", "expected fields, as `name: value`"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_with_their_file(tmp_path: Path, settings: str, text: str) -> None:
    file = tmp_path / "slots.yaml"
    file.write_text(settings)
    said = run(SLOTS, *QUICK, "--settings", str(file))
    assert (said.exit_code, said.output.replace("\n", " ").strip()) == (2, f"waggle: {file}: {text}")
