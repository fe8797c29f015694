"""Estimated starts: when a waiting pod would run, if pods take the time that they declare."""

from __future__ import annotations

from typing import Any

import msgspec

from extender.ordering.records import Dependency, State, Target
from extender.plan.records import Estimate, Options, Plan
from tests.support.plan.worlds import a_node, plan_of, row, running, waiting

ESTIMATE = Options(estimate=True)


def estimated(*args: Any, **more: Any) -> Plan:
    return plan_of(*args, options=ESTIMATE, **more)


def takes(low: float, high: float) -> dict[str, Any]:
    return {"seconds": (low, high), "runs_to_end": True}


def test_a_waiting_pod_starts_when_the_first_ones_have_ended() -> None:
    pods = [
        running("a", "n0", cpu="4", more=takes(60, 90)),
        waiting("b", cpu="4", more=takes(10, 20)),
        waiting("c", cpu="4"),
        waiting("d", cpu="4"),
    ]
    plan = estimated([a_node("n0")], pods)
    assert [(each.name, each.sign, each.start) for each in plan.rows] == [
        ("b", "?", Estimate(60, 90)),
        ("c", "?", Estimate(70, 110)),
        ("d", "?", None),
    ]


def test_what_starts_at_once_says_so() -> None:
    plan = estimated([a_node("n0")], [waiting("a", more=takes(5, 6))])
    assert row(plan, "a").start == Estimate(0, 0)


def test_without_the_option_nothing_is_estimated() -> None:
    pods = [running("a", "n0", cpu="4", more=takes(60, 90)), waiting("b", cpu="4")]
    assert row(plan_of([a_node("n0")], pods), "b").start is None


def test_a_pod_that_runs_has_run_since_it_was_started() -> None:
    ran = running("a", "n0", cpu="4", more=takes(600, 900))
    started = msgspec.structs.replace(ran, pod=msgspec.structs.replace(ran.pod, started="2026-11-23T10:00:00Z"))
    pods = [started, waiting("b", cpu="4")]
    plan = estimated([a_node("n0")], pods, world={"taken": "2026-11-23T10:05:00Z"})
    assert row(plan, "b").start == Estimate(300, 600)


def test_a_dependant_starts_after_the_end_of_what_it_waits_for() -> None:
    job = Target("Job", "default", "j")
    after = (Dependency(job, State.COMPLETE),)
    pods = [
        waiting("a", cpu="1", more={"owner": job, **takes(30, 40)}),
        waiting("b", cpu="1", more={"after": after}),
    ]
    plan = estimated([a_node("n0")], pods)
    assert (row(plan, "b").sign, row(plan, "b").start) == ("+", Estimate(30, 40))


def test_the_end_of_a_pod_that_says_nothing_is_not_guessed() -> None:
    job = Target("Job", "default", "j")
    after = (Dependency(job, State.COMPLETE),)
    pods = [
        waiting("a", cpu="1", more={"owner": job, "runs_to_end": True}),
        waiting("b", cpu="1", more={"after": after}),
    ]
    plan = estimated([a_node("n0")], pods)
    assert (row(plan, "b").sign, row(plan, "b").start) == ("+", None)
