"""Markdown for a pull request: a table, and nothing of a stranger in it is markup."""

from __future__ import annotations

import re

from extender.plan.records import Sign
from extender.plan.showing.markdown import LONGEST, code, markdown, plain
from tests.unit.plan.showing.plans import HOSTILE, mixed, plan, row


def test_a_plan_is_a_table() -> None:
    shown = markdown(mixed())
    assert shown.startswith("### Plan: 4 will run, 1 will move, 1 will be evicted, 4 will wait\n")
    assert "| `+` | `Job/default/train` (3 pods) | `gpu-0 (2), gpu-1` |  |" in shown
    assert "| `~` | `Pod/default/web` | `gpu-1 -> cpu-1` |  |" in shown
    assert "**GangDoesNotFit**: gang default/big does not fit as a whole\\: needs 4 nodes<br>would fit" in shown
    assert "2 waves. Critical path: `Job/default/train` → `Pod/default/late`" in shown
    assert "<details><summary>Groups</summary>" in shown
    assert "* a CronJob is suspended" in shown


def test_nothing_of_a_stranger_is_markup() -> None:
    rows = [row(HOSTILE, Sign.WAITS, code="Other", text=HOSTILE, fix=HOSTILE)]
    shown = markdown(plan(rows, warnings=(HOSTILE,), unknown=(HOSTILE,), critical_path=(HOSTILE,), waves=2))
    outside = [part for number, part in enumerate(shown.split("`")) if not number % 2]
    assert "<script" not in "".join(outside).replace("\\<", "")
    assert "\x1b" not in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("| `"))
    assert len(re.findall(r"(?<!\\)\|", line)) == 5


def test_text_mentions_nobody_and_links_nowhere() -> None:
    assert plain("@octocat #12 http://x") == "@<!-- -->octocat #<!-- -->12 http\\://x"
    assert code("a`b|c") == "`a'b¦c`"
    assert code("") == ""


def test_it_is_short_enough_for_a_comment() -> None:
    rows = [row(f"p{n}", Sign.WAITS, code="Other", text=f"{n} " * 200) for n in range(5000)]
    shown = markdown(plan(rows, warnings=tuple("w" * 500 for _ in range(500))))
    assert len(shown) <= LONGEST
    assert "more lines" in shown
