"""What people read of an algorithm that does wrong: whatever it raises or returns, one fault is noted, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from algorithm.gauges import Gauge, Sample
from algorithm.interface import InvalidArgument, PageNotFound, PodDescription, SchedulerAlgorithm, SuggestedNodes, Wait
from algorithm.reasons import Code, reason
from extender.logs.setup import traceback_text
from extender.scheduling.driver import AlgorithmDriver, AlgorithmFault
from extender.scheduling.events import NodeSeen, PodSeen, Synced
from extender.scheduling.faults import Fault, FaultKind
from extender.scheduling.fork import fork
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import readmodel
from extender.server.guard import AlgorithmGuard
from extender.server.runtime import Runtime
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.engine.rogue import RAISED, endless, raising


class World:
    def __init__(self) -> None:
        self.algorithm = PlainAlgorithm()
        self.machine = SchedulerStateMachine(self.algorithm)
        self.runtime = Runtime(self.machine, lambda _: None)
        self.model = self.runtime.model
        self.runtime.handle(NodeSeen(node("a")), PodSeen(pod("p", cpu=9000)), Synced())

    def breaks(self, call: str, method: object, *, copied: bool = True) -> None:
        setattr(self.algorithm, call, method)
        if copied and call in ("explain", "gang", "schedule"):
            self.algorithm.forks = lambda: iter([lambda: self.algorithm])  # type: ignore[method-assign]
        elif not copied:
            self.algorithm.forks = raising(NotImplementedError("no copy"))  # type: ignore[assignment]

    def look(self, call: str) -> object:
        return LOOKS[call](self)

    @property
    def fault(self) -> Fault:
        fault = self.machine.driver.fault_log.last
        assert fault is not None
        return fault


@pytest.fixture
def world() -> World:
    return World()


def read_page(world: World) -> object:
    try:
        return world.model.algorithm_page("x")
    except AlgorithmFault as fault:
        assert fault.__context__ is None  # whoever logs it logs nothing of the plug-in's
        return str(fault)


#: What people look at, by the call that it makes of the algorithm.
LOOKS: dict[str, Callable[[World], object]] = {
    "page": read_page,
    "inspect": lambda world: world.model.algorithm_state(),
    "explain": lambda world: world.model.explain("default", "p"),
    "metrics": lambda world: world.model.stats(),
    "describe": lambda world: world.model.rows(),
    "current_priority": lambda world: world.model.rows(),
    "forks": lambda world: world.model.pods(),
    "gang": lambda world: world.model.pods(),
    "schedule": lambda world: world.model.pods(),
}


@pytest.mark.parametrize(("error", "said"), RAISED)
@pytest.mark.parametrize("call", LOOKS)
def test_whatever_it_raises_is_a_fault_with_a_traceback(
    world: World, call: str, error: BaseException, said: str
) -> None:
    if call == "current_priority":
        world.breaks("describe", lambda _pod: PodDescription(priority=3))
    world.breaks(call, raising(error))
    world.look(call)
    assert (world.fault.call, world.fault.text, world.fault.kind) == (call, said, FaultKind.RAISED)
    assert world.fault.trace is not None
    assert "left" in traceback_text(world.fault.trace)
    assert not world.runtime.loop.broken


@pytest.mark.parametrize(("error", "said"), RAISED)
def test_an_explanation_by_itself_that_fails_midway_is_one(world: World, error: BaseException, said: str) -> None:
    class Midway:
        def __init__(self) -> None:
            self.left = 1

        def __iter__(self) -> Iterator[str]:
            return self

        def __next__(self) -> str:
            if self.left:
                self.left = 0
                return "It waits."
            raise error

    world.breaks("explain", lambda _pod: Midway(), copied=False)
    found = world.model.explain("default", "p")
    assert found is not None
    if not isinstance(error, StopIteration):  # in an iterator that is its end
        assert (world.fault.call, world.fault.text) == ("explain", said)
        assert found.advice[-1] == f"the algorithm failed to explain: {said}"


#: Answers that are none, by call.
NONSENSE: list[tuple[str, object]] = [
    ("page", object),
    ("page", lambda _path: iter([b"[1,", None, b"2]"])),
    ("page", lambda _path: iter(["text"])),
    ("page", lambda _path: {"a": "\ud800"}),
    ("inspect", lambda: [1]),
    ("inspect", lambda: {"a": "\ud800"}),
    ("explain", lambda _pod: 5),
    ("explain", lambda _pod: [Wait]),
    ("describe", lambda _pod: 5),
    ("describe", lambda _pod: PodDescription(tenant="\ud800")),
    ("metrics", lambda: 5),
    ("metrics", lambda: [Gauge("slots", "\ud800", (Sample(1.0),))]),
    ("metrics", lambda: [Gauge("slots", "Slots.", (Sample(1.0, (("a", "\ud800"),)),))]),
    ("metrics", lambda: [Gauge("slots", "Slots.", (Sample(10**400),))]),
    ("forks", lambda: [lambda: None]),
    ("forks", lambda: 5),
    ("gang", lambda _pod: 5),
    ("schedule", lambda *_: 5),
    ("schedule", lambda *_: Wait(reason(Code.OTHER, detail="\ud800"))),
]


@pytest.mark.parametrize(("call", "method"), NONSENSE)
def test_nonsense_is_a_fault_and_pages_are_still_json(world: World, call: str, method: object) -> None:
    world.breaks(call, method)
    world.look(call)
    if (call, world.machine.driver.faults) != ("explain", 0):  # any object has a text
        assert world.fault.call == call
    json.loads(bytes(world.model.algorithm_state()))
    msgspec.json.encode([row._asdict() for row in world.model.rows()])
    found = world.model.explain("default", "p")
    assert found is not None
    msgspec.json.encode([found.advice, found.pod.summary])


def test_a_page_without_end_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readmodel, "LARGEST_PAGE", 3 << 20)
    world.breaks("page", lambda _path: endless())
    assert read_page(world) == "page yielded without end; expected at most 3 MiB, made in 60 s"
    assert world.fault.kind is FaultKind.BROKE_CONTRACT


@pytest.mark.parametrize("error", [PageNotFound("x"), InvalidArgument("no such name")])
def test_an_answer_to_a_wrong_question_is_no_fault(world: World, error: Exception) -> None:
    def pages(_path: str) -> Iterator[bytes]:
        raise error
        yield b""

    for method in (raising(error), pages):
        world.breaks("page", method)
        with pytest.raises(type(error)):
            world.model.algorithm_page("x")
    assert world.machine.driver.faults == 0


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_call_that_takes_as_long_as_the_limit_is_slow(world: World, *, held: bool, fails: bool) -> None:
    now = [0.0]
    guard = AlgorithmGuard(world.machine.driver, world.runtime.loop, slow=2.0, clock=lambda: now[0])

    def takes(seconds: float) -> None:
        now[0] += seconds
        if fails:
            raise SystemExit

    for seconds, slow in ((1.9, 0), (2.0, 1)):
        ask = guard.held if held else guard.free
        try:
            ask("page", lambda seconds=seconds: takes(seconds), pod("p"))
        except AlgorithmFault:
            assert fails
        assert world.machine.driver.fault_log.totals[FaultKind.SLOW] == slow
    fault = world.machine.driver.fault_log.last_of[FaultKind.SLOW]
    assert str(fault) == "page (pod default/p): took 2.0 s, and server.slow_seconds is 2 s"
    assert world.machine.driver.fault_log.totals[FaultKind.RAISED] == 2 * fails


def test_pieces_without_anything_wrong_come_one_by_one(world: World) -> None:
    guard = AlgorithmGuard(world.machine.driver, world.runtime.loop)
    assert list(guard.steps("page", lambda: iter([b"", None, 0, b"x"]))) == [b"", None, 0, b"x"]


# -- the engine's own calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "said"), RAISED)
def test_what_a_change_of_settings_would_change_costs_no_change(error: BaseException, said: str) -> None:
    driver = AlgorithmDriver(PlainAlgorithm())
    driver.algorithm.changes_to = raising(error)  # type: ignore[method-assign, assignment]
    assert driver.changes_to(PlainAlgorithm()) == (f"what it changes cannot be said: {said}",)
    assert driver.last_fault == said


def test_sentences_about_a_change_are_bounded() -> None:
    driver = AlgorithmDriver(PlainAlgorithm())

    def changes(_other: SchedulerAlgorithm) -> Iterator[Any]:
        while True:
            yield "x" * 100_000 + "\ud800"

    driver.algorithm.changes_to = changes  # type: ignore[method-assign, assignment]
    said = driver.changes_to(PlainAlgorithm())
    assert (len(said), len(said[0])) == (1000, 2000)


@pytest.mark.parametrize(("error", "said"), RAISED)
@pytest.mark.parametrize("late", [True, False])
def test_a_copy_that_fails_is_an_exception_of_ours(
    world: World, error: BaseException, said: str, *, late: bool
) -> None:
    world.breaks("forks", (lambda: iter([raising(error)])) if late else raising(error))
    with pytest.raises(AlgorithmFault) as found:
        fork(world.machine)
    assert (str(found.value), found.value.__context__) == (said, None)
    assert world.machine.driver.faults == (0 if late else 1)  # the lock is not held: who copies notes it


class Odd(dict[str, Any]):
    def values(self) -> Any:
        raise SystemExit


@pytest.mark.parametrize("nodes", [{"a": 5}, Odd(a=5), [("a", 5)]])
def test_reasons_by_node_that_are_none_are_a_fault_of_the_decision(world: World, nodes: object) -> None:
    world.breaks("schedule", lambda *_: Wait(reason(Code.NO_NODE_FITS), nodes))  # type: ignore[arg-type]
    answer = world.runtime.filter(pod("p", cpu=9000), SuggestedNodes(["a"]))
    assert answer.error
    assert world.fault.call == "schedule"


def test_a_priority_that_no_number_can_hold_is_a_fault() -> None:
    driver = AlgorithmDriver(PlainAlgorithm())
    driver.algorithm.priority = lambda _pod: 1 << 70  # type: ignore[method-assign]
    assert driver.priority(pod("p", priority=7)) == 7
    assert driver.last_fault == "OverflowError: an integer of 71 bits; expected at most 64"
