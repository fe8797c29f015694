"""Pods that wait for others: who is refused, with which reason, and when kube-scheduler is made to ask again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from algorithm.decoding import decode_pod
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from algorithm.registry import reads
from extender.core.ordering_names import AFTER, GROUP_ANNOTATIONS
from extender.ordering.podreader import decode_pod as decode_ordering_pod
from extender.ordering.waiting import may_be_refused
from extender.scheduling.commands import RequeuePod
from extender.scheduling.dependencies import NOT_JUDGED, may_inherit
from extender.scheduling.events import (
    Candidate,
    DependenciesChanged,
    DependenciesForgotten,
    Instruction,
    PreemptAnswer,
    PreemptRequested,
)
from extender.scheduling.fork import fork
from extender.scheduling.policy import Policy
from extender.scheduling.reads import GANG_ANNOTATION, reads_for
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod

WAITS = reason(Code.WAITS_FOR_DEPENDENCY, dependencies="Job/default/prepare to be Complete")


def started(*, ordering: bool = True) -> EngineHarness:
    engine = EngineHarness(ordering=ordering)
    engine.see(node("a"))
    return engine


def dependent(name: str = "train") -> Pod:
    return replace(pod(name), annotations=((AFTER, ""),))


def judge(engine: EngineHarness, p: Pod, why: Reason | None) -> list[Instruction]:
    return engine.handle(DependenciesChanged(p.uid, why))


def requeued(instructions: list[Instruction]) -> list[str]:
    return [each.name for each in instructions if isinstance(each, RequeuePod)]


def test_a_pod_that_declares_dependencies_waits_until_it_was_judged() -> None:
    engine, p = started(), dependent()
    engine.see(p)
    assert engine.filter(p, "a").reason == NOT_JUDGED
    assert requeued(judge(engine, p, None)) == ["train"]
    assert engine.filter(p, "a").node == "a"


def test_a_pod_that_was_judged_early_is_placed_at_once() -> None:
    engine, p = started(), dependent()
    assert judge(engine, p, None) == []
    engine.see(p)
    assert engine.filter(p, "a").node == "a"


def test_the_reason_is_that_of_start_up_ordering_until_it_lifts() -> None:
    engine, p = started(), dependent()
    engine.see(p)
    engine.filter(p, "a")
    assert judge(engine, p, WAITS) == []
    assert engine.machine.state.pods.get(p.uid).reason == WAITS
    answer = engine.filter(p, "a")
    assert (answer.reason, answer.error, answer.nodes) == (WAITS, False, {})
    assert requeued(judge(engine, p, None)) == ["train"]
    assert engine.machine.state.pods.get(p.uid).reason is None


@pytest.mark.parametrize(
    "fields",
    [
        {"controlled": True},
        {"group": "g"},
        {"labels": (("scheduling.x-k8s.io/pod-group", "g"),)},
        {"annotations": ((GANG_ANNOTATION, "g"),)},
        {"annotations": (("scheduling.k8s.io/group-name", ""),)},
        {"annotations": (("scheduling.volcano.sh/group-name", ""),)},
    ],
)
def test_a_pod_that_may_inherit_dependencies_waits_until_it_was_judged(fields: dict[str, Any]) -> None:
    engine, p = started(), replace(pod("worker"), **fields)
    engine.see(p)
    assert engine.filter(p, "a").reason == NOT_JUDGED
    judge(engine, p, WAITS)
    assert engine.filter(p, "a").reason == WAITS
    assert requeued(judge(engine, p, None)) == ["worker"]
    assert engine.filter(p, "a").node == "a"


def test_a_pod_that_belongs_to_nothing_is_placed_at_once() -> None:
    engine, p = started(), pod("alone")
    engine.see(p)
    assert engine.filter(p, "a").node == "a"


def test_the_informer_sees_whether_a_pod_has_a_controller() -> None:
    owners = [{"kind": "Job", "controller": True}, {"kind": "Note"}, {"kind": "Note", "controller": None}, None]
    for some in ([], owners, owners[1:]):
        text = json.dumps({"metadata": {"name": "p", "namespace": "d", "uid": "u", "ownerReferences": some}})
        assert decode_pod(text.encode()).controlled is (some == owners)


def test_a_pod_with_a_place_keeps_it() -> None:
    engine, p = started(), pod("worker")
    engine.see(p)
    assert engine.filter(p, "a").node == "a"
    judge(engine, p, WAITS)
    assert engine.filter(p, "a").node == "a"


def test_free_room_requeues_no_pod_that_waits_for_others() -> None:
    engine, p, other = started(), dependent(), pod("other")
    engine.see(p, other)
    engine.filter(p, "a")
    engine.filter(other, "a")
    assert requeued(engine.handle(DependenciesForgotten(other.uid))) == []
    engine.machine.state.wait_index.validate()
    assert not engine.machine.state.wait_index.keys_of(p.uid)


def test_nobody_is_evicted_for_a_pod_that_waits_for_others() -> None:
    engine, p = started(), dependent()
    victim = pod("victim", cpu=4000, on="a")
    engine.see(victim, replace(p, priority=10))
    answer = engine.handle(PreemptRequested(replace(p, priority=10), (Candidate("a", (victim.uid,)),)))[0]
    assert isinstance(answer, PreemptAnswer)
    assert (answer.candidates, answer.reason) == ((), NOT_JUDGED)


def test_another_code_is_written_on_the_pod_by_kube_scheduler() -> None:
    engine, p = started(), dependent()
    engine.see(p)
    judge(engine, p, WAITS)
    engine.filter(p, "a")
    failed = reason(Code.DEPENDENCY_FAILED, dependencies="Job/default/prepare", detail="it failed")
    assert requeued(judge(engine, p, failed)) == ["train"]
    assert engine.filter(p, "a").reason == failed
    assert requeued(judge(engine, p, failed)) == []


def test_what_was_said_before_and_comes_later_does_not_count() -> None:
    engine, p = started(), dependent()
    engine.see(p)
    engine.handle(DependenciesChanged(p.uid, None, 8))
    engine.handle(DependenciesChanged(p.uid, WAITS, 7))
    assert engine.filter(p, "a").node == "a"


def test_while_ordering_is_switched_off_dependencies_have_no_effect() -> None:
    engine, p = started(ordering=False), dependent()
    engine.see(p)
    judge(engine, p, WAITS)
    assert engine.filter(p, "a").node == "a"


def test_what_is_forgotten_takes_no_memory() -> None:
    engine, p = started(), dependent()
    judge(engine, p, WAITS)
    engine.handle(DependenciesForgotten(p.uid))
    engine.handle(DependenciesForgotten("unknown"))
    assert not engine.machine.dependencies.judged


def test_a_copy_of_the_engine_knows_who_waits() -> None:
    engine, p = started(), dependent()
    engine.see(p)
    judge(engine, p, WAITS)
    assert fork(engine.machine).dependencies.blocks(p) == WAITS


def test_the_informer_keeps_no_text_of_the_annotation() -> None:
    text = '{"metadata":{"name":"p","namespace":"d","uid":"u","annotations":{"waggle.dev/after":"[{job: x}]"}}}'
    kept = decode_pod(text.encode(), reads_for(reads("packing"), Policy(ordering=True)))
    assert kept.annotations == ((AFTER, ""),)


@pytest.mark.parametrize("name", GROUP_ANNOTATIONS)
def test_both_engines_see_that_a_pod_names_a_group_of_another_scheduler(name: str) -> None:
    """Of the name, which may be empty, this engine keeps nothing: start-up ordering judges each such pod."""
    for group in ("g", ""):
        text = json.dumps({"metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {name: group}}})
        kept = decode_pod(text.encode(), reads_for(reads("packing"), Policy(ordering=True)))
        assert may_inherit(kept)
        assert may_be_refused(decode_ordering_pod(text.encode()))
        assert not decode_pod(text.encode(), reads_for(reads("packing"), Policy(ordering=False))).annotations
