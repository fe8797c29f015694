"""A `waggle conformance` command that a signal ends takes its processes and its temporary files with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")

#: It says that it has come to the place, and keeps the pipe open: the pipe has an end once the process has.
PLUGIN = """
import os
import sys
from tests.support.conformance.slots import PLUGIN as SLOTS, Slots
from algorithm.registry import Plugin

def arrived():
    global pipe
    pipe = os.open({pipe!r}, os.O_WRONLY)
    os.write(pipe, b"%d\\n" % os.getpgid(0))

def hang():
    arrived()
    while True:
        pass

class Hangs(Slots):
    def schedule(self, pod, suggested_nodes, phase):
        hang()

PLUGIN = SLOTS
{then}
"""
IMPORT = "hang()"
CALL = "PLUGIN = Plugin(settings=SLOTS.settings, create=Hangs)"
HEALTHY = "arrived()"
#: The kit carries out lives once more in processes that the testing process starts, and in copies of these.
OTHER_PROCESS = "if sys.argv[0].endswith('digests.py'): hang()"
COPY = f"if sys.argv[0].endswith('digests.py'): {CALL}"
ONLY = {OTHER_PROCESS: ("--only", "hash-seeds-decide-alike"), COPY: ("--only", "lives-are-independent")}


@pytest.mark.parametrize(
    ("then", "how"),
    [
        (IMPORT, signal.SIGTERM),
        (IMPORT, signal.SIGKILL),
        (CALL, signal.SIGTERM),
        (HEALTHY, signal.SIGTERM),
        pytest.param(OTHER_PROCESS, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(COPY, signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_no_process_and_no_file_survives_the_command(tmp_path: Path, then: str, how: signal.Signals) -> None:
    pipe, plugin = tmp_path / "pipe", tmp_path / "plugin.py"
    os.mkfifo(pipe)
    plugin.write_text(PLUGIN.format(pipe=str(pipe), then=then))
    options = ("--limit", "60", *ONLY.get(then, ()))
    command = [sys.executable, "-m", "extender.cli", "conformance", f"{plugin}:PLUGIN", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    arrivals = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    groups = b""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            groups = read(arrivals)
            assert list(tmp_path.glob("waggle-conformance-*"))
            process.send_signal(how)
            while more := read(arrivals):  # a second one may have arrived
                groups += more
            assert process.wait(timeout=60) == (143 if how == signal.SIGTERM else -how)
            assert how == signal.SIGKILL or not list(tmp_path.glob("waggle-conformance-*"))
            groups = b""
        finally:
            os.close(arrivals)
            process.kill()
            for group in groups.split():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(group), signal.SIGKILL)


def read(pipe: int) -> bytes:
    """What is written next; b"" once all that could write have ended."""
    assert select.select([pipe], [], [], 60)[0], "nothing was written for a minute, and a process is still there"
    return os.read(pipe, 100)
