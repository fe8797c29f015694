"""Every command with bad input: the exit status of docs/exit-status.md, a reason on standard error, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from extender.cli import app

PAGE = (Path(__file__).parents[3] / "docs" / "exit-status.md").read_text(encoding="utf-8")
#: Nothing answers at the port of the discard service.
NOBODY = ("--server", "http://127.0.0.1:9")
GONE = "gone/file"
#: `bad` is no YAML and no recording, `gone` is no folder. None: the command takes no input but its options.
BAD: dict[str, tuple[str, ...] | None] = {
    "serve": ("--config", GONE),
    "check": ("--config", "bad"),
    "algorithms": None,
    "version": None,
    "demo": ("--settings", GONE),
    "cluster": ("--kubeconfig", GONE),
    "kube-scheduler-config": ("--topology", "local", "--config", GONE),
    "doctor": None,
    "certs": ("--output", "bad"),
    "ui": ("--kubeconfig", GONE),
    "explain": ("pod", *NOBODY),
    "top": NOBODY,
    "claim": ("ns/pool", *NOBODY, "--token-file", GONE, "--", "true"),
    "pools": NOBODY,
    "release": ("claim", *NOBODY),
    "plan make": ("-f", "bad", "--nodes", "1"),
    "plan diff": (GONE, "bad"),
    "apply": ("bad",),
    "snapshot": ("--kubeconfig", GONE, "-o", "new"),
    "replay": ("bad",),
    "record show": ("bad",),
    "record cut": ("bad", "new"),
    "record stats": ("bad",),
    "record anonymize": ("bad", "new"),
    "conformance": ("nowhere:PLUGIN",),
    "simulate": ("--trace", "bad", "--algorithm", "packing"),
    "new-algorithm": ("bad",),
    "trace generate": ("philly", "--out", GONE),
    "trace show": ("bad",),
    "lint file": ("bad",),
    "lint pool": ("bad",),
    "lint vpods": ("bad",),
    "lint ordering": ("-f", GONE),
    "vpods show": NOBODY,
    "vpods plan": ("ns/set", *NOBODY),
    "vpods explain": ("ns/set", "ns/vpod", *NOBODY),
    "hived init": ("--from-file", GONE),
    "hived diff": ("bad", GONE),
}
#: As issue and docs/plan.md have it: there, 2 says that something waits.
PLANS = {"plan make", "plan diff", "apply"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not (inside := getattr(group, "commands", None)):
        yield " ".join(path)
    for name, command in (inside or {}).items():
        yield from commands(command, (*path, name))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bad").write_text("nonsense: {\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_is_in_the_table_and_in_this_test():
    rows = re.findall(r"^\| `([a-z -]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(commands(typer.main.get_command(app))) == sorted(BAD)


@pytest.mark.parametrize("command", [name for name, arguments in BAD.items() if arguments])
def test_bad_input(folder: Path, command: str):
    result = CliRunner().invoke(app, [*command.split(), *(BAD[command] or ())])
    assert result.exit_code == (1 if command in PLANS else 2), result.output
    assert result.stderr.startswith("waggle: ")
    assert (result.stdout, [each.name for each in folder.iterdir()]) == ("", ["bad"])


@pytest.mark.parametrize("command", list(BAD))
def test_an_option_that_there_is_not(folder: Path, command: str):
    result = CliRunner().invoke(app, [*command.split(), "--no-such-option"])
    assert result.exit_code == (1 if command in PLANS else 2), result.output
    assert "No such option" in result.stderr
    assert result.stdout == ""


def test_a_part_of_a_manifest_that_cannot_be_read_is_no_success(folder: Path):
    """The rest is checked and shown; it used to end with 0."""
    result = CliRunner().invoke(app, ["lint", "ordering", "-f", "bad"])
    assert (result.exit_code, "bad: line 2" in result.stdout) == (2, True)
