"""Carries out programs and writes what is answered: `python -m algorithm.conformance.digests < programs`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from algorithm.conformance import side_effects
from algorithm.conformance.calls import Ask, Call
from algorithm.conformance.guard import Guard
from algorithm.conformance.judge import Judge
from algorithm.conformance.life import Life
from algorithm.conformance.observation import answers, asked, told
from algorithm.conformance.reference import plugin_of, settings_of
from algorithm.conformance.results import Request
from algorithm.interface import Phase
from algorithm.registry import reads_of

#: Waiting pods that are asked about after each change.
_MOST_ASKED = 2


class _Given(msgspec.Struct):
    request: Request
    programs: list[list[Call]]


class _Writes(Judge):
    """Writes every answer, and those to the questions that could be asked at the end."""

    name = "writes-answers"

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self.lines: list[str] = []

    def after(self, call: Call, answer: Any) -> None:
        if isinstance(call, Ask):
            self.lines.append(f"schedule({self.life.waiting[call.uid].key}): {told(answer)}")
            return
        nodes = tuple(sorted(self.life.nodes))
        for uid in sorted(self.life.waiting)[:_MOST_ASKED] if nodes else ():
            found = asked(self.life.algorithm, self.life.waiting[uid], nodes, Phase.FILTERING)
            self.lines.append(f"schedule({self.life.waiting[uid].key}): {told(found)}")

    def end(self) -> None:
        found = answers(self.life.algorithm, self.life.waiting, tuple(sorted(self.life.nodes)))
        self.lines += [f"{question}: {told(answer)}" for question, answer in found.items()]


def carried_out(request: Request, programs: Sequence[Sequence[Call]]) -> list[list[str]]:
    """The answers of each program."""
    plugin = plugin_of(request.plugin)
    settings = settings_of(plugin, request.settings or {})
    found = []
    for program in programs:
        life = Life(
            lambda: plugin.create(settings), judges=[_Writes], reads=reads_of(plugin), guard=Guard(request.limit)
        )
        for call in program:
            life.perform(call)
        life.end()
        (judge,) = life.judges
        assert isinstance(judge, _Writes)
        found.append(judge.lines)
    return found


def main() -> None:
    """Read a request with programs from standard input, and write the answers to standard output."""
    side_effects.install()  # a copy of this process that the algorithm makes ends at once
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=_Given)
    lines = carried_out(given.request, given.programs)
    sys.stdout.write("\n" + msgspec.json.encode(lines).decode() + "\n")
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads that the algorithm has started


if __name__ == "__main__":
    main()
