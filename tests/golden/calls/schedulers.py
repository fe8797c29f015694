"""The two schedulers that play the workloads: the stand-in, and a real kube-scheduler.

Each is a function that takes a KubeSchedulerConfiguration and gives a context manager of something that can come to
rest. The stand-in knows when it has nothing left to do; of a real one it can only be seen that it is quiet.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.golden.calls.play import RESTED, Object
from tests.golden.control_plane import kube_scheduler, write_kubeconfig

PATIENCE = 60.0
#: Seconds without any change after which a real kube-scheduler is taken to have nothing left to do.
QUIET = 1.0
#: The same for RESTED workloads: kube-scheduler counts back-offs in whole seconds, and looks at them once a second.
_QUIET_AND_RESTED = 3.1
_LOOK = 0.05

#: Everything that can be seen from outside: equal as long as nothing happens.
Look = Callable[[], Any]


class Scheduler(Protocol):
    def rest(self, look: Look) -> None:
        """Returns once nothing is left to do. Raises AssertionError."""

    def ended(self) -> bool:
        """Whether it has ended by itself, as a panic does."""


Start = Callable[[Object], AbstractContextManager[Scheduler]]


class _StandIn:
    def __init__(self, scheduler: KubeSchedulerStandIn) -> None:
        self._scheduler = scheduler

    def rest(self, look: Look) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self._scheduler.wait_idle(0.25) or self.ended()):
            assert time.monotonic() < deadline, self._scheduler.records

    def ended(self) -> bool:
        return bool(self._scheduler.crashed)


@contextmanager
def stand_in(server: str, configuration: Object) -> Iterator[Scheduler]:
    with ExitStack() as stack:
        api = connect(ClusterSettings(server=server))
        stack.callback(api.close)
        config = from_kube_scheduler_configuration(configuration)
        if _is_rested(configuration):
            config = config.model_copy(update={"pod_initial_backoff_seconds": 0, "pod_max_backoff_seconds": 0})
        scheduler = KubeSchedulerStandIn(api, config)
        stack.callback(scheduler.stop)
        scheduler.start()
        assert scheduler.wait_synced(PATIENCE)
        yield _StandIn(scheduler)


class _Real:
    def __init__(self, process: subprocess.Popen[bytes], quiet: float) -> None:
        self._process, self._quiet = process, quiet

    def rest(self, look: Look) -> None:
        rest_quietly(look, self._quiet)

    def ended(self) -> bool:
        return self._process.poll() is not None


@contextmanager
def real(binary: Path, server: str, configuration: Object) -> Iterator[Scheduler]:
    with tempfile.TemporaryDirectory(prefix="kube-scheduler-") as folder:
        kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", server)
        with kube_scheduler(binary, Path(folder), kubeconfig, configuration) as process:
            yield _Real(process, _QUIET_AND_RESTED if _is_rested(configuration) else QUIET)


def _is_rested(configuration: Object) -> bool:
    return RESTED.items() <= configuration.items()


def rest_quietly(look: Look, seconds: float) -> None:
    """Returns when nothing has changed for so long. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE
    seen, since = look(), time.monotonic()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline, "it does not come to rest"
        time.sleep(_LOOK)
        now = look()
        if now != seen:
            seen, since = now, time.monotonic()
