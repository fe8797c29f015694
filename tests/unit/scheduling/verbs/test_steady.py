"""What kube-scheduler is told of a pod may change now and then, and not all the time."""

from __future__ import annotations

import itertools

import pytest

from algorithm.interface import Wait
from algorithm.reasons import Code, reason
from extender.scheduling.faults import FaultKind
from extender.scheduling.verbs.steady import MOST_CHANGES, WINDOW
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def told(engine: EngineHarness, name: str = "p") -> str:
    answer = engine.filter(pod(name), "a", "b")
    assert answer.reason is not None
    return answer.nodes.get("a", answer.reason).text


def moving(engine: EngineHarness) -> None:
    numbers = itertools.count(1)
    engine.algorithm.schedule = lambda *_: Wait(reason(Code.OTHER, detail=f"wait {next(numbers)} s"))


def test_a_text_that_moves_is_held_still_after_some_changes(engine: EngineHarness) -> None:
    moving(engine)
    texts = [told(engine) for _ in range(100)]
    assert len(set(texts)) == MOST_CHANGES + 1
    assert set(texts[MOST_CHANGES:]) == {f"wait {MOST_CHANGES + 1} s"}
    assert engine.machine.counts["unsteady", "held"] == 99 - MOST_CHANGES


def test_pages_show_the_newest_reason(engine: EngineHarness) -> None:
    moving(engine)
    for _ in range(50):
        told(engine)
    pod_info = engine.machine.find("default", "p")
    assert pod_info is not None
    assert pod_info.reason is not None
    assert pod_info.reason.text == "wait 50 s"


def test_it_is_noticed_once_for_each_window_and_is_no_fault(engine: EngineHarness) -> None:
    moving(engine)
    for _ in range(50):
        told(engine)
    ((_, noticed),) = engine.machine.driver.fault_log.known()
    assert (noticed.kind, noticed.count, noticed.subject) == (FaultKind.UNSTEADY_REASON, 1, "pod default/p")
    assert f"'wait {MOST_CHANGES + 1} s', then 'wait {MOST_CHANGES + 2} s'" in noticed.text
    assert engine.machine.driver.faults == 0


def test_after_a_window_a_new_text_is_told(engine: EngineHarness) -> None:
    moving(engine)
    for _ in range(50):
        told(engine)
    engine.now += WINDOW
    assert told(engine) == "wait 51 s"


def test_other_pods_are_told_their_own(engine: EngineHarness) -> None:
    moving(engine)
    for _ in range(50):
        told(engine)
    assert told(engine, "q") == "wait 51 s"


def test_texts_of_nodes_that_move_are_held_too(engine: EngineHarness) -> None:
    numbers = itertools.count(1)

    def schedule(*_: object) -> Wait:
        return Wait(reason(Code.NO_NODE_FITS), {"a": reason(Code.OTHER, detail=f"{next(numbers)} slots")})

    engine.algorithm.schedule = schedule
    assert len({told(engine) for _ in range(100)}) == MOST_CHANGES + 1


def test_an_exception_with_a_moving_text_is_held_too_and_stays_an_error(engine: EngineHarness) -> None:
    def fails(*_: object) -> None:
        raise ValueError(f"at {object()!r} {next(numbers)}")

    numbers = itertools.count(1)
    engine.algorithm.schedule = fails
    answers = [engine.filter(pod("p"), "a") for _ in range(100)]
    assert all(answer.error for answer in answers)
    assert len({answer.reason for answer in answers}) == MOST_CHANGES + 1


def test_the_same_text_again_and_again_is_no_change(engine: EngineHarness) -> None:
    engine.algorithm.schedule = lambda *_: Wait(reason(Code.NO_NODE_FITS), {"a": reason(Code.NODE_CORDONED)})
    assert {told(engine) for _ in range(100)} == {"node is cordoned"}
    assert not engine.machine.counts["unsteady", "held"]


def test_a_place_is_given_at_once(engine: EngineHarness) -> None:
    moving(engine)
    for _ in range(50):
        told(engine)
    del engine.algorithm.schedule
    assert engine.filter(pod("p"), "a", "b").node == "a"
