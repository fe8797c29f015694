"""Every instruction is an answer, or a command that the committer can carry out and that the engine hears of."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.core.outcomes import OutcomeKind
from extender.scheduling import commands as registry
from extender.scheduling.commands import Command, RecordEvent, Report, Write, WriteBinding
from extender.scheduling.events import Answer, BindAnswer, Event, Instruction
from tests.support.engine.commands import commands
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod


def test_every_instruction_is_an_answer_or_a_command_with_a_kind() -> None:
    known = commands()
    kinds = {each.command for each in (*known.kinds, *known.best_effort)}
    assert kinds == set(get_args(Command))
    assert set(get_args(Instruction)) == {*get_args(Answer), BindAnswer, *kinds}


def test_every_command_that_writes_is_given_in_a_term_and_no_read_is() -> None:
    with_term = {each for each in get_args(Command) if "term" in {field.name for field in msgspec.structs.fields(each)}}
    reads = {each.command for each in commands().kinds if each.is_read}
    assert with_term == set(get_args(Write))
    assert set(get_args(Command)) - with_term == reads


def test_every_report_is_that_of_a_kind_and_an_event() -> None:
    assert set(get_args(Report)) == {kind.reported_as for kind in commands().kinds}
    assert set(get_args(Report)) < set(get_args(Event))


def tell(bound: Pod) -> list[RecordEvent]:
    why = reason(Code.NODE_DELETED, node=bound.node_name)
    return [RecordEvent(bound.namespace, bound.name, bound.uid, why)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> EngineHarness:
    monkeypatch.setattr(registry, "BESIDE_BINDING", (tell,))
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def test_what_is_registered_beside_a_binding_is_written_once_the_pod_is_shown_bound(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    engine.finish(only(engine.bind(p, "a"), WriteBinding).token, OutcomeKind.DONE)
    assert engine.see(pod("p", on="a")) == tell(pod("p", on="a"))
    assert engine.see(pod("p", on="a")) == []


@pytest.mark.parametrize("proposed", ["b", ""])
def test_nothing_is_written_beside_the_binding_of_another_client(engine: EngineHarness, proposed: str) -> None:
    if proposed:
        engine.filter(pod("p"), proposed)
    assert engine.see(pod("p", on="a")) == []
