"""The faults of an algorithm: the same one is one entry, whatever its text; memory is bounded, whatever is raised."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from algorithm.interface import Bind, SuggestedNodes, Wait
from algorithm.model import Node
from algorithm.reasons import Code
from extender.logs.setup import traceback_text
from extender.scheduling.events import NodeSeen
from extender.scheduling.faults import LONGEST_TEXT, MOST_FAULTS, Fault, FaultLog
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod


@pytest.fixture
def book() -> FaultLog:
    return FaultLog()


def raised(book: FaultLog, text: str, call: str = "schedule", at: float = 0.0) -> str:
    try:
        fails(text)
    except ValueError as error:
        return book.raised(call, error, at, pod("p"))
    raise AssertionError


def fails(text: str) -> None:
    raise ValueError(text)


def entries(book: FaultLog) -> list[Fault]:
    return [fault for _, fault in book.known()]


def test_texts_that_differ_are_one_fault_with_a_count(book: FaultLog) -> None:
    for number in range(3):
        raised(book, f"pod {number}", at=number)
    (fault,) = entries(book)
    assert (fault.count, fault.text, fault.subject, fault.at) == (3, "ValueError: pod 2", "pod default/p", 2)
    assert (book.total, book.last) == (3, fault)


def test_the_first_keeps_its_traceback_with_the_line_that_raised(book: FaultLog) -> None:
    raised(book, "first")
    raised(book, "second")
    (fault,) = entries(book)
    assert fault.trace is not None
    shown = traceback_text(fault.trace)
    assert "raise ValueError(text)" in shown
    assert "ValueError: first" in shown


def test_the_same_line_in_another_call_is_another_fault(book: FaultLog) -> None:
    raised(book, "x")
    raised(book, "x", call="add_node")
    assert [fault.call for fault in entries(book)] == ["schedule", "add_node"]


def test_breaches_are_told_apart_by_their_rule(book: FaultLog) -> None:
    for text in ("it chose a", "it chose b"):
        book.breached("schedule", "it chose {}", text, 1.0)
    book.breached("gang", "gang returned {}", "gang returned str", 1.0)
    assert [(fault.text, fault.count) for fault in entries(book)] == [("it chose b", 2), ("gang returned str", 1)]


def test_an_algorithm_that_raises_from_a_new_place_each_time_fills_no_memory(book: FaultLog) -> None:
    for number in range(3 * MOST_FAULTS):
        book.breached("metrics", f"gauge {number}", f"gauge {number}", 0.0)
    known = entries(book)
    assert len(known) == MOST_FAULTS + 1
    assert (known[-1].count, known[-1].text, book.total) == (2 * MOST_FAULTS, f"gauge {3 * MOST_FAULTS - 1}", 192)


def test_a_long_text_is_cut(book: FaultLog) -> None:
    assert len(raised(book, "x" * 1_000_000)) == LONGEST_TEXT


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and this one, too")


def test_a_traceback_keeps_no_long_texts_of_the_algorithm(book: FaultLog) -> None:
    error = ValueError("x" * 1_000_000)
    error.__notes__ = ["n" * 1_000_000] * 100
    group = ExceptionGroup("g" * 1_000_000, [KeyError("k" * 1_000_000)] * 100)
    group.__cause__ = error
    try:
        raise group
    except ExceptionGroup as caught:
        book.raised("schedule", caught, 0.0)
    (fault,) = entries(book)
    assert len(pickle.dumps(fault.trace)) < 50_000
    assert fault.trace is not None
    shown = "".join(fault.trace.format())
    assert "ValueError: xxx" in shown
    assert "nnn" in shown
    assert "ggg" in shown


def test_a_traceback_of_a_long_chain_keeps_its_end(book: FaultLog) -> None:
    error = ValueError("0")
    for number in range(1, 500):
        later = ValueError(str(number))
        later.__cause__, error = error, later
    book.raised("schedule", error, 0.0)
    (fault,) = entries(book)
    assert fault.trace is not None
    assert "ValueError: 499" in (shown := traceback_text(fault.trace))
    assert shown.count("ValueError") == 8


def test_an_exception_whose_text_cannot_be_made_does_not_stop_the_engine(book: FaultLog) -> None:
    engine = EngineHarness()
    engine.see(node("a"))

    def fails(*_: object) -> None:
        raise Mute

    engine.algorithm.schedule = fails
    answer = engine.filter(pod("p"), "a")
    assert answer.error
    assert engine.machine.driver.last_fault == "Mute: (it has no text)"


class Panic(BaseException):
    """As what a Rust extension raises when it panics."""


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, Panic])
@pytest.mark.parametrize("call", ["schedule", "add_unallocated_pod", "gang", "prioritize", "metrics"])
def test_no_kind_of_exception_of_the_algorithm_is_lost(kind: type[BaseException], call: str) -> None:
    engine = EngineHarness()
    engine.see(node("a"))

    def fails(*_: object) -> None:
        raise kind("left")

    setattr(engine.algorithm, call, fails)
    engine.filter(pod("p"), "a")
    engine.machine.driver.prioritize(pod("p"), SuggestedNodes(["a"]))
    engine.machine.driver.metrics()
    assert engine.machine.driver.last_fault == f"{kind.__name__}: left"


def test_ctrl_c_ends_the_process_and_is_no_fault_of_the_algorithm() -> None:
    engine = EngineHarness()
    engine.see(node("a"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    engine.algorithm.schedule = interrupted
    with pytest.raises(KeyboardInterrupt):
        engine.filter(pod("p"), "a")
    assert not engine.machine.driver.last_fault


def test_a_deep_recursion_is_a_short_traceback(book: FaultLog) -> None:
    def deeper() -> None:
        deeper()

    try:
        deeper()
    except RecursionError as error:
        book.raised("schedule", error, 0.0)
    (fault,) = entries(book)
    assert fault.trace is not None
    assert len(fault.trace.stack) == 30


def test_a_book_that_is_absorbed_adds_its_counts(book: FaultLog) -> None:
    other = FaultLog()
    raised(book, "x")
    raised(other, "y", at=5.0)
    book.absorb(other)
    assert (book.total, book.last) == (2, other.last)
    assert [fault.count for fault in entries(book)] == [2]


# -- nodes that the algorithm failed to take in -----------------------------------------------------------------------


class Choosy:
    """Takes the first offered node, whether it knows it or not, as a plain plug-in does."""

    def __init__(self, engine: EngineHarness, broken: str) -> None:
        self.broken = broken
        self.offered: list[tuple[str, ...]] = []
        self._add = engine.algorithm.add_node
        engine.algorithm.add_node = self.add_node
        engine.algorithm.schedule = self.schedule

    def add_node(self, given: Node) -> None:
        if given.name == self.broken:
            raise ValueError("no label")
        self._add(given)

    def schedule(self, _pod: object, nodes: SuggestedNodes, _phase: object) -> Bind | Wait:
        self.offered.append(tuple(nodes))
        return Bind(nodes[0])


def test_a_node_that_the_algorithm_failed_to_take_in_is_not_offered_to_it() -> None:
    engine = EngineHarness()
    plain = Choosy(engine, "a")
    engine.see(node("a"), node("b"))
    assert engine.filter(pod("p"), "a", "b").node == "b"
    assert plain.offered == [("b",)]
    assert engine.machine.driver.unknown_nodes == {"a"}


def test_without_another_node_the_pod_is_tried_again_soon_and_told_which_node_it_is() -> None:
    engine = EngineHarness()
    plain = Choosy(engine, "a")
    engine.see(node("a"))
    answer = engine.filter(pod("p"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.text == "scheduling algorithm failed: it failed to take in node a"
    assert plain.offered == []
    plain.broken = ""
    assert engine.filter(pod("p"), "a").node == "a"
    assert engine.machine.driver.unknown_nodes == frozenset()


def test_a_refusal_says_which_nodes_were_left_out() -> None:
    engine = EngineHarness()
    engine.algorithm.fail.add("add_node")
    engine.see(node("a", cpu=1000))
    engine.see(node("b", cpu=1000))
    add = engine.algorithm.add_node

    def add_node(given: Node) -> None:
        if given.name == "a":
            raise ValueError("no label")
        add(given)

    engine.algorithm.add_node = add_node
    answer = engine.filter(pod("p", cpu=9000), "a", "b")
    assert not answer.error
    assert answer.nodes["a"].code is Code.ALGORITHM_FAILED
    assert answer.nodes["b"].code is Code.INSUFFICIENT


def test_an_algorithm_that_chooses_such_a_node_all_the_same_is_refused() -> None:
    engine = EngineHarness(force_bind_unoffered=True)
    plain = Choosy(engine, "a")
    engine.see(node("a"), node("b"))
    engine.algorithm.schedule = lambda *_: Bind("a")
    assert engine.filter(pod("p"), "a", "b").error
    assert engine.machine.driver.last_fault == "it chose node a, of which it failed to take in the record"
    plain.broken = ""
    assert engine.filter(pod("p"), "a", "b").node == "a"


def test_another_node_of_the_same_name_is_unknown_until_the_old_one_is_gone() -> None:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    engine.algorithm.fail.add("delete_node")
    engine.handle(NodeSeen(msgspec.structs.replace(node("a"), uid="another")))
    assert engine.machine.driver.unknown_nodes == {"a"}


def test_a_node_whose_change_failed_is_still_offered() -> None:
    engine = EngineHarness()
    engine.see(node("a"))

    def fails(*_: object) -> None:
        raise ValueError("no label")

    engine.algorithm.update_node = fails
    engine.see(node("a", cpu=9000))
    assert engine.machine.driver.pending_count == 1
    assert engine.filter(pod("p"), "a").node == "a"
