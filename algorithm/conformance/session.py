"""Tests an algorithm in another process, and reports the results even if that process hangs or exits.

session (here) --- request ---> child.py (another process): imports the plug-in, lives, judges
    ^                               |
    +--- results, one a line -------+     and the present life's calls in a file, for when it is killed
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from algorithm.conformance.calls import Call, decode_lines
from algorithm.conformance.catalogue import CHECKS, chosen
from algorithm.conformance.limits import MARK, cpu_seconds, end_marked
from algorithm.conformance.patience import overdue
from algorithm.conformance.results import Report, Request, Result
from algorithm.registry import API_VERSION

#: Wall-clock seconds for everything: so many times the CPU seconds of the request, but at least so many.
_MOST_TIMES, _LEAST_TOTAL = 12.0, 300.0
#: Bytes of one message of the process.
_LONGEST_MESSAGE = 64 << 20
_NEEDS_HYPOTHESIS = "the conformance kit needs Hypothesis: pip install 'waggle-scheduler[conformance]'"
#: Seconds that the process may take to end by itself once it is done.
_LAST_SECONDS = 5.0
#: Bytes of the other process's output that are shown.
_MOST_OUTPUT = 2000
_ORDER = {check.name: number for number, check in enumerate(CHECKS)}


class _Message(msgspec.Struct):
    result: Result | None = None
    stage: str = ""
    unusable: str = ""
    abilities: tuple[str, ...] | None = None
    settings: dict[str, object] | None = None
    world: str = ""
    done: bool = False


def run(request: Request) -> Report:
    """Try the algorithm. Raises UnknownCheckError for a name in `only` that no check has."""
    names = [check.name for check in chosen(request.only)]
    begun = time.monotonic()
    if find_spec("hypothesis") is None:
        return Report(plugin=request.plugin, contract=API_VERSION, unusable=_NEEDS_HYPOTHESIS)
    with tempfile.TemporaryDirectory(prefix="waggle-conformance-") as folder:
        child = _Child(request, Path(folder))
        try:
            messages = list(child.messages())
        except BaseException:  # Ctrl-C or SIGTERM: its results are for nobody
            child.kill()
            raise
        finally:
            child.end()
        return _report(request, names, messages, child, time.monotonic() - begun)


def _report(request: Request, names: list[str], messages: list[_Message], child: _Child, seconds: float) -> Report:
    results = {message.result.check: message.result for message in messages if message.result is not None}
    stage = next((message.stage for message in reversed(messages) if message.stage), "it was started")
    unusable = next((message.unusable for message in messages if message.unusable), "")
    is_done = any(message.done for message in messages)
    if not is_done and not unusable and stage in ("it was started", "it was imported", "it was created"):
        unusable = f"{child.ended()} while {stage}{child.output()}"
    if not is_done and not unusable:
        results |= _cut_off(names, results, stage, child)
    abilities = next((message.abilities for message in messages if message.abilities is not None), ())
    first = next((message for message in messages if message.settings is not None), _Message())
    return Report(
        plugin=request.plugin,
        contract=API_VERSION,
        results=tuple(sorted(results.values(), key=lambda result: _ORDER[result.check])),
        unusable=unusable,
        abilities=abilities,
        lives=max((result.lives for result in results.values()), default=0),
        seconds=seconds,
        settings=first.settings or {},
        world=first.world,
    )


def _cut_off(names: list[str], results: dict[str, Result], stage: str, child: _Child) -> dict[str, Result]:
    """What is known after the process has ended, or was ended, before it was done."""
    culprit = "calls-return" if child.was_killed else "process-survives"
    calls = tuple(child.calls())
    during = f" in {_method(calls[-1])}" if calls else ""
    text = f"{child.ended()}{during} while {stage}{child.output()}"
    found = {culprit: Result(check=culprit, status="failed", text=text, calls=calls)}
    if culprit in results and results[culprit].status == "failed":
        found[culprit] = results[culprit]
    for name in names:
        if name not in results and name != culprit:
            found[name] = Result(check=name, status="not-run", text=f"the process ended before: see {culprit}")
    return found


class _Child:
    """The other process."""

    def __init__(self, request: Request, folder: Path) -> None:
        self._request = request
        self._mark = uuid4().hex
        self._counter, self._calls, self._output = folder / "counter", folder / "calls", folder / "output"
        self._counter.write_bytes(bytes(8))
        self._calls.touch()
        self.was_killed = False
        self.why_killed = f"it did not end within {_LAST_SECONDS:g} seconds"
        self._status: int | None = None
        self._read, write = os.pipe()
        arguments = (write, self._counter, self._calls, os.getpid())
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
                [sys.executable, "-m", "algorithm.conformance.child", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(write,),
                env=_environment() | {MARK: self._mark},
                start_new_session=True,
            )
        os.close(write)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(request))
            self._process.stdin.close()

    def messages(self) -> Iterator[_Message]:
        """What the process says, until it ends or is ended because nothing has moved for too long."""
        with os.fdopen(self._read, "rb", buffering=0) as pipe, selectors.DefaultSelector() as waiting:
            waiting.register(pipe, selectors.EVENT_READ)
            rest, moved, count = b"", time.monotonic(), 0
            end = moved + max(_LEAST_TOTAL, _MOST_TIMES * self._request.seconds)
            while True:
                if waiting.select(0.5):
                    piece = pipe.read(1 << 16)
                    if not piece:
                        return
                    *lines, rest = (rest + piece).split(b"\n")
                    yield from filter(None, map(_message, lines))
                    moved = time.monotonic()
                now = int.from_bytes(self._counter.read_bytes()[:8], "little")
                if now != count:
                    count, moved = now, time.monotonic()
                if time.monotonic() > end or len(rest) > _LONGEST_MESSAGE:
                    why = "everything together took too long"
                else:
                    still = time.monotonic() - moved
                    cpu = 0.0 if count else cpu_seconds(self._process.pid)
                    why = overdue(limit=self._request.limit, calls=count, still=still, cpu=cpu)
                if why:
                    self.why_killed = why
                    self.kill()
                    return

    def kill(self) -> None:
        """Have it end at once. `end` still has to be called."""
        self.was_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Wait until the process has ended, and end what it has started and left behind."""
        deadline = time.monotonic() + _LAST_SECONDS
        while not self._has_ended():
            if time.monotonic() > deadline:
                self.was_killed = True
                break
            time.sleep(0.01)
        end_marked(self._mark)
        # It is not waited for yet, so no other process group can have its number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._status = self._process.wait()

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):  # on macOS, before Python 3.13
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ended(self) -> str:
        """How the process ended, in words."""
        if self.was_killed:
            return f"{self.why_killed}, and the process was killed"
        if self._status is not None and self._status < 0:
            return f"the process was ended by {signal.Signals(-self._status).name}"
        return f"the process ended by itself, with status {self._status}"

    def calls(self) -> list[Call]:
        """The calls of the life that was lived last."""
        return decode_lines(self._calls.read_bytes())

    def output(self) -> str:
        """The end of what it wrote, in brackets; "" if it wrote nothing."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - _MOST_OUTPUT))
            text = file.read(_MOST_OUTPUT).decode(errors="replace").strip()
        return f" (its output ends with: {text})" if text else ""


def _method(call: Call) -> str:
    """The method of `life` that makes this call, as in the test that is printed."""
    return "life." + re.sub("(?<!^)(?=[A-Z])", "_", type(call).__name__).lower()


def _message(line: bytes) -> _Message | None:
    """The message in a line; None if something else has written there."""
    try:
        return msgspec.json.decode(line, type=_Message)
    except msgspec.DecodeError:
        return None


def _environment() -> dict[str, str]:
    """Ours, with our path, and the present folder as the last resort: what can be imported here can be so there."""
    path = os.pathsep.join(str(Path(each or ".").resolve()) for each in (*sys.path, "."))
    return {**os.environ, "PYTHONPATH": path}


def opted_out(report: Report, skip: dict[str, str]) -> Report:
    """The report with these checks opted out, each with its reason: a failure is excused, a pass is not expected."""

    def one(result: Result) -> Result:
        why = skip.get(result.check)
        if why is None:
            return result
        if result.status == "failed":
            return msgspec.structs.replace(result, status="excused", text=f"{why} ({result.text})")
        if result.status in ("passed", "warned", "not-applicable"):
            text = f"opted out ({why}), but it {'passes' if result.status != 'not-applicable' else 'does not apply'}"
            return msgspec.structs.replace(result, status="unexpected", text=text)
        return result

    return msgspec.structs.replace(report, results=tuple(map(one, report.results)))


def request_of(**fields: Any) -> Request:
    """A request from fields of any type that JSON has. Raises msgspec.ValidationError."""
    return msgspec.convert(fields, type=Request, strict=False)
