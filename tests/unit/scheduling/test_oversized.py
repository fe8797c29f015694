"""A pod that asks for too much to be read in full: never scheduled, told why, and counted where it runs."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code
from extender.scheduling.commands import WriteBinding
from extender.scheduling.events import PreemptAnswer
from tests.support.heart import Heart, only
from tests.support.objects import node, pod

WHY = "its containers name more than 32 different resources"


def oversized(name: str, **more: object) -> Pod:
    return msgspec.structs.replace(pod(name, **more), oversized=WHY)


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def test_filter_refuses_it_with_the_reason_and_remembers_nothing(heart: Heart) -> None:
    answer = heart.filter(oversized("p"), "a", "b")
    assert (answer.node, answer.error) == (None, False)
    assert answer.reason is not None
    assert (answer.reason.code, answer.reason.text) == (Code.POD_TOO_LARGE, f"pod is larger than is accepted: {WHY}")
    assert not answer.reason.preemptible
    assert not heart.lifecycle.entries()


def test_preempt_evicts_nobody_for_it(heart: Heart) -> None:
    answer = heart.preempt(oversized("p", priority=100), "a")
    assert isinstance(answer, PreemptAnswer)
    assert not answer.candidates
    assert answer.reason is not None
    assert answer.reason.code is Code.POD_TOO_LARGE


def test_while_it_waits_the_algorithm_does_not_hear_of_it(heart: Heart) -> None:
    heart.see(oversized("p"))
    assert not heart.lifecycle.driver.unallocated
    assert not heart.lifecycle.entries()


def test_where_it_runs_it_takes_room(heart: Heart) -> None:
    heart.see(oversized("p", cpu=3000, on="a"))
    assert heart.algorithm.free("a") == 1000
    answer = heart.filter(oversized("p", cpu=3000, on="a"), "a")
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_BOUND


def test_scores_are_not_worked_out_for_it(heart: Heart) -> None:
    assert heart.prioritize(oversized("p"), SuggestedNodes(["a"])) == {}


def test_of_pods_of_others_that_pass_by_nothing_is_kept_that_their_authors_wrote() -> None:
    heart = Heart(annotation="ours")
    heart.see(node("a"))
    p = msgspec.structs.replace(pod("p"), annotations=(("other", "x" * 10_000),), labels=(("l", "v"),))
    assert heart.filter(p, "a").pass_through
    (kept,) = heart.lifecycle._bind._passed.values()
    assert (kept.uid, kept.annotations, kept.labels) == (p.uid, (), ())
    write = only(heart.bind(p, "a"), WriteBinding)
    assert (write.node, write.annotations) == ("a", ())
