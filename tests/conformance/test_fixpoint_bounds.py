"""Conformance of the dependency engine, F25 to F31 pushed further: nothing runs for ever, and nothing hangs.

Each body here does something new every time, so that no retry is the same as the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Condition, Event, Thread
from typing import Any

import pytest

from extender.fixpoint import Blocked, Body, Done, End, Engine, Limits, Need, Pool, Report, RunEnd, Status, Unmet, Want
from extender.fixpoint.levels import BlockedOn, Level, LevelEngine
from extender.fixpoint.records import Outcome
from extender.fixpoint.visit import Visit

#: Few, so that the tests are quick.
LIMITS = Limits(dispatches=200, nodes=300, rests=100)


def bounded(body: Body[str], seeds: Iterable[str]) -> Report[str]:
    """Run it. Raises AssertionError unless the limits, and nothing else, end the run."""
    asked = count()
    report = Engine(body, limits=LIMITS).run(seeds, cancelled=lambda: next(asked) > 10_000)
    assert report.end is RunEnd.DIVERGED, f"{report.end} after {report.dispatches} dispatches"
    return report


def test_f25_data_that_a_body_changes_before_it_is_blocked_on_them_end_the_run() -> None:
    serial = count()

    def body(visit: Visit[str]) -> Outcome[str]:
        visit.arrive("data", next(serial), runnable=False)
        return Blocked((Need("data"),))

    report = bounded(body, ["a"])
    assert report.error == (
        "a does not come to rest: it was dispatched 200 times, and no more are allowed; "
        "the last cause: a need changed while it ran"
    )
    assert report.by_id["a"].end is End.FAILED


def test_f25_two_nodes_that_wake_each_other_with_new_data_end_the_run() -> None:
    serial = count()

    def body(visit: Visit[str]) -> Outcome[str]:
        mine, other = ("x", "y") if visit.id == "a" else ("y", "x")
        visit.arrive(mine, next(serial), runnable=False)
        return Blocked((Need(other, Want.CONTENT, visit.content(other) + 1),))

    assert "a does not come to rest" in bounded(body, ["a", "b"]).error


@pytest.mark.parametrize("change", ["status", "deletion"])
def test_f25_a_need_that_its_own_node_takes_away_and_brings_back_ends_the_run(change: str) -> None:
    serial = count()

    def body(visit: Visit[str]) -> Outcome[str]:
        if change == "status":
            visit.status("x", Status.FAILED if next(serial) % 2 else Status.READY)
        else:
            visit.gone("x")
            visit.arrive("x", runnable=False)
        return Blocked((Need("x"),))

    bounded(body, ["a"])


def test_f25_nodes_that_delete_each_other_and_bring_each_other_back_end_the_run() -> None:
    """A node that comes again is a new one, but its dispatches count on."""

    def body(visit: Visit[str]) -> Outcome[str]:
        other = "b" if visit.id == "a" else "a"
        visit.gone(other)
        visit.arrive(other)
        return Done()

    bounded(body, ["a", "b"])


@pytest.mark.parametrize("optional", [True, False])
def test_f27_a_body_that_is_always_blocked_on_something_new_ends_the_run(optional: bool) -> None:
    serial = count()
    report = bounded(lambda visit: Blocked((Need(f"n{next(serial):06}", optional=optional),)), ["a"])
    assert report.error.endswith("the last cause: a verdict")


def test_f27_a_coroutine_that_is_always_blocked_on_something_new_ends_the_run() -> None:
    serial = count()
    closed: list[str] = []

    async def body(visit: Visit[str]) -> None:
        try:
            while True:
                try:
                    await visit.need(Need(f"n{next(serial):06}", optional=bool(next(serial) % 2)))
                except Unmet:
                    continue
        finally:
            closed.append(visit.id)

    bounded(body, ["a"])
    assert closed == ["a"]


def test_f26_nodes_that_always_report_another_one_end_the_run() -> None:
    serial = count()

    def body(visit: Visit[str]) -> Outcome[str]:
        visit.arrive(f"n{next(serial):06}")
        return Done()

    report = bounded(body, ["a"])
    assert report.error == "there are 301 nodes, and 300 are allowed; the last one is n000299"
    assert len(report.nodes) == 301


@pytest.mark.parametrize("says_so", [True, False])
def test_at_rest_may_not_bring_news_for_ever(says_so: bool) -> None:
    serial, asked = count(), count()

    def at_rest() -> bool:
        return engine.arrive("data", next(serial), runnable=False) and says_so

    engine: Engine[str] = Engine(lambda visit: Done(), at_rest=at_rest, limits=LIMITS)
    report = engine.run(["a"], cancelled=lambda: next(asked) > 10_000)
    assert (report.end, report.error) == (RunEnd.DIVERGED, "at_rest reported news 101 times")


def test_the_limits_are_far_from_what_a_long_coroutine_needs() -> None:
    """It awaits 2,000 nodes one after the other: as many dispatches, none of them a fault."""
    names = [f"n{number:04}" for number in range(2_000)]

    async def body(visit: Visit[str]) -> None:
        if visit.id == "all":
            for name in names:
                await visit.need(Need(name))

    report = Engine(body).run(["all", *names])
    assert (report.end, len(report.ready), report.by_id["all"].runs) == (RunEnd.CONVERGED, 2_001, 1)


# -- nothing hangs ---------------------------------------------------------------------------------------------------


def raised_by(run: Callable[[], object]) -> BaseException | None:
    """What a run in a thread of its own raises. Raises AssertionError if it does not return."""
    found: list[BaseException] = []

    def catch() -> None:
        try:
            run()
        except BaseException as error:
            found.append(error)

    thread = Thread(target=catch, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    return found[0] if found else None


@pytest.mark.parametrize("workers", [1, 2])
def test_f30_ids_that_cannot_be_compared_end_the_run(workers: int) -> None:
    """`a` and 1 wait for x: whichever change of x wakes them has to sort them."""

    def body(visit: Visit[Any]) -> Outcome[Any]:
        if visit.id == "x":
            assert both.wait(10) or workers == 1
            return Done()
        if visit.id == "a":
            visit.arrive(1)
        else:
            both.set()
        return visit.gate([Need("x")]) or Done()

    both = Event()
    with ThreadPoolExecutor(workers) as threads:
        engine: Engine[Any] = Engine(
            body,
            order=lambda key: key == "x",
            executor=Pool(threads.submit, Condition(), workers=workers) if workers > 1 else None,
        )
        assert isinstance(raised_by(lambda: engine.run(["a", "x"])), TypeError)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("when", [3, 4])
def test_f30_an_order_that_raises_ends_the_run(workers: int, when: int) -> None:
    """The third time a body reports a node, the fourth time a node is woken."""
    asked = count(1)

    def order(key: str) -> str:
        if next(asked) == when:
            raise ValueError("no order")
        return key

    def body(visit: Visit[str]) -> Outcome[str]:
        if visit.id == "b":
            visit.arrive("new")
        return visit.gate([Need("b")] if visit.id == "a" else []) or Done()

    with ThreadPoolExecutor(workers) as threads:
        pool = Pool(threads.submit, Condition(), workers=workers)
        engine = Engine(body, order=order, executor=pool if workers > 1 else None)
        error = raised_by(lambda: engine.run(["a", "b"]))
    assert isinstance(error, ValueError)


def test_f30_ids_that_cannot_be_hashed_and_digests_that_cannot_be_compared_are_faults_of_their_body() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("not comparable")

        __hash__ = None  # type: ignore[assignment]

    def body(visit: Visit[Any]) -> Outcome[Any]:
        if visit.id == "a":
            visit.arrive([])
        if visit.id == "b":
            visit.arrive("data", Odd(), runnable=False)
            visit.arrive("data", Odd(), runnable=False)
        return Done()

    report = Engine(body).run("abc")
    assert (report.end, report.ready, report.failed) == (RunEnd.CONVERGED, ("c",), ("a", "b"))


def test_f30_the_ancestor_does_not_hang_either() -> None:
    def body(key: Any, level: Level) -> BlockedOn[Any] | None:
        if key == "a":
            engine.on_arrival(1, schedulable=True)
        if key == "x":
            assert both.wait(10)
            return None
        if key == 1:
            both.set()
        return BlockedOn(("x",))

    both = Event()
    with ThreadPoolExecutor(2) as threads:
        engine: LevelEngine[Any] = LevelEngine(body, executor=Pool(threads.submit, Condition(), workers=2))
        engine.seed(["a", "x"])
        assert isinstance(raised_by(engine.run), TypeError)


def test_f31_cancel_ends_a_coroutine_that_never_ends() -> None:
    """It never has to wait, since what it needs is ready."""
    closed: list[str] = []

    async def body(visit: Visit[str]) -> None:
        try:
            while visit.id == "a":
                started.set()
                await visit.need(Need("b"))
        finally:
            closed.append(visit.id)

    def run() -> None:
        reports.append(engine.run(["a"]))

    reports: list[Report[str]] = []
    started = Event()
    with ThreadPoolExecutor(1) as threads:
        engine = Engine(body, executor=Pool(threads.submit, Condition(), workers=1))
        engine.status("b", Status.READY)
        thread = Thread(target=run, daemon=True)
        thread.start()
        assert started.wait(10)
        engine.cancel()
        thread.join(20)
    assert [(report.end, report.by_id["a"].end) for report in reports] == [(RunEnd.CANCELLED, End.UNFINISHED)]
    assert closed == ["a"]
