"""The embedded API server as a process of its own: for `waggle demo`, where it must not share the server's GIL.

    python -m extender.embedded.apiserver --port 0 --parent-pid 4711
    ready http://127.0.0.1:43210                                        (one line on stdout, nothing else)

It ends with SIGTERM, SIGINT, or when the parent process is gone, however that came to be.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from extender.embedded.apiserver.server import Options, Runtime
from extender.logs.setup import configure
from extender.settings import LogSettings

#: Nobody must mistake this for the real thing.
BANNER = """\
  ** This is Waggle's EMBEDDED API server: a stand-in for demos and tests, not a Kubernetes. **
  ** Everything is in memory and lost when it ends; anybody on this machine may do anything. **
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of the sidecar."""
    parser = argparse.ArgumentParser(prog="python -m extender.embedded.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument("--parent-pid", type=int, default=0, help="end when this process is gone; 0: never (default)")
    parser.add_argument("--no-kubelet", action="store_true", help="bound pods do not start, nodes are not made ready")
    parser.add_argument("--no-controllers", action="store_true", help="workloads get no pods, nothing is collected")
    parser.add_argument("--start-delay", type=float, default=0.0, help="seconds from a pod's binding to Running")
    parser.add_argument("--stop-delay", type=float, default=0.2, help="seconds that a graceful deletion takes")
    parser.add_argument("--binds", action="store_true", help="pods get nodes, since no kube-scheduler runs")
    parser.add_argument("--pod-lag", type=float, default=0.0, help="seconds by which ReplicaSets see pods late")
    chosen = parser.parse_args(arguments)
    options = Options(
        port=chosen.port,
        kubelet=not chosen.no_kubelet,
        controllers=not chosen.no_controllers,
        start_delay=chosen.start_delay,
        stop_delay=chosen.stop_delay,
        pod_lag=chosen.pod_lag,
        binds=chosen.binds,
    )
    sys.stderr.write(BANNER)
    configure(LogSettings())
    runtime = Runtime(options)
    runtime.on_ready = lambda: _ready(runtime, chosen.parent_pid)
    runtime.run()
    return 0


def _ready(runtime: Runtime, parent: int) -> None:
    sys.stdout.write(f"ready {runtime.url}\n")
    sys.stdout.flush()
    if parent:
        _end_with(runtime, parent, is_child=os.getppid() == parent)


def _end_with(runtime: Runtime, parent: int, *, is_child: bool) -> None:
    if _is_gone(parent, is_child=is_child):
        runtime.server.should_exit = True
        return
    asyncio.get_running_loop().call_later(0.5, lambda: _end_with(runtime, parent, is_child=is_child))


def _is_gone(parent: int, *, is_child: bool) -> bool:
    """A dead parent that nobody has waited for still has its pid, but its children have got another parent."""
    if is_child:
        return os.getppid() != parent
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@dataclass(eq=False)
class Sidecar:
    """A running sidecar. Stop it, or use it as a context manager."""

    url: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End the process and wait for it; kill it if it does not end within 10 s."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def spawn_sidecar(*arguments: str, port: int = 0, quiet: bool = True) -> Sidecar:
    """Start a sidecar that ends with this process. `arguments` are further ones of its command line; `quiet` hides
    its banner and log. Raises RuntimeError if it does not come up.
    """
    command = [
        sys.executable,
        "-m",
        "extender.embedded.apiserver",
        "--port",
        str(port),
        "--parent-pid",
        str(os.getpid()),
    ]
    process = subprocess.Popen(  # noqa: S603 - our own module
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        # Ctrl-C in a terminal is for the parent, which still needs the cluster while it tidies up.
        start_new_session=True,
    )
    sidecar = Sidecar("", process)
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line.startswith("ready "):
        sidecar.stop()
        raise RuntimeError(f"the embedded API server did not start: exit status {process.returncode}")
    sidecar.url = line.removeprefix("ready ").strip()
    return sidecar
