"""The examples of docs/fixpoint.md run, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PAGE = (Path(__file__).parents[3] / "docs" / "fixpoint.md").read_text()
_EXAMPLES = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)


def test_the_first_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(_EXAMPLES[0], {})
    printed = re.findall(r"```text\n(.*?)```", _PAGE, re.DOTALL)[0]
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("number", "printed"), [(1, "('cook', 'shop')\n"), (2, "10\n")])
def test_the_other_examples_run(number: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(_EXAMPLES[number], {})
    assert capsys.readouterr().out == printed
