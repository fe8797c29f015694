"""A copy of the engine is equal to it, shares nothing with it, and is made in pieces while events go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.state import fork as hived
from algorithm.packing import PackingAlgorithm, copying
from algorithm.registry import create
from extender.recording.encoding import encode_instructions
from extender.recording.graph.comparing import difference
from extender.recording.records import policy_of
from extender.scheduling import fork as module
from extender.scheduling.events import AlgorithmPrepared, Event, PrepareAlgorithm, ReconfigureRequested
from extender.scheduling.fork import Forking, fork
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.state.pod_info import PodInfo
from tests.support.engine.lives import Life, lives
from tests.support.hived.audit import audit
from tests.support.hived.dump import dump
from tests.support.hived.sharing import shared

#: A copy has no algorithms that are being prepared; the reasons of nodes are a result, which nobody changes.
APART = {"SchedulerStateMachine.preparations", "Reconfiguring._preparations", "PodInfo.nodes"}
#: What packing's copies share because it is replaced, never changed; and caches, with numbers and a journal for them.
CACHES = {
    "NodeRoom.allocatable",
    "Gang._faces",
    "Cluster._journal",
    "Cluster.generation",
    "Cluster.names_changed",
    "State._changes",
}
ALGORITHMS = pytest.mark.parametrize("algorithm", ["packing", "hived"])
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 2)


@cache
def a_life(algorithm: str, seed: int) -> Life:
    """The longest of a simulation's lives: 40 to 100 events."""
    return max(lives(algorithm, 3 * seed), key=lambda life: len(life.heard))


class Course:
    """A fresh engine that hears a life again, from its beginning on."""

    def __init__(self, algorithm: str, seed: int) -> None:
        life = a_life(algorithm, seed)
        self.settings = life.header.settings
        self.engine = SchedulerStateMachine(create(algorithm, self.settings), policy_of(life.header))
        self.rest = list(life.heard)

    def go_on(self, events: int) -> None:
        """Hear so many events, but do not stop where changed settings are just being prepared."""
        while self.rest and (events > 0 or isinstance(self.rest[0][0], AlgorithmPrepared)):
            hear(self.engine, *self.rest.pop(0))
            events -= 1


def hear(engine: SchedulerStateMachine, event: Event, now: float) -> bytes:
    out = engine.handle(event, now)
    for item in out:
        if isinstance(item, PrepareAlgorithm):
            engine.preparations.carry_out(item, create)
    return encode_instructions(out)


def goes_the_same_way(engine: SchedulerStateMachine, twin: SchedulerStateMachine, rest: list[Any]) -> None:
    for number, (event, now) in enumerate(rest):
        assert hear(engine, event, now) == hear(twin, event, now)
        assert engine.next_due() == twin.next_due()
        if number % 16 == 0:
            engine.validate()
            twin.validate()
    assert not difference(engine, twin, apart=APART)


def is_copied(engine: SchedulerStateMachine, twin: SchedulerStateMachine) -> None:
    """The copy is equal, shares nothing, and is right by itself."""
    assert difference(engine, twin, apart=APART) == ""
    twin.validate()
    of, to = engine.driver.algorithm, twin.driver.algorithm
    if isinstance(of, PackingAlgorithm) and isinstance(to, PackingAlgorithm):
        assert difference(of._state, to._state, apart=CACHES) == ""
        to.validate()
    if isinstance(of, HivedAlgorithm) and isinstance(to, HivedAlgorithm):
        assert dump(of.hive, lists=True) == dump(to.hive, lists=True)
        assert not shared(of.hive, to.hive)
        audit(to.hive)


def in_pieces(course: Course, between: Callable[[], int]) -> SchedulerStateMachine:
    forking = Forking(course.engine)
    for is_complete in forking.pieces():
        if not is_complete:
            course.go_on(between())
    return forking.result()


@ALGORITHMS
@QUICK
@given(seed=seeds, before=st.integers(0, 40))
def test_a_copy_is_equal_and_decides_the_same_for_ever(algorithm: str, seed: int, before: int) -> None:
    course = Course(algorithm, seed)
    course.go_on(before)
    twin = fork(course.engine)
    is_copied(course.engine, twin)
    goes_the_same_way(course.engine, twin, course.rest)


@ALGORITHMS
@QUICK
@given(seed=seeds, before=st.integers(0, 40), luck=st.integers(0, 1 << 32))
def test_a_copy_in_pieces_is_that_of_the_last_moment(algorithm: str, seed: int, before: int, luck: int) -> None:
    course, random = Course(algorithm, seed), Random(luck)
    course.go_on(before)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(module, "PIECE", 2)
        small.setattr(module, "_LAST", 1)
        small.setattr(copying, "PIECE", 1)
        small.setattr(hived, "CELLS", 40)
        small.setattr(hived, "GROUPS", 3)
        twin = in_pieces(course, lambda: random.randrange(5) * (random.random() < 0.2))
    is_copied(course.engine, twin)
    assert difference(fork(course.engine), twin, apart=APART) == ""
    assert {type(pod_info) for pod_info in course.engine.state.pods} <= {PodInfo}
    goes_the_same_way(course.engine, twin, course.rest)


@ALGORITHMS
@QUICK
@given(seed=seeds, before=st.integers(5, 40), first=st.booleans())
def test_what_happens_to_one_is_nothing_to_the_other(algorithm: str, seed: int, before: int, first: bool) -> None:
    course = Course(algorithm, seed)
    course.go_on(before)
    twin, witness = fork(course.engine), fork(course.engine)
    moves, stays = (course.engine, twin) if first else (twin, course.engine)
    for event, now in course.rest:
        hear(moves, event, now)
    assert difference(stays, witness, apart=APART) == ""
    goes_the_same_way(stays, witness, course.rest)


@ALGORITHMS
@QUICK
@given(at=st.integers(0, 60))
def test_an_algorithm_that_takes_over_in_between_is_the_one_that_is_copied(algorithm: str, at: int) -> None:
    course = Course(algorithm, 0)
    course.go_on(30)
    old, now = course.engine.driver.algorithm, course.rest[0][1]
    forking = Forking(course.engine)
    for piece, is_complete in enumerate(forking.pieces()):
        if piece == at and not is_complete:
            hear(course.engine, ReconfigureRequested(999, algorithm, course.settings), now)
            hear(course.engine, AlgorithmPrepared(999), now)
            assert course.engine.driver.algorithm is not old
        if is_complete:
            break
    is_copied(course.engine, forking.result())


def test_an_abandoned_copy_leaves_nothing_behind() -> None:
    course = Course("packing", 1)
    course.go_on(40)
    for steps in (1, 2):
        pieces = Forking(course.engine).pieces()
        for _ in range(steps):
            next(pieces)
        with pytest.raises(RuntimeError, match="another copy"):
            next(Forking(course.engine).pieces())
        pieces.close()  # type: ignore[attr-defined]
        assert {type(pod_info) for pod_info in course.engine.state.pods} == {PodInfo}
        assert course.engine.state.pods.watch is None
    assert difference(course.engine, in_pieces(course, lambda: 0), apart=APART) == ""
