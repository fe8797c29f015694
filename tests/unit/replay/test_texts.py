"""Events and decisions as texts: each kind has one, and none is longer than a few lines of a terminal."""

from __future__ import annotations

from algorithm.reasons import Code, Reason, reason
from algorithm.registry import create
from extender.replay.texts import LONGEST, cut, decision_text, decisions, event_text
from extender.scheduling.events import (
    Candidate,
    DependenciesChanged,
    DependenciesForgotten,
    FilterAnswer,
    PreemptAnswer,
)
from extender.scheduling.machine import SchedulerStateMachine
from tests.support.engine.lives import lives

WHY = reason(Code.NO_NODE_FITS)


def test_decisions_about_pods_that_are_not_managed_are_none():
    assert decisions([FilterAnswer(pass_through=True), PreemptAnswer(pass_through=True)]) == []


def test_a_refusal_by_many_nodes_names_the_most_frequent_reason():
    lacks = reason(Code.INSUFFICIENT, resources="cpu")
    answer = FilterAnswer(nodes={"a": lacks, "b": lacks, "c": reason(Code.NODE_NOT_READY)})

    text = "refused: InsufficientResource: insufficient cpu (2 nodes), and 1 other reason"
    assert decision_text(answer) == text


def test_a_reason_with_the_parameters_of_another_release_has_a_text():
    answer = FilterAnswer(reason=Reason(Code.INSUFFICIENT, (("resource", "cpu"), ("short", "2"))))
    assert decision_text(answer) == "refused: InsufficientResource: resource=cpu, short=2"


def test_a_preemption_says_how_many_go_where():
    answer = PreemptAnswer((Candidate("n1", ("u1", "u2")),))
    assert decision_text(answer) == "may evict 2 on n1"
    assert (
        decision_text(PreemptAnswer(reason=WHY)) == "evicts nobody: NoNodeFits: no offered node has room for this pod"
    )


def test_long_texts_are_cut_to_one_line():
    assert cut("a\nb") == "a b"
    assert len(cut("x" * 10_000)) == LONGEST


def test_reports_and_requests_of_random_lives_name_their_pods():
    texts = set()
    for algorithm in ("packing", "hived"):
        for life in lives(algorithm, seed=3):
            engine = SchedulerStateMachine(create(algorithm, {}))
            for event, now in life.heard:
                texts.add(event_text(event, engine))
                engine.handle(event, now)

    assert all(text.isprintable() and len(text) > 0 for text in texts)
    for part in ("filter default/", "prioritize default/", "bind default/", "pod default/", "node m1 seen", "Ticked"):
        assert any(text.startswith(part) for text in texts), part


def test_what_start_up_ordering_says_has_a_text():
    engine = SchedulerStateMachine(create("packing", {}))
    said = [event_text(each, engine) for each in (DependenciesChanged("u"), DependenciesForgotten("u"))]
    who = "start-up ordering: a pod that has gone (u)"
    assert said == [f"{who}: waits for nothing", f"{who}: bound or gone, so it has no more to say"]
