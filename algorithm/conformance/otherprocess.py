"""Has programs carried out in new processes (`digests.py`), and makes those shorter whose answers differ there."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec

from algorithm.conformance.calls import Call, decode
from algorithm.conformance.results import Request

#: Seconds after which a process is taken for one that hangs.
_LIMIT = 60.0
#: Rounds of processes that look for a shorter program, and seconds for all of them.
_MOST_ROUNDS, _SECONDS_TO_SHORTEN = 20, 20.0
#: Calls that one process carries out.
_MOST_CALLS = 3000

#: Lives that are lived in each order of nodes if there are none yet.
_LIVES = 15

#: Called while other processes work, so that this one is not taken for one that hangs.
Tick = Callable[[], None]
#: The answers of each program, by its lives.
Answers = list[list[list[str]]]
#: The programs of which the answers differ, by their numbers, and how.
Differences = Callable[[Sequence[Sequence[Call]]], dict[int, str]]


def nothing() -> None:
    """Nobody watches this process."""


class OtherProcessError(RuntimeError):
    """Another process could not carry out the programs; the message has its last words."""


def request_of(trial: Any) -> Request:
    """The request of a trial for another process: with the settings as JSON has them."""
    request: Request = trial.request
    return msgspec.structs.replace(request, settings=json.loads(json.dumps(dict(trial.given), default=str)))


def tick_of(trial: Any, name: str) -> Tick:
    """What tells that the check of this name goes on."""

    def tick() -> None:
        if trial.guard.before is not None:
            trial.guard.before(name)

    return tick


def programs_of(trial: Any) -> list[list[Call]]:
    """The lives that were lived before; a few that nobody judges if this check is tried alone."""
    if trial.programs:
        return list(trial.programs)
    from algorithm.conformance.machine import live

    programs: list[list[Call]] = []
    # In half of them the nodes come in another order: what one life leaves in a global may be just that.
    for names in (trial.world.node_names, trial.world.node_names[::-1]):
        live(
            replace(trial.world, node_names=names),
            lambda: trial.life([], report=lambda *_: None, look="sometimes"),
            lambda life: programs.append(list(life.calls)),
            lives=_LIVES,
            steps=trial.request.steps,
            at=trial.request.seed,
        )
    trial.programs.extend(programs)
    return programs


def shortened(calls: Sequence[Call], text: str, differences: Differences) -> tuple[list[Call], str]:
    """Leave out calls while the answers differ, and return how. Each round tries every part that can be left out."""
    begun, found = time.monotonic(), list(calls)
    for _ in range(_MOST_ROUNDS):
        candidates = _shorter(found)
        different = differences(candidates) if time.monotonic() - begun < _SECONDS_TO_SHORTEN else {}
        if not different:
            break
        best = min(different, key=lambda number: len(candidates[number]))
        found, text = candidates[best], different[best]
    return found, text


def _shorter(calls: Sequence[Call]) -> list[list[Call]]:
    """The program without its halves, without its quarters, and so on, to each single call."""
    found: list[list[Call]] = []
    size = len(calls) // 2
    while size and sum(map(len, found)) < _MOST_CALLS:
        found += [[*calls[:begin], *calls[begin + size :]] for begin in range(0, len(calls), size)]
        size //= 2
    return [each for each in found if each]


def answers(
    request: Request, programs: Sequence[Sequence[Call]], tick: Tick, seeds: Sequence[str], *, alone: bool = False
) -> list[Answers]:
    """What new processes answer, one with each hash seed, at the same time. `tick` is called while they work.

    With `alone`, no program sees what another one has left. Raises OtherProcessError.
    """
    given = msgspec.json.encode({"request": request, "programs": programs, "alone": alone})
    return [msgspec.json.decode(text, type=Answers) for text in _said(given, tick, seeds)]


def shortened_there(request: Request, program: Sequence[Call], tick: Tick, seed: str) -> list[Call]:
    """A shorter program of which the last life is another one if it is lived alone. Raises OtherProcessError."""
    (text,) = _said(msgspec.json.encode({"request": request, "programs": [program], "shortens": True}), tick, [seed])
    return decode(text)


def _said(request: bytes, tick: Tick, seeds: Sequence[str]) -> list[bytes]:
    """The last line that each of the processes writes, one with each hash seed."""
    with tempfile.NamedTemporaryFile() as given, contextlib.ExitStack() as stack:
        given.write(request)
        given.flush()
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in seeds]
        started = [_started(seed, given.name, output) for seed, output in zip(seeds, outputs, strict=True)]
        try:
            end = time.monotonic() + _LIMIT
            for process in started:
                _wait(process, end, tick)
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [_read(process, output) for process, output in zip(started, outputs, strict=True)]


def _started(seed: str, given: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
    with Path(given).open("rb") as programs:
        return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-m", "algorithm.conformance.digests", str(os.getpid())],
            stdin=programs,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )


def _wait(process: subprocess.Popen[bytes], end: float, tick: Tick) -> None:
    while True:
        tick()
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise OtherProcessError(f"another process did not end within {_LIMIT:g} seconds") from None
        else:
            return


def _read(process: subprocess.Popen[bytes], output: IO[bytes]) -> bytes:
    output.seek(0)
    text = output.read()
    if process.returncode:
        raise OtherProcessError(f"another process ended with {process.returncode}: {text.decode()[-500:]}")
    return text.splitlines()[-1]
