"""Conformance of the dependency engine, F15 to F26: content that changes, statuses, selectors, and what never rests."""

from __future__ import annotations

import pytest

from extender.fixpoint import Blocked, Done, Engine, Limits, Need, RunEnd, Status, Visit
from extender.fixpoint.records import Outcome
from tests.support.fixpoint import Declared, runs, without_drain

CONTENT, READY = "content", "ready"


def _news(visit: Visit[str], event: str) -> None:
    if event == CONTENT:
        visit.arrive("a", "new")
    else:
        visit.status("x", Status.READY)


@pytest.mark.parametrize("events", [(CONTENT, READY), (READY, CONTENT)])
def test_f15_content_of_a_parked_or_queued_node_costs_one_run_and_one_charge(events: tuple[str, str]) -> None:
    """`a` is parked on x. Both events come before it runs again, so that the second one finds it queued."""

    def between(visit: Visit[str]) -> None:
        if visit.id == "z":
            for event in events:
                _news(visit, event)

    report = Declared({"a": ["x"], "z": []}, between=between).run()
    assert report.ready == ("a", "z")
    assert (runs(report)["a"], report.by_id["a"].charges) == (2, 1)


@pytest.mark.parametrize("events", [(CONTENT, READY), (READY, CONTENT)])
def test_f15_content_of_a_running_node_costs_one_run_and_one_charge(events: tuple[str, str]) -> None:
    def between(visit: Visit[str]) -> None:
        if graph.runs.count("a") == 1:
            for event in events:
                _news(visit, event)

    graph = Declared({"a": ["x"]}, between=between)
    report = graph.run()
    assert report.ready == ("a",)
    assert (runs(report)["a"], report.by_id["a"].charges) == (2, 1)


@pytest.mark.parametrize("events", [(CONTENT, READY), (READY, CONTENT)])
def test_f15_content_of_an_ended_node_costs_one_run_and_one_charge(events: tuple[str, str]) -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "z":
            for event in events:
                _news(visit, event)

    report = Declared({"a": [], "z": []}, between=between).run()
    assert (runs(report)["a"], report.by_id["a"].charges) == (2, 1)


@pytest.mark.parametrize("events", [(CONTENT, READY), (READY, CONTENT)])
def test_f15_content_of_a_node_that_has_not_run_yet_is_free(events: tuple[str, str]) -> None:
    """It is queued behind `0`, and sees the new content in its first run."""

    def between(visit: Visit[str]) -> None:
        if visit.id == "0":
            for event in events:
                _news(visit, event)

    report = Declared({"0": [], "a": ["x"]}, between=between).run()
    assert (runs(report), report.by_id["a"].charges) == ({"0": 1, "a": 1}, 0)


def test_f15_content_of_a_parked_node_lets_it_look_once_and_park_again() -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "y":
            _news(visit, CONTENT)
        if visit.id == "z" and visit.is_met("zz"):
            _news(visit, READY)

    report = Declared({"a": ["x"], "y": [], "z": ["zz"], "zz": ["zzz"], "zzz": []}, between=between).run()
    assert report.ready == ("a", "y", "z", "zz", "zzz")
    assert (runs(report)["a"], report.by_id["a"].charges) == (3, 1)


def test_f16_new_content_that_drops_the_blocker_lets_a_parked_node_go_on() -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "z":
            graph.needs["a"] = []
            visit.arrive("a", "new")

    graph = Declared({"a": ["missing"], "z": []}, between=between)
    report = graph.run()
    assert report.ready == ("a", "z")
    assert without_drain(report)


def test_f17_a_pending_status_wakes_nobody() -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "z":
            visit.status("x", Status.PENDING)

    report = Declared({"a": ["x"], "z": []}, between=between).run()
    assert runs(report) == {"a": 2, "z": 1}, "the second run is the one with the verdict"
    assert [wait.woken_by for wait in report.by_id["a"].waits] == [None]


def test_f18_the_same_status_and_the_same_content_are_no_news() -> None:
    news: list[bool] = []

    def between(visit: Visit[str]) -> None:
        if visit.id == "z":
            news.extend(visit.status("x", Status.READY) for _ in range(2))
            news.extend(visit.arrive("b", "content") for _ in range(2))

    report = Declared({"a": ["x"], "z": []}, between=between).run()
    assert news == [True, False, True, False]
    assert runs(report) == {"a": 2, "b": 1, "z": 1}


