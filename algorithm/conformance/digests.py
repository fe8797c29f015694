"""Carries out programs and writes what is answered: `python -m algorithm.conformance.digests PARENT < programs`.

If it is asked to, it carries out each program in a copy of this process that has imported the plug-in and done nothing
else, so no program sees what another one has left. PARENT is the number of the process that has started this one; it
and its copies end with it, however it ends.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from algorithm.conformance import side_effects
from algorithm.conformance.calls import Ask, Call, NewLife, last_life
from algorithm.conformance.guard import Guard
from algorithm.conformance.judge import Judge
from algorithm.conformance.life import Life
from algorithm.conformance.observation import answers, asked, told
from algorithm.conformance.reference import plugin_of, settings_of
from algorithm.conformance.results import Request
from algorithm.conformance.shrink import shortened
from algorithm.interface import Phase
from algorithm.parent_process import end_with_parent
from algorithm.registry import reads_of

#: Waiting pods that are asked about after each change.
_MOST_ASKED = 2

#: Seconds in which a shorter program is looked for.
_SECONDS_TO_SHORTEN = 20.0


class _Given(msgspec.Struct):
    request: Request
    programs: list[list[Call]]
    #: Whether no program may see what another one has left. A copy of the process for each takes longer.
    alone: bool = False
    #: Whether the program is to be made shorter while its last life is another one if it is lived alone.
    shortens: bool = False


class _Writes(Judge):
    """Writes every answer of each life, and those to the questions that could be asked at its end."""

    name = "writes-answers"

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self.lives: list[list[str]] = [[]]

    @property
    def lines(self) -> list[str]:
        return self.lives[-1]

    def before(self, call: Call) -> None:
        if isinstance(call, NewLife):
            self.end()

    def after(self, call: Call, answer: Any) -> None:
        if isinstance(call, NewLife):
            self.lives.append([])
            return
        if isinstance(call, Ask):
            self.lines.append(f"schedule({self.life.waiting[call.uid].key}): {told(answer)}")
            return
        nodes = tuple(sorted(self.life.nodes))
        for uid in sorted(self.life.waiting)[:_MOST_ASKED] if nodes else ():
            found = asked(self.life.algorithm, self.life.waiting[uid], nodes, Phase.FILTERING)
            self.lines.append(f"schedule({self.life.waiting[uid].key}): {told(found)}")

    def end(self) -> None:
        found = answers(self.life.algorithm, self.life.waiting, tuple(sorted(self.life.nodes)))
        self.lives[-1] += [f"{question}: {told(answer)}" for question, answer in found.items()]


def carried_out(request: Request, programs: Sequence[Sequence[Call]], *, alone: bool) -> list[list[list[str]]]:
    """The answers of each program, by its lives. Raises RuntimeError if one cannot be carried out."""
    lived = _lived(request)
    return [_in_a_copy(lived, program) if alone else lived(program) for program in programs]


def made_shorter(request: Request, program: Sequence[Call]) -> list[Call]:
    """The shortest program that is found of which the last life is another one if it is lived alone."""
    lived, end = _lived(request), time.monotonic() + _SECONDS_TO_SHORTEN

    def differs(candidate: Sequence[Call]) -> bool:
        last = last_life(candidate)
        if len(last) == len(candidate):
            return False
        return _in_a_copy(lived, candidate)[-1] != _in_a_copy(lived, last)[-1]

    return shortened(program, differs, lambda: time.monotonic() > end)


def _lived(request: Request) -> Callable[[Sequence[Call]], list[list[str]]]:
    """What returns the answers of a program, by its lives."""
    plugin = plugin_of(request.plugin)
    settings = settings_of(plugin, request.settings or {})

    def lived(program: Sequence[Call]) -> list[list[str]]:
        life = Life(
            lambda: plugin.create(settings), judges=[_Writes], reads=reads_of(plugin), guard=Guard(request.limit)
        )
        for call in program:
            life.perform(call)
        life.end()
        (judge,) = life.judges
        assert isinstance(judge, _Writes)
        return judge.lives

    return lived


def _in_a_copy(lived: Callable[[Sequence[Call]], list[list[str]]], program: Sequence[Call]) -> list[list[str]]:
    """What it returns in a copy of this process, which ends at once. Raises RuntimeError if the copy fails."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the plug-in may have started threads
        parent, copy = os.getpid(), os.fork()
    if not copy:
        status = 1
        try:
            end_with_parent(parent)
            with os.fdopen(write, "wb") as output:
                output.write(msgspec.json.encode(lived(program)))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as answers_of_copy:
        text = answers_of_copy.read()
    _, status = os.waitpid(copy, 0)
    if status:
        raise RuntimeError(f"a copy of the process ended with {os.waitstatus_to_exitcode(status)}")
    found: list[list[str]] = msgspec.json.decode(text)
    return found


def main() -> None:
    """Read a request with programs from standard input, and write the answers to standard output."""
    end_with_parent(int(sys.argv[1]))
    side_effects.install()  # a copy of this process that the algorithm makes ends at once
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=_Given)
    found: Any = (
        made_shorter(given.request, given.programs[0])
        if given.shortens
        else carried_out(given.request, given.programs, alone=given.alone)
    )
    sys.stdout.write("\n" + msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads that the algorithm has started


if __name__ == "__main__":
    main()
