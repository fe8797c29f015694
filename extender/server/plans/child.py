"""The process that makes a plan, as the server sees it: started, fed, waited for, and ended.

    run(order, feed) --> starts it --> Needs --> feed: messages, sent one by one --> Answer
                            |
                            +-- `seconds` are over, or cancel(): it is killed, and the answer says so

A plug-in that never returns, or takes all memory that there is, ends with its process.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

from extender.server.plans.frames import MOST_NEEDS, OUT_OF_MEMORY, Answer, Channel, Ended, Message, Needs, Order

STARTING = 10.0
_COMMAND = (sys.executable, "-P", "-m", "extender.server.plans.worker")
#: What is sent for the needs; True for those that come first.
Feed = Callable[[Needs, bool], Iterable[Message]]

#: How a process ends whose memory is used up: by the kernel, by itself, or by a native library (Rust's aborts).
_LACKED_MEMORY = (-signal.SIGKILL, OUT_OF_MEMORY, -signal.SIGABRT)


class Child:
    """For one run. `cancel` may be called from any thread, at any time. `starting`: seconds for its start, and for the
    copy, in addition to those of the plan."""

    def __init__(self, *, starting: float = STARTING) -> None:
        self._starting = starting
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        #: Why it was killed: the outcome, "" if it was not.
        self._killed = ""

    def run(self, order: Order, feed: Feed) -> Answer:
        """Return the answer, whatever happens to the process. What `feed` raises passes through."""
        process = self._start()
        if process is None:
            return self._without_answer(order, None)
        deadline = threading.Timer(order.seconds + self._starting, self._kill, ("timeout",))
        deadline.name, deadline.daemon = "waggle-plan-deadline", True
        deadline.start()
        try:
            return self._talk(process, order, feed)
        except Ended:
            process.wait()
            return self._without_answer(order, process.returncode)
        finally:
            deadline.cancel()
            self._kill("cancelled")
            # Closes its pipes, and waits for its end. What is left to send goes nowhere if it was killed.
            with contextlib.suppress(BrokenPipeError), process:
                pass
            deadline.join()

    def cancel(self) -> None:
        """End the process, if it runs; it does not start any more."""
        self._kill("cancelled")

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if not self._killed:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    _COMMAND,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            return self._process

    def _talk(self, process: subprocess.Popen[bytes], order: Order, feed: Feed) -> Answer:
        assert process.stdin is not None
        assert process.stdout is not None
        channel = Channel(process.stdout, process.stdin)  # type: ignore[arg-type]
        channel.send(order)
        message = channel.receive()
        for turn in range(MOST_NEEDS):
            if isinstance(message, Needs):
                for each in feed(message, turn == 0):
                    channel.send(each)
                message = channel.receive()
        if not isinstance(message, Answer):
            raise Ended(f"{type(message).__name__} was not expected")
        return message

    def _kill(self, why: str) -> None:
        with self._lock:
            self._killed = self._killed or why
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def _without_answer(self, order: Order, status: int | None) -> Answer:
        """The answer of a process that gave none."""
        if self._killed == "cancelled":
            return Answer(outcome="cancelled", status=503, error="the plan was cancelled", code="Cancelled")
        if self._killed == "timeout" or status == -signal.SIGXCPU:
            text = f"the plan takes longer than plans.seconds ({order.seconds:g} s)"
            return Answer(outcome="timeout", status=422, error=text, code="PlanTimeout", cpu=order.seconds)
        if status in _LACKED_MEMORY:
            text = f"the plan needs more memory than plans.memory_mib ({order.memory >> 20} MiB), or than there is"
            return Answer(outcome="too_large", status=422, error=text, code="PlanTooLarge")
        text = "making the plan failed; the server's log says more"
        return Answer(outcome="failed", status=500, error=text, trace=f"the process ended with status {status}")
