"""What docs/replay.md prints is what the commands print, and its picture is the one that they draw.

Only numbers of events may differ: how often a pod is tried in vain is nothing that a reader relies on.
"""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from tests.support.engine.day import write_day

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "replay.md").read_text(encoding="utf-8")
_NUMBERS = re.compile(r"#\d+|event \d+|\d+ (events?|decisions)")
_PRINTF = re.compile(r"printf '(.*)' \| (.*)")


def examples() -> Iterator[tuple[str, list[str]]]:
    for block in re.findall(r"```console\n\$ (.*?)```", PAGE, re.DOTALL):
        command, *lines = block.splitlines()
        yield command, lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("day")
    write_day(made / "day.log")
    return made


@pytest.mark.parametrize(("command", "lines"), list(examples()), ids=[command for command, _ in examples()])
def test_an_example_prints_what_is_printed_here(
    command: str, lines: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    piped = _PRINTF.fullmatch(command)
    typed = piped[1].encode().decode("unicode_escape") if piped else ""
    arguments = shlex.split(piped[2] if piped else command)[1:]
    printed = CliRunner().invoke(app, arguments, input=typed).stdout

    printed = _NUMBERS.sub("N", printed)
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else _line(line) for line in lines)
    assert re.match(f"{pattern}$", printed), printed


def _line(text: str) -> str:
    """A line as a pattern; `...` at its end stands for the rest."""
    text = _NUMBERS.sub("N", text)
    return f"{re.escape(text.removesuffix('...'))}{'.*' if text.endswith('...') else ''}\n"


@pytest.mark.parametrize("begin", [*(pytest.param(begin, marks=pytest.mark.slow) for begin in (1, 151)), 422])
def test_the_day_without_names_decides_the_same(begin: int, folder: Path) -> None:
    """HiveD, gangs, evictions, and UIDs such as 8.0 and 8.0~1, from a checkpoint in the middle of a preemption too."""
    part, out = folder / f"part-{begin}", folder / f"out-{begin}"

    def waggle(*arguments: object) -> str:
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
        return result.output

    waggle("record", "cut", folder / "day.log", part, "--from", begin)
    assert "decisions are the same, apart from names" in waggle("record", "anonymize", part, out)
    waggle("replay", out)
    assert re.search(r"^evicted +[1-9]", waggle("record", "stats", out), re.MULTILINE)
    text = gzip.decompress(out.read_bytes())
    assert [name for name in (b'"vision', b"speech", b"node-7", b"train-6", b'"8.0') if name in text] == []


@pytest.mark.slow
def test_the_picture_is_that_of_the_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    CliRunner().invoke(app, ["replay", "day.log", "--algorithm", "packing", "--svg", "drawn.svg"])
    assert (folder / "drawn.svg").read_text() == (DOCS / "replay.svg").read_text()
