"""Conformance of the dependency engine, F1 to F14: chains, dangling ones, cycles, and news between two looks."""

from __future__ import annotations

import pytest

from extender.fixpoint import Blocked, Code, Done, End, Engine, Need, RunEnd, Status, Verdict, Visit, Want
from extender.fixpoint.records import Outcome
from tests.support.fixpoint import Declared, reason, runs, without_drain


def test_f01_a_chain_is_ready_without_a_drain() -> None:
    report = Declared({"a": ["b"], "b": ["c"], "c": []}).run()
    assert report.ready == ("a", "b", "c")
    assert without_drain(report)
    assert report.dispatches <= 5
    assert [(node.id, node.wave) for node in report.nodes] == [("a", 2), ("b", 1), ("c", 0)]
    assert report.critical_path == ("c", "b", "a")


def test_f02_the_join_of_a_diamond_runs_twice_at_most() -> None:
    report = Declared({"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}).run()
    assert report.ready == ("a", "b", "c", "d")
    assert without_drain(report)
    assert runs(report)["d"] <= 2


@pytest.mark.parametrize(("consumer", "middle"), [("a", "b"), ("b", "a")])
def test_f03_f04_a_dangling_chain_names_what_is_missing(consumer: str, middle: str) -> None:
    report = Declared({consumer: [middle], middle: ["missing"]}).run()
    assert report.failed == ("a", "b")
    assert reason(report, middle).code is Code.NOT_FOUND
    assert reason(report, middle).because == ("missing",)
    assert reason(report, consumer).code is Code.DEPENDENCY_FAILED
    assert (reason(report, consumer).because, reason(report, consumer).root) == ((middle,), ("missing",))
    assert report.dispatches <= 5
    assert dict(report.steps)[Verdict.ABSENT] == 1


def test_f05_a_dangling_chain_of_five_fails_in_one_step() -> None:
    names = "abcde"
    report = Declared({name: [after] for name, after in zip(names, [*names[1:], "missing"], strict=True)}).run()
    assert report.failed == tuple(names)
    assert all(reason(report, name).root == ("missing",) for name in names)
    assert sum(count for _, count in report.steps) == 1
    assert report.dispatches <= 14
    assert max(runs(report).values()) <= 6


def test_f06_a_cycle_is_named() -> None:
    report = Declared({"a": ["b"], "b": ["a"]}).run()
    assert [reason(report, name).code for name in "ab"] == [Code.CYCLE, Code.CYCLE]
    assert [reason(report, name).text for name in "ab"] == ["cycle: a -> b -> a", "cycle: b -> a -> b"]
    assert max(runs(report).values()) <= 3


def test_f07_a_node_that_needs_itself_is_a_cycle() -> None:
    report = Declared({"a": ["a"]}).run()
    assert (reason(report, "a").code, reason(report, "a").path) == (Code.CYCLE, ("a", "a"))


def test_f08_what_is_downstream_of_a_cycle_fails_because_of_it() -> None:
    report = Declared({"a": ["b"], "b": ["a"], "z": ["a"], "y": ["z"]}).run()
    assert report.failed == ("a", "b", "y", "z")
    assert [reason(report, name).code for name in "yz"] == [Code.DEPENDENCY_FAILED] * 2
    assert [reason(report, name).root for name in "yz"] == [("a", "b")] * 2
    assert reason(report, "y").text == "z failed; root cause: a, b: cycle: a -> b -> a"


def test_f09_the_healthy_part_is_untouched() -> None:
    report = Declared({"h": ["i"], "i": [], "d": ["missing"], "a": ["b"], "b": ["a"]}).run()
    assert report.ready == ("h", "i")
    assert report.failed == ("a", "b", "d")
    assert runs(report)["h"] <= 2


def test_f10_what_arrives_while_another_body_runs_wakes_its_waiter() -> None:
    graph = Declared({"a": ["x"], "b": []}, between=lambda visit: arrive_x(visit) if visit.id == "b" else None)

    def arrive_x(visit: Visit[str]) -> None:
        assert graph.runs == ["a", "b"]
        visit.arrive("x")

    report = graph.run()
    assert report.ready == ("a", "b", "x")
    assert without_drain(report)


def test_f11_a_consumer_of_what_a_producer_reports_waits_without_a_drain() -> None:
    report = Declared({"consumer": ["made"], "producer": []}, emits={"producer": ["made"]}).run()
    assert report.ready == ("consumer", "made", "producer")
    assert without_drain(report)
    assert runs(report)["consumer"] <= 3


def test_f12_a_blocker_that_ends_before_its_waiter_parks_is_noticed() -> None:
    """The waiter has looked; b becomes ready; the waiter returns Blocked(b)."""

    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "a" and not visit.is_met("b"):
            visit.status("b", Status.READY)
            return Blocked((Need("b"),))
        return Done()

    report = Engine(body).run(["a"])
    assert (report.ready, runs(report)) == (("a",), {"a": 2})
    assert without_drain(report)


def test_f13_data_that_arrives_between_look_and_end_is_noticed_without_a_drain() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        if not visit.is_met("data", Want.EXISTS):
            engine.arrive("data", runnable=False)
            return Blocked((Need("data", Want.EXISTS),))
        return Done()

    engine: Engine[str] = Engine(body)
    report = engine.run(["a"])
    assert (report.ready, runs(report)) == (("a",), {"a": 2})
    assert without_drain(report)


def test_f14_data_wakes_and_never_becomes_a_node() -> None:
    report = Declared({"a": ["data"], "b": []}, data={"b": ["data"]}).run()
    assert [node.id for node in report.nodes] == ["a", "b"]
    assert report.ready == ("a", "b")
    assert without_drain(report)
    assert report.by_id["a"].wave == 1, "it waited for what b reported"


def test_content_at_a_generation_is_waited_for() -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "b":
            visit.arrive("data", 1, runnable=False)
            visit.arrive("data", 1, runnable=False)
            visit.arrive("data", 2, runnable=False)

    report = Declared({"a": [Need("data", Want.CONTENT, 2)], "b": []}, between=between).run()
    assert report.ready == ("a", "b")
    late = Declared({"a": [Need("data", Want.CONTENT, 3)], "b": []}, between=between).run()
    assert reason(late, "a").code is Code.NOT_READY


def test_what_has_ended_without_being_ready_is_told_as_such() -> None:
    """Nothing is left that could make it ready: neither absent nor a cycle."""
    engine: Engine[str] = Engine(
        lambda visit: visit.gate([Need("b")] if visit.id == "a" else []) or Done(Status.PENDING)
    )
    report = engine.run(["a", "b"])
    assert (report.end, report.by_id["b"].end) == (RunEnd.CONVERGED, End.PENDING)
    assert (reason(report, "a").code, reason(report, "a").text) == (Code.NOT_READY, "never became ready: b")
