"""Conformance of the dependency engine, F27 to F35: bodies that misbehave, cancellation, and recovery."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Event

import pytest

from extender.fixpoint import Blocked, Code, Done, End, Engine, Limits, Need, Pool, RunEnd, Status, Visit
from extender.fixpoint.records import Outcome
from tests.support.fixpoint import Declared, reason, runs


def test_f27_a_body_that_is_blocked_on_what_has_ended_fails_with_that_reason() -> None:
    engine: Engine[str] = Engine(lambda visit: Blocked((Need("b"),)) if visit.id == "a" else Done())
    report = engine.run(["a", "b"])
    assert (reason(report, "a").code, reason(report, "a").text) == (
        Code.STUCK,
        "blocked on a finished dependency: b",
    )
    assert runs(report)["a"] <= 4


def test_f27_a_body_that_does_not_heed_its_verdict_fails_with_it() -> None:
    engine: Engine[str] = Engine(lambda visit: Blocked((Need("missing"),)))
    report = engine.run(["a"])
    assert (reason(report, "a").code, reason(report, "a").root) == (Code.NOT_FOUND, ("missing",))
    assert runs(report)["a"] <= 5


def test_f28_blocked_on_nothing_is_an_error_of_the_body() -> None:
    report = Engine[str](lambda visit: Blocked(())).run(["a"])
    assert reason(report, "a").code is Code.NO_BLOCKER
    assert runs(report) == {"a": 1}


def test_f29_a_body_that_raises_fails_its_node_and_what_needs_it() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "b":
            raise ValueError("no such thing")
        return visit.gate([Need("b")] if visit.id == "a" else []) or Done()

    report = Engine(body).run("abc")
    assert report.ready == ("c",)
    assert (reason(report, "b").code, reason(report, "b").text) == (Code.RAISED, "ValueError: no such thing")
    assert reason(report, "a").text == "b failed; root cause: b: ValueError: no such thing"


@pytest.mark.parametrize("answer", ["text", 3, Blocked(("a",)), Blocked((Need([]),))])  # type: ignore[arg-type, type-var]
def test_f29_a_body_that_answers_nonsense_fails_its_node(answer: object) -> None:
    report = Engine[str](lambda visit: answer).run(["a"])  # type: ignore[arg-type, return-value]
    assert reason(report, "a").code is Code.RAISED
    assert "TypeError" in reason(report, "a").text


def test_f30_an_interrupt_ends_the_run_and_is_raised_by_it() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        raise KeyboardInterrupt

    engine = Engine(body)
    with pytest.raises(KeyboardInterrupt):
        engine.run("ab")
    assert engine.report().dispatches == 1


def test_f30_a_pool_that_refuses_or_loses_its_tasks_ends_the_run() -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "a":
            started.set()
            released.wait(10)
        return Done()

    started, released = Event(), Event()
    pool = ThreadPoolExecutor(1)

    def submit(task: Callable[[], None]) -> Future[None]:
        future = pool.submit(task)
        if pool._work_queue.qsize():
            started.wait(10)
            pool.shutdown(wait=False, cancel_futures=True)
            released.set()
        return future

    engine = Engine(body, executor=Pool(submit, Condition(), workers=3))
    with pytest.raises(RuntimeError):
        engine.run("abc")
    assert engine.report().by_id["a"].end is End.READY


def test_f31_a_run_that_is_cancelled_before_it_starts_runs_nothing() -> None:
    graph = Declared({"a": []})
    graph.engine.cancel()
    report = graph.engine.run("a")
    assert (report.end, graph.runs, report.nodes) == (RunEnd.CANCELLED, [], ())


def test_f31_a_run_that_is_cancelled_in_the_middle_dispatches_no_more_and_ignores_late_news() -> None:
    def between(visit: Visit[str]) -> None:
        if visit.id == "b":
            graph.engine.cancel()
            assert visit.cancelled
            assert not visit.arrive("late")

    graph = Declared({"a": ["x"], "b": [], "c": []}, between=between)
    report = graph.run()
    assert (report.end, graph.runs) == (RunEnd.CANCELLED, ["a", "b"])
    assert {node.id: node.end for node in report.nodes} == {
        "a": End.UNFINISHED,
        "b": End.READY,
        "c": End.UNFINISHED,
    }


def test_f31_a_run_that_is_cancelled_during_its_last_body_is_cancelled() -> None:
    graph = Declared({"a": []}, between=lambda visit: graph.engine.cancel())
    assert graph.run().end is RunEnd.CANCELLED


def test_f31_a_cancelled_run_waits_for_the_bodies_in_its_pool() -> None:
    ended: list[str] = []

    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "a":
            assert both.wait(10)
            engine.cancel()
        else:
            both.set()
            while not visit.cancelled:
                pass
        ended.append(visit.id)
        return Done()

    both = Event()
    with ThreadPoolExecutor(2) as threads:
        engine = Engine(body, executor=Pool(threads.submit, Condition(), workers=2))
        report = engine.run("ab")
    assert (report.end, sorted(ended)) == (RunEnd.CANCELLED, ["a", "b"])


def test_f31_asking_between_dispatches_and_closing_the_steps_cancel_as_well() -> None:
    graph = Declared({"a": [], "b": [], "c": []})
    assert graph.engine.run("abc", cancelled=lambda: len(graph.runs) == 2).end is RunEnd.CANCELLED
    assert graph.runs == ["a", "b"]
    other = Declared({"a": [], "b": []})
    steps = other.engine.steps("ab")
    next(steps)
    steps.close()
    assert (other.engine.report().end, other.runs) == (RunEnd.CANCELLED, ["a"])


@pytest.mark.parametrize("first", ["cancel", "cap"])
def test_f32_what_ends_the_run_first_counts(first: str) -> None:
    def body(visit: Visit[str]) -> Outcome[str]:
        visit.arrive("a")
        if first == "cancel" and visit.content("a") == 3:
            engine.cancel()
        return Done()

    engine = Engine(body, limits=Limits(redispatches=3))
    report = engine.run("a")
    if first == "cap":
        engine.cancel()
        report = engine.report()
    assert report.end is (RunEnd.CANCELLED if first == "cancel" else RunEnd.DIVERGED)


@pytest.mark.parametrize("when", ["ended", "running", "data", "never"])
def test_f33_a_node_that_failed_for_a_need_recovers_with_it(when: str) -> None:
    needed = "data" if when == "data" else "b"
    fails = {"b"}

    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "a":
            outcome = visit.gate([Need(needed)])
            if when == "running" and isinstance(outcome, Done) and fails:
                recover(visit)
            return outcome or Done()
        if visit.id == "z":
            if when in ("ended", "data"):
                recover(visit)
            return Done()
        return Done.failed("not yet") if visit.id in fails else Done()

    def recover(visit: Visit[str]) -> None:
        fails.clear()
        visit.status(needed, Status.READY)

    def at_rest() -> bool:
        """The driver comes when all else has ended."""
        return engine.arrive("z", "once")

    engine = Engine(body, at_rest=at_rest)
    if when == "data":
        engine.status("data", Status.FAILED)
    if when != "data":
        engine.arrive("b")  # which runs first, so that `a` finds it failed
    report = engine.run(["a"])
    assert (report.by_id["a"].end is End.READY) is (when != "never")
    assert (runs(report)["a"], report.by_id["a"].charges) == ((1, 0) if when == "never" else (2, 1))


def test_f34_recovery_goes_from_hop_to_hop() -> None:
    graph = Declared({"a": [], "b": ["a"], "c": ["b"]}, fails=["a"])
    told: list[bool] = []

    def at_rest() -> bool:
        if not told:
            graph.fails.clear()
            told.append(graph.engine.arrive("a", "new"))
            return True
        return False

    report = graph.run(at_rest=at_rest)
    assert report.ready == ("a", "b", "c")
    assert all(node.charges == 1 for node in report.nodes)
    assert runs(report) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("then", "recovers"),
    [
        (["x", "y"], ["x", "y"]),
        (["y", "x"], ["x", "y"]),
        (["x", "y", "x"], ["x", "y"]),
        (["x"], ["x"]),
        (["w"], ["w"]),
    ],
)
def test_f35_the_failed_needs_of_the_last_run_are_those_that_count(then: list[str], recovers: list[str]) -> None:
    """Unchanged, reordered, duplicate, fewer, others. Another consumer of the old ones keeps its own."""
    graph = Declared({"a": ["x", "y"], "b": ["x", "y"]})
    steps: list[str] = []

    def at_rest() -> bool:
        steps.append("rest")
        if len(steps) == 1:
            for key in "wxy":
                graph.engine.status(key, Status.FAILED)
        elif len(steps) == 2:
            graph.needs["a"] = [Need(key) for key in then]
            graph.engine.arrive("a", "new")
        elif len(steps) == 3:
            graph.engine.validate()
            for key in recovers:
                graph.engine.status(key, Status.READY)
        return len(steps) < 4

    report = graph.run(at_rest=at_rest)
    assert report.by_id["a"].end is End.READY
    assert report.by_id["b"].end is (End.READY if recovers == ["x", "y"] else End.FAILED)


@pytest.mark.slow
def test_deep_chains_need_no_stack() -> None:
    names = [f"n{number:06d}" for number in range(3_000)]  # three times Python's limit of recursion
    needs = {name: names[at + 1 : at + 2] for at, name in enumerate(names)}
    assert len(Declared(needs).run().ready) == 3_000
    needs[names[-1]] = [names[0]]
    report = Declared(needs).run()
    assert len(report.failed) == 3_000
    assert len(reason(report, names[5]).text) < 300
