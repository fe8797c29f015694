"""A pod that asks for too much to be read in full: never scheduled, told why, and counted where it runs."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code
from extender.scheduling.commands import WriteBinding
from extender.scheduling.events import PreemptAnswer
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod

WHY = "its containers name more than 32 different resources"


def oversized(name: str, **more: object) -> Pod:
    return msgspec.structs.replace(pod(name, **more), oversized=WHY)


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def test_filter_refuses_it_with_the_reason_and_remembers_nothing(engine: EngineHarness) -> None:
    answer = engine.filter(oversized("p"), "a", "b")
    assert (answer.node, answer.error) == (None, False)
    assert answer.reason is not None
    assert (answer.reason.code, answer.reason.text) == (Code.POD_TOO_LARGE, f"pod is larger than is accepted: {WHY}")
    assert not answer.reason.preemptible
    assert not engine.machine.pod_infos()


def test_preempt_evicts_nobody_for_it(engine: EngineHarness) -> None:
    answer = engine.preempt(oversized("p", priority=100), "a")
    assert isinstance(answer, PreemptAnswer)
    assert not answer.candidates
    assert answer.reason is not None
    assert answer.reason.code is Code.POD_TOO_LARGE


def test_while_it_waits_the_algorithm_does_not_hear_of_it(engine: EngineHarness) -> None:
    engine.see(oversized("p"))
    assert not engine.machine.driver.unallocated
    assert not engine.machine.pod_infos()


def test_where_it_runs_it_takes_room(engine: EngineHarness) -> None:
    engine.see(oversized("p", cpu=3000, on="a"))
    assert engine.algorithm.free("a") == 1000
    answer = engine.filter(oversized("p", cpu=3000, on="a"), "a")
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_BOUND


def test_scores_are_not_worked_out_for_it(engine: EngineHarness) -> None:
    assert engine.prioritize(oversized("p"), SuggestedNodes(["a"])) == {}


def test_of_pods_of_others_that_pass_by_nothing_is_kept_that_their_authors_wrote() -> None:
    engine = EngineHarness(annotation="ours")
    engine.see(node("a"))
    p = msgspec.structs.replace(pod("p"), annotations=(("other", "x" * 10_000),), labels=(("l", "v"),))
    assert engine.filter(p, "a").pass_through
    (kept,) = engine.machine._bind._passed.values()
    assert (kept.uid, kept.annotations, kept.labels) == (p.uid, (), ())
    write = only(engine.bind(p, "a"), WriteBinding)
    assert (write.node, write.annotations) == ("a", ())
