"""Whom fgd evicts, and that a plan which it keeps is given up when its victims cannot go."""

from __future__ import annotations

import pytest

from algorithm.conformance.harness import AlgorithmHarness
from algorithm.fgd import FgdAlgorithm, FgdSettings
from algorithm.interface import Phase, Preempt, Wait
from algorithm.model import Pod
from algorithm.reasons import Code
from tests.support.fgd.records import node


def filler(name: str, priority: int) -> Pod:
    return Pod(namespace="ns", name=name, uid=name, priority=priority, requests=(("cpu", 4000),))


def full() -> tuple[AlgorithmHarness[FgdAlgorithm], Pod]:
    """A node that two pods fill, and a pod for which one of them has to go: a plan is accepted."""
    cluster = AlgorithmHarness(lambda: FgdAlgorithm(FgdSettings()), [node("n", gpus=1, cpu=8000)])
    for each in (filler("a", 0), filler("b", 1)):
        cluster.place(each)
    important = filler("important", 10)
    cluster.submit(important)
    plan = cluster.schedule(important, phase=Phase.EVICTING)
    assert isinstance(plan, Preempt)
    assert [victim.uid for victim in plan.victims] == ["a"]
    cluster.start_preempting(important, plan)
    return cluster, important


def test_a_plan_is_kept_while_its_victims_go() -> None:
    cluster, important = full()
    again = cluster.schedule(important, phase=Phase.EVICTING)
    assert isinstance(again, Preempt)
    assert [victim.uid for victim in again.victims] == ["a"]


@pytest.mark.parametrize("phase", [Phase.PREEMPTING, Phase.EVICTING])
def test_a_plan_is_given_up_when_a_victim_lingers(phase: Phase) -> None:
    cluster, important = full()
    cluster.algorithm.set_lingering_pods(frozenset({"a"}))
    again = cluster.schedule(important, phase=phase)
    assert isinstance(again, Preempt)
    assert [victim.uid for victim in again.victims] == ["b"]
    cluster.algorithm.set_lingering_pods(frozenset({"a", "b"}))
    assert isinstance(cluster.schedule(important, phase=phase), Wait)


def test_a_protected_victim_is_spared_where_waggle_evicts() -> None:
    cluster, important = full()
    cluster.algorithm.set_protected_pods(frozenset({"a"}))
    evicting = cluster.schedule(important, phase=Phase.EVICTING)
    assert isinstance(evicting, Preempt)
    assert [victim.uid for victim in evicting.victims] == ["b"]


def test_protected_pods_are_named_if_they_alone_forbid_every_plan() -> None:
    cluster, important = full()
    cluster.algorithm.set_protected_pods(frozenset({"a", "b"}))
    evicting = cluster.schedule(important, phase=Phase.EVICTING)
    assert isinstance(evicting, Wait)
    assert evicting.reason.code is Code.VICTIM_PROTECTED
    assert evicting.reason.text.endswith("ns/a")
    assert isinstance(cluster.schedule(important, phase=Phase.PREEMPTING), Preempt)
    cluster.algorithm.set_lingering_pods(frozenset({"a", "b"}))
    gone = cluster.schedule(important, phase=Phase.EVICTING)
    assert isinstance(gone, Wait)
    assert gone.reason.code is not Code.VICTIM_PROTECTED
