"""Whether a plan still holds: what matters, what does not, and in which order objects are created."""

from __future__ import annotations

from typing import Any

import pytest

from extender.plan.applying import differences, in_order, refusal
from extender.plan.files import PlanFile
from extender.plan.records import Changes, RawObject, Row, Sign, Target
from tests.unit.plan.showing.plans import plan, row
from tests.unit.plan.worlds import raw_object

JOB = RawObject(
    kind="Job", api_version="batch/v1", namespace="default", name="j", json=b"{}", origin="a.yaml, document 1"
)


def new(name: str, sign: Sign = Sign.RUNS, **fields: Any) -> Row:
    """A row of the new job."""
    return row(name, sign, origin=JOB.origin, **fields)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([new("a", node="n")], [new("a", node="m")]),
        ([new("a")], [new("a"), row("old", Sign.WAITS, code="NoNodeFits")]),
        ([new("a"), row("old", Sign.WAITS, code="NoNodeFits")], [new("a")]),
        ([new("a"), row("old", Sign.EVICTED)], [new("a")]),
        ([new("a"), row("old", Sign.EVICTED)], [new("a"), row("old", Sign.MOVES)]),
        ([new("a", Sign.WAITS, code="NoNodeFits", text="x")], [new("a", Sign.WAITS, code="NoNodeFits", text="y")]),
        ([new("a"), row("other", origin="b.yaml, document 1")], [new("a")]),
    ],
)
def test_what_does_not_matter(before: list[Row], after: list[Row]) -> None:
    assert differences(plan(before), plan(after), [JOB]) == []


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            [new("a", node="n")],
            [new("a", Sign.WAITS, code="NoNodeFits")],
            "Pod/default/a would wait (NoNodeFits); the plan says that it would run on n",
        ),
        (
            [new("a", Sign.WAITS, code="NoNodeFits")],
            [new("a", Sign.WAITS, code="GangIncomplete")],
            "Pod/default/a would wait (GangIncomplete); the plan says that it would wait (NoNodeFits)",
        ),
        ([new("a")], [], "Pod/default/a would not be made; the plan says that it would run"),
        ([], [new("a", node="n")], "Pod/default/a would run on n; the plan says that it would not be made"),
        ([], [row("old", Sign.EVICTED, before="n")], "Pod/default/old would be evicted from n"),
        ([row("old")], [row("old", Sign.MOVES, before="n")], "Pod/default/old would be moved from n"),
    ],
)
def test_what_matters_is_told(before: list[Row], after: list[Row], sentence: str) -> None:
    assert differences(plan(before), plan(after), [JOB]) == [sentence]


def test_nodes_matter_if_that_is_wanted() -> None:
    before, after = plan([new("a", node="n")]), plan([new("a", node="m")])
    assert differences(before, after, [JOB], same_nodes=True) == [
        "Pod/default/a would run on m; the plan says that it would run on n"
    ]


def test_a_plan_that_was_stopped_does_not_hold() -> None:
    (told,) = differences(plan([]), plan([], stopped="9 pods"), [JOB])
    assert told.endswith("was stopped before its end: 9 pods")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "creates nothing"),
        ({"create": (JOB,), "drain": ("n1",)}, "made with --drain; it does not hold without"),
        ({"create": (JOB,), "delete": (Target("Node", "", "n"),), "algorithm": "x"}, "made with --algorithm, --delete"),
        ({"create": (raw_object("Node", "n1"),)}, "nodes are made by their kubelets"),
    ],
)
def test_plans_that_are_not_for_creating_are_refused(changes: dict[str, Any], why: str) -> None:
    assert why in refusal(PlanFile(plan=plan([]), changes=Changes(**changes)))


def test_a_plan_that_creates_is_taken_unless_it_was_stopped() -> None:
    assert refusal(PlanFile(plan=plan([]), changes=Changes(create=(JOB,)))) == ""
    assert "9 pods" in refusal(PlanFile(plan=plan([], stopped="9 pods"), changes=Changes(create=(JOB,))))


def test_what_others_need_is_created_first_and_else_the_order_stays() -> None:
    kinds = ["Pod", "ConfigMap", "PriorityClass", "Pod", "Namespace", "ConfigMap"]
    objects = [raw_object(kind, f"{kind.lower()}-{number}") for number, kind in enumerate(kinds)]
    assert [each.name for each in in_order(objects)] == [
        "namespace-4",
        "priorityclass-2",
        "configmap-1",
        "configmap-5",
        "pod-0",
        "pod-3",
    ]
