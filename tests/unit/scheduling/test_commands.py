"""Every instruction is an answer, or a command that the committer can carry out and that the engine hears of."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

from extender.scheduling.commands import Command, Report, Write
from extender.scheduling.events import Answer, BindAnswer, Event, Instruction
from tests.support.engine.commands import commands


def test_every_instruction_is_an_answer_or_a_command_with_a_kind() -> None:
    known = commands()
    kinds = {each.command for each in (*known.kinds, *known.best_effort)}
    assert kinds == set(get_args(Command))
    assert set(get_args(Instruction)) == {*get_args(Answer), BindAnswer, *kinds}


def test_every_command_that_writes_is_given_in_a_term_and_no_read_is() -> None:
    with_term = {each for each in get_args(Command) if "term" in {field.name for field in fields(each)}}
    reads = {each.command for each in commands().kinds if each.is_read}
    assert with_term == set(get_args(Write))
    assert set(get_args(Command)) - with_term == reads


def test_every_report_is_an_event() -> None:
    assert set(get_args(Report)) < set(get_args(Event))
