"""The difference between two plans: gangs and pods that would run more or fewer, and the rows that differ."""

from __future__ import annotations

import random

import pytest

from extender.plan.records import Row, Sign
from extender.plan.showing.difference import as_text, difference, headline, of_change
from tests.unit.plan.showing.plans import gang, plan, row


def said(before: list[Row], after: list[Row]) -> str:
    return headline(difference(plan(before), plan(after)))


def test_gangs_that_run_and_that_do_not_are_counted() -> None:
    before = [*gang("a", 2, Sign.WAITS), *gang("b", 2, Sign.WAITS), *gang("c", 2)]
    after = [*gang("a", 2), *gang("b", 2), *gang("c", 2, Sign.WAITS)]
    assert said(before, after) == "2 gangs more would run, 1 fewer; 4 pods more would run, 2 fewer."


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ([row("a")], [row("a")], "Both plans are the same."),
        ([row("a", node="n")], [row("a", node="m")], "As much would run; 1 object would have another place, order"),
        ([row("a", Sign.EVICTED)], [], "1 pod more would run."),
        ([], [row("a", Sign.EVICTED)], "1 pod fewer would run."),
        ([row("a", Sign.WAITS)], [], "As much would run; 1 object"),
        ([], [row("a", Sign.WAITS)], "As much would run; 1 object"),
        ([], [row("a")], "1 pod more would run."),
        ([row("a")], [], "As much would run; 1 object"),
        ([row("a", Sign.MOVES)], [row("a", Sign.WAITS)], "1 pod fewer would run."),
    ],
)
def test_what_has_no_row_stays_or_is_not_there(before: list[Row], after: list[Row], sentence: str) -> None:
    assert said(before, after).startswith(sentence)


def test_what_ends_as_before_is_not_listed() -> None:
    before = [row("a", Sign.WAITS, code="DependencyNotFound", wave=1), row("b", wave=1), row("c", Sign.STAYS)]
    after = [row("a", Sign.WAITS, code="DependencyNotFound", wave=2), row("b", wave=2)]
    assert [each.name for each in difference(plan(before), plan(after)).changed] == ["Pod/default/b"]


@pytest.mark.parametrize("seed", range(30))
def test_every_line_says_a_difference(seed: int) -> None:
    some = random.Random(seed)

    def rows() -> list[Row]:
        signs = [some.choice(list(Sign)) for _ in range(40) if some.random() < 0.9]
        codes, nodes = ("NoNodeFits", "DependencyNotFound"), ("", "n1", "n2")
        return [
            row(f"p{n}", sign, code=some.choice(codes), node=some.choice(nodes), wave=some.randint(0, 2))
            for n, sign in enumerate(signs)
        ]

    for line in as_text(difference(plan(rows()), plan(rows()))).splitlines()[1:]:
        _, _, told = line.partition(": ")
        before, _, after = told.partition(" => ")
        assert before != after, line


def test_a_change_without_effect_says_so() -> None:
    assert of_change(difference(plan([row("a")]), plan([row("a")]))) == "The change makes no difference."
    assert of_change(difference(plan([]), plan([row("a")]))).startswith("With the change: 1 pod more would run.")


def test_a_gang_that_the_change_deletes_does_not_run_more() -> None:
    assert difference(plan(gang("a", 2, Sign.WAITS)), plan([])).gangs_more == ()


def test_what_the_change_deletes_is_not_counted_as_fewer() -> None:
    after = [*gang("a", 2, Sign.EVICTED, code="Deleted"), row("b", Sign.EVICTED, code="Preempted")]
    assert said([], after) == "1 pod fewer would run; 2 pods are deleted by the change."


def test_rows_that_differ_are_listed_and_counted_beyond_fifty() -> None:
    found = difference(plan([row(f"p{n}", Sign.WAITS, code="NoNodeFits") for n in range(60)]), plan([row("p0")]))
    told = as_text(found).splitlines()
    assert told[1] == "  Pod/default/p0: ? NoNodeFits => +"
    assert told[2] == "  Pod/default/p1: ? NoNodeFits => not there"
    assert told[-1] == "  and 10 more rows that differ (--all shows all)"
    assert as_text(found, all_by="format json").endswith("and 10 more rows that differ (format json shows all)")
    assert len(as_text(found, every=True).splitlines()) == 61
