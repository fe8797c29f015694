"""Replicas of `waggle serve` as processes that a test kills (SIGKILL) and stops (SIGSTOP), behind one address."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from extender.demo.cast import Process
from tests.support.apiserver.proxy import Proxy
from tests.support.http.fixed_runtime import Client

#: Short, and with so much time between deadline and lease as a write may take that nobody waits for any more.
ELECTION = {"enabled": True, "lease_seconds": 4, "renew_deadline_seconds": 2, "retry_seconds": 0.4}


class Replica:
    """One process; `start` may follow `kill`."""

    def __init__(self, name: str, cluster: str, folder: Path, sections: dict[str, Any]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.name, self.url = name, f"http://127.0.0.1:{self.port}"
        self.client = Client(self.url)
        self.paused = False
        self._folder = folder
        self._config = folder / f"{name}.yaml"
        settings = {"server": {"port": self.port}, **sections}
        settings["cluster"] = {"server": cluster, **sections.get("cluster", {})}
        if "leader_election" in settings:
            settings["leader_election"] = {**settings["leader_election"], "identity": name}
        self._config.write_text(yaml.safe_dump(settings))
        self.process: Process | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(self._config)]
        self.process = Process(self.name, command, self._folder, verbose=False)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.paused = False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused = False

    def stop(self) -> None:
        if self.process is not None:
            if self.paused:
                self.resume()
            self.process.stop()

    def _signal(self, which: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process._child.pid, which)

    @property
    def ready(self) -> bool:
        """Whether a probe would say so; one that is stopped answers nothing."""
        if self.paused:
            return False
        try:
            return self.client.get("/readyz").status == 200
        except OSError:
            return False


class Balancer(Proxy):
    """A Service: each new connection goes to a replica that is ready, and stays with it."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        super().__init__(replicas[0].url)

    def _connect(self, client: socket.socket) -> None:
        ready = next((replica for replica in self._replicas if replica.ready), None)
        if ready is None:
            client.close()
            return
        self.redirect(ready.url)
        super()._connect(client)


@contextmanager
def replicas(count: int, cluster: str, folder: Path, sections: dict[str, Any]) -> Iterator[list[Replica]]:
    """Started, and stopped in the end whatever became of them."""
    made = [Replica(f"waggle-{number}", cluster, folder, sections) for number in range(count)]
    try:
        for replica in made:
            replica.start()
        yield made
    finally:
        for replica in made:
            replica.stop()
