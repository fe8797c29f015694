"""Two processes with different hash seeds carry out the same programs, and must decide alike."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from algorithm.conformance.calls import Call
from algorithm.conformance.judge import Judge, promise
from algorithm.conformance.life import Life
from algorithm.conformance.results import Request, Result

_SEEDS = ("1", "2")
#: Seconds after which a process is taken for one that hangs.
_LIMIT = 60.0
#: Pairs of processes that look for a shorter program, and seconds for all of them.
_MOST_ROUNDS, _SECONDS_TO_SHORTEN = 12, 20.0


#: Called while other processes work, so that this one is not taken for one that hangs.
Tick = Callable[[], None]
#: Calls that one pair of processes carries out.
_MOST_CALLS = 3000


def _nothing() -> None:
    """Nobody watches this process."""


class OtherProcessError(RuntimeError):
    """Another process could not carry out the programs; the message has its last words."""


def hash_seeds_decide_alike(trial: Any, abilities: Iterable[str]) -> Result:
    """Compare what two processes decide in the lives that were lived before."""
    name = "hash-seeds-decide-alike"

    def tick() -> None:
        if trial.guard.before is not None:
            trial.guard.before(name)

    programs: list[list[Call]] = trial.programs or _some_programs(trial)
    try:
        request = msgspec.structs.replace(
            trial.request, settings=json.loads(json.dumps(dict(trial.given), default=str))
        )
        different = _differences(request, programs, tick)
        if not different:
            return Result(check=name, status="passed", lives=len(programs))
        program = min(different, key=lambda number: len(programs[number]))
        calls, text = _shortened(request, programs[program], different[program], tick)
    except OtherProcessError as error:
        return Result(check=name, status="failed", text=str(error))
    return Result(check=name, status="failed", text=text, calls=tuple(calls))


class SeedsJudge(Judge):
    """For a test that was printed: compares what two processes decide, once the life is over."""

    name = "hash-seeds-decide-alike"

    def __init__(self, request: Request, life: Life) -> None:
        super().__init__(life)
        self._request = request

    def end(self) -> None:
        for text in _differences(self._request, [self.life.calls]).values():
            promise(False, text)


def _some_programs(trial: Any) -> list[list[Call]]:
    """Programs of a few lives that nobody judges: this check is tried alone."""
    from algorithm.conformance.machine import live

    programs: list[list[Call]] = []
    live(
        trial.world,
        lambda: trial.life([], report=lambda *_: None, look="sometimes"),
        lambda life: programs.append(list(life.calls)),
        lives=30,
        steps=trial.request.steps,
        at=trial.request.seed,
    )
    return programs


def _shortened(request: Request, calls: Sequence[Call], text: str, tick: Tick) -> tuple[list[Call], str]:
    """Leave out calls while the processes differ. Each pair of processes tries every part that can be left out."""
    begun, found = time.monotonic(), list(calls)
    for _ in range(_MOST_ROUNDS):
        candidates = _shorter(found)
        different = _differences(request, candidates, tick) if time.monotonic() - begun < _SECONDS_TO_SHORTEN else {}
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


def _differences(request: Request, programs: Sequence[Sequence[Call]], tick: Tick = _nothing) -> dict[int, str]:
    """The programs in which the processes decide differently, by their numbers, and how."""
    if not programs:
        return {}
    one, other = _answers(request, programs, tick)
    found = ((number, _difference(*answers)) for number, answers in enumerate(zip(one, other, strict=True)))
    return {number: text for number, text in found if text}


def _difference(these: Sequence[str], those: Sequence[str]) -> str:
    for this, that in zip(these, those, strict=False):
        if this != that:
            return f"with PYTHONHASHSEED={_SEEDS[0]} it answers {this}, and with {_SEEDS[1]} {that}"
    return "" if len(these) == len(those) else "with another PYTHONHASHSEED other calls are possible"


def _answers(request: Request, programs: Sequence[Sequence[Call]], tick: Tick) -> list[list[list[str]]]:
    """What two processes answer, started at the same time. `tick` is called while they work."""
    with tempfile.NamedTemporaryFile() as given, contextlib.ExitStack() as stack:
        given.write(msgspec.json.encode({"request": request, "programs": programs}))
        given.flush()
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in _SEEDS]
        started = [_started(seed, given.name, output) for seed, output in zip(_SEEDS, outputs, strict=True)]
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
        return subprocess.Popen(
            [sys.executable, "-m", "algorithm.conformance.digests"],
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


def _read(process: subprocess.Popen[bytes], output: IO[bytes]) -> list[list[str]]:
    output.seek(0)
    text = output.read()
    if process.returncode:
        raise OtherProcessError(f"another process ended with {process.returncode}: {text.decode()[-500:]}")
    found: list[list[str]] = msgspec.json.decode(text.splitlines()[-1])
    return found
