"""No trap of the protocol page goes untested: each is sprung by a test against a real kube-scheduler."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_trap_of_the_protocol_page_is_sprung_in_e2e() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    modules = (ROOT / "tests" / "e2e").glob("test_traps*.py")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    told = set(re.findall(r"^### (\d+)\. ", page, re.MULTILINE))
    assert told == set(re.findall(r"^def test_trap_(\d+)_", tests, re.MULTILINE))
