"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """The text of a page of `docs`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a page that are in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