def test_f19_a_selector_runs_again_if_something_arrived_after_it() -> None:
    assert runs(_selector(arrives=True).run(["s", "z"])) == {"s": 2, "z": 1}


def test_f20_a_selector_runs_once_if_nothing_arrived_after_it() -> None:
    assert runs(_selector(arrives=False).run(["s", "z"])) == {"s": 1, "z": 1}


def _selector(*, arrives: bool) -> Engine[str]:
    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "z" and arrives:
            visit.arrive("labelled", "content", runnable=False)
        return Done(sweep=visit.id == "s")

    return Engine(body)


def test_f20_what_a_selector_reports_itself_does_not_run_it_again() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        visit.arrive("made", "content", runnable=False)
        return Done(sweep=True)

    assert runs(Engine(body).run(["s"])) == {"s": 1}


@pytest.mark.parametrize("depth", [8, 32, 40])
def test_f21_a_chain_of_selectors_ends_after_as_many_sweeps_as_it_is_deep(depth: int) -> None:
    """The last stage comes first in the order of ids, so that a sweep brings one stage further."""
    names = [f"s{depth - stage:02d}" for stage in range(depth)]
    stages: set[int] = set()

    def body(visit: Visit[str]) -> Outcome[str]:
        stage = names.index(visit.id)
        if stage == 0 or stage - 1 in stages:
            stages.add(stage)
            visit.arrive(f"data-{stage}", "content", runnable=False)
        return Done(sweep=True)

    report = Engine(body).run(names)
    assert len(stages) == depth
    assert max(runs(report).values()) == depth, "one less than the ancestor: what it reports itself is no news"
    assert max(node.charges for node in report.nodes) <= 2
    assert report.end is RunEnd.CONVERGED


def test_f22_a_node_that_always_changes_itself_ends_the_run_with_its_name() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        visit.arrive("a", {"spec": visit.content("a"), "kind": "same"})
        return Done()

    report = Engine(body).run(["a"])
    assert report.end is RunEnd.DIVERGED
    assert runs(report) == {"a": Limits().redispatches + 1}
    assert report.error == (
        "a does not come to rest: it was to be run again 33 times, and 32 times are allowed; "
        "the last cause: its content changed (fields: spec)"
    )


@pytest.mark.parametrize("variant", ["done", "blocked", "alternating"])
def test_f23_as_many_changes_as_allowed_are_fine(variant: str) -> None:
    cap = 7
    seen: list[int] = []

    def body(visit: Visit[str]) -> Outcome[str]:
        seen.append(len(seen))
        if len(seen) <= cap:
            visit.arrive("a", len(seen))
            if variant == "blocked" or (variant == "alternating" and len(seen) % 2):
                return Blocked((Need("missing"),))
        return Done()

    report = Engine(body, limits=Limits(redispatches=cap)).run(["a"])
    assert (report.end, report.ready, runs(report)) == (RunEnd.CONVERGED, ("a",), {"a": cap + 1})


def test_f24_retries_because_of_a_busy_dependency_are_free() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.content("data") < 40:
            visit.arrive("data", visit.content("data"), runnable=False)
            return Blocked((Need("data"),))
        return Done()

    report = Engine(body).run(["a"])
    assert (report.end, report.ready, report.by_id["a"].charges) == (RunEnd.CONVERGED, ("a",), 0)
    assert runs(report)["a"] == 41


def test_f25_two_nodes_that_change_each_other_and_then_wait_for_each_other_are_bounded() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        other = "b" if visit.id == "a" else "a"
        visit.arrive(other)
        return Blocked((Need(other),))

    report = Engine(body).run(["a", "b"])
    assert report.end is RunEnd.DIVERGED
    assert "does not come to rest" in report.error
    assert "its content changed" in report.error


def test_f26_two_selectors_that_feed_each_other_are_bounded() -> None:
    running: list[str] = []

    def body(visit: Visit[str]) -> Outcome[str]:
        running.append(visit.id)
        visit.arrive(f"data-of-{visit.id}", visit.content(f"data-of-{visit.id}"), runnable=False)
        running.remove(visit.id)
        return Done(sweep=True)

    report = Engine(body).run(["a", "b"])
    assert report.end is RunEnd.DIVERGED
    assert "does not come to rest" in report.error
    assert not running
