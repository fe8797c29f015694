"""Child processes that never outlive the test run, however it ends, and whose output is kept.

A child is started through a launcher that asks Linux to kill it when its parent dies (prctl PR_SET_PDEATHSIG), and
then becomes the program itself. So a `kill -9` of the test runner leaves nothing behind, and nothing is ever stopped by
its name. Elsewhere than on Linux, only an orderly end stops the children.

Start processes in the main thread only: what Linux watches is the thread that forked.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Ends with the process of the given pid, also if that died before the request was made.
_LAUNCHER = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
#: Below the range from which Linux takes ports for outgoing connections, so that nobody else gets one meanwhile.
_PORTS = range(20_000, 32_000)


class ProcessError(RuntimeError):
    """A process did not do what it should. The message names its log and ends with the last lines of it."""


class Process:
    """One child process. Its output, stdout and stderr, goes to `log`; further runs are appended."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, log
        arguments = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *map(str, command)]
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                # Ctrl-C in a terminal is for the test run, which stops its processes in the right order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def check(self) -> None:
        """Raises ProcessError if it has ended."""
        if not self.alive:
            raise ProcessError(f"{self.name} ended with status {self._child.returncode}; {self.last_words()}")

    def last_words(self, *, characters: int = 3000) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        # With a line for each of its flags, kube-scheduler would have said nothing else yet.
        said = "\n".join(line for line in lines if "] FLAG: " not in line)[-characters:].strip()
        return f"{self.log} ends with:\n{said}"

    def stop(self, *, patience: float = 10.0) -> None:
        """SIGTERM, and SIGKILL after `patience` seconds. Idempotent."""
        if self.alive:
            self._child.terminate()
        try:
            self._child.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """As a machine that loses power."""
        self._child.kill()
        self._child.wait()

    def pause(self) -> None:
        """It keeps its connections and says nothing any more."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.send_signal(signal.SIGCONT)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that nobody gets by chance before it is used."""
    for port in random.sample(_PORTS, 200):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise ProcessError(f"no port of 127.0.0.1 between {_PORTS.start} and {_PORTS.stop} is free")
