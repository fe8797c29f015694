"""The examples of docs/plan.md: the output is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app

PAGE = (Path(__file__).parents[3] / "docs" / "plan.md").read_text(encoding="utf-8")
#: Each command with its output.
EXAMPLES = re.findall(r"^```\n\$ waggle (.+)\n([\s\S]+?)^```$", PAGE, re.MULTILINE)


def lines(text: str) -> list[str]:
    """The lines of an output; a fingerprint is another one in each version of what it is made of."""
    return [re.sub(r"fingerprint [0-9a-f]{32}", "fingerprint", line) for line in text.splitlines() if line.strip()]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_the_output_is_what_the_command_prints(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, manifest in re.findall(r"^```yaml\n# (\S+\.yaml)\n([\s\S]+?)^```$", PAGE, re.MULTILINE):
        (tmp_path / name).write_text(manifest, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, shlex.split(command))
    printed, told = lines(shown.stdout), lines(output)
    if "..." in (line.strip() for line in told):
        assert [line for line in told if line.strip() != "..." and line not in printed] == []
    else:
        assert printed == told
