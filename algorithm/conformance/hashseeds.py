"""Two processes with different hash seeds carry out the same programs, and must decide alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from algorithm.conformance.calls import Call
from algorithm.conformance.results import Request, Result
from algorithm.conformance.shrink import shortened

_SEEDS = ("1", "2")
#: Seconds after which a process is taken for one that hangs.
_LIMIT = 60.0
_MOST_TRIES = 25
_SECONDS_TO_SHORTEN = 12.0


class OtherProcessError(RuntimeError):
    """Another process could not carry out the programs; the message has its last words."""


def hash_seeds_decide_alike(trial: Any, abilities: Iterable[str]) -> Result:
    """Compare what two processes decide in the lives that were lived before."""
    name = "hash-seeds-decide-alike"
    programs: list[list[Call]] = trial.programs or _some_programs(trial)
    try:
        request = msgspec.structs.replace(
            trial.request, settings=json.loads(json.dumps(dict(trial.given), default=str))
        )
        different = _first_difference(request, programs)
        if different is None:
            return Result(check=name, status="passed", lives=len(programs))
        program, text = different
        calls, text = _shortened(request, programs[program], text)
    except OtherProcessError as error:
        return Result(check=name, status="failed", text=str(error))
    return Result(check=name, status="failed", text=text, calls=tuple(calls))


def _some_programs(trial: Any) -> list[list[Call]]:
    """Programs of a few lives that nobody judges: this check is tried alone."""
    from algorithm.conformance.machine import live

    programs: list[list[Call]] = []
    live(
        trial.world,
        lambda: trial.life([], report=lambda *_: None, look="sometimes"),
        lambda life: programs.append(list(life.calls)),
        lives=10,
        steps=trial.request.steps,
        at=trial.request.seed,
    )
    return programs


def _shortened(request: Request, calls: Sequence[Call], text: str) -> tuple[list[Call], str]:
    begun, tries, said = time.monotonic(), 0, text

    def fails(candidate: Sequence[Call]) -> bool:
        nonlocal tries, said
        tries += 1
        different = _first_difference(request, [list(candidate)])
        said = different[1] if different is not None else said
        return different is not None

    found = shortened(calls, fails, lambda: tries >= _MOST_TRIES or time.monotonic() - begun > _SECONDS_TO_SHORTEN)
    return found, said


def _first_difference(request: Request, programs: Sequence[Sequence[Call]]) -> tuple[int, str] | None:
    """The first program in which the processes decide differently, and how."""
    one, other = _answers(request, programs)
    for number, (these, those) in enumerate(zip(one, other, strict=True)):
        for this, that in zip(these, those, strict=False):
            if this != that:
                return number, f"with PYTHONHASHSEED={_SEEDS[0]} it answers {this}, and with {_SEEDS[1]} {that}"
        if len(these) != len(those):
            return number, "with another PYTHONHASHSEED other calls are possible"
    return None


def _answers(request: Request, programs: Sequence[Sequence[Call]]) -> list[list[list[str]]]:
    """What two processes answer, started at the same time."""
    given = msgspec.json.encode({"request": request, "programs": programs})
    command = [sys.executable, "-m", "algorithm.conformance.digests"]
    started = [
        subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in _SEEDS
    ]
    found = []
    try:
        for process in started:
            out, err = process.communicate(given, timeout=_LIMIT)
            if process.returncode:
                raise OtherProcessError(f"another process ended with {process.returncode}: {err.decode()[-500:]}")
            found.append(json.loads(out.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        raise OtherProcessError(f"another process did not end within {_LIMIT:g} seconds") from None
    finally:
        for process in started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    return found
