"""What an e2e test works with: a cluster (see hands.py), and Waggle and kube-scheduler at work on it.

    with world(cluster, programs) as w:
        w.node("n0")
        w.pod("p", gpus=2)
        assert w.place("p") == "n0"

Waggle is a `waggle serve` process of its own, under its own user with its own rights; kube-scheduler is the real one;
between them stands a Gate that sees every call. At the end of a world everything in the cluster is removed, and it is
checked that nobody over-committed a node, and that none of the processes ended by itself.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.certificates import Pair
from tests.e2e.cluster import Cluster, describe, trusting
from tests.e2e.gate import Gate
from tests.e2e.hands import GPU, Hands, Object, eventually
from tests.e2e.processes import Process, ProcessError, free_port
from tests.e2e.scheduler_config import DEFAULT_PROFILE, write


class RealCluster(Hands):
    """One cluster with one kube-scheduler and one Waggle. `programs` are the executables by name."""

    def __init__(
        self,
        cluster: Cluster,
        programs: Mapping[str, Path],
        *,
        scheduler: str = "kube-scheduler",
        extender: Mapping[str, Any] | None = None,
        profiles: Sequence[str] = (DEFAULT_PROFILE,),
        scheduler_flags: Sequence[str] = (),
        configuration: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        identity: tuple[Path, Pair] | None = None,
        records: bool = False,
        folder: str = "world",
    ) -> None:
        """`extender` and `configuration` change fields of the extender and of the KubeSchedulerConfiguration.

        `identity`: whom to trust as Waggle, and what to show it, where it serves mutual TLS. `records`: whether Waggle
        records what it decides, into the folder `recording`.
        """
        super().__init__(cluster)
        self.folder = cluster.folder / folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.gate = Gate()
        self.waggle: Process | None = None
        self.waggle_url = ""
        self.scheduler: Process | None = None
        self.scheduler_url = ""
        self._programs = programs
        self._scheduler_program = scheduler
        self._scheduler_flags = scheduler_flags
        self._extender, self._profiles = dict(extender or {}), profiles
        self._configuration = dict(configuration or {})
        self.settings = dict(settings or {})
        self.recording = self.folder / "recording" if records else None
        self._trust: ssl.SSLContext | bool = trusting(*identity) if identity else False
        self.waggle_port = free_port()
        self._others: list[Process] = []

    # -- the servers ------------------------------------------------------------------------------------------------

    def start_waggle(self, *, wait: bool = True, api_server: str = "", **sections: Any) -> None:
        """Starts `waggle serve`, where it was before if it was. `api_server`: another way to the API server."""
        self.settings |= sections
        told, config = self.folder / "waggle.url", self.folder / "waggle.yaml"
        told.unlink(missing_ok=True)
        given = {"server": {"port": self.waggle_port}, "log": {"level": "info"}, **self.settings}
        given["cluster"] = {
            "kubeconfig": str(self.cluster.kubeconfig("waggle", server=api_server)),
            **given.get("cluster", {}),
        }
        given["holds"] = {"verify_seconds": 0.5, **given.get("holds", {})}
        config.write_text(yaml.safe_dump(given), encoding="utf-8")
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", config, "--url-file", told]
        command += [f"--record={self.recording}"] if self.recording is not None else []
        self.waggle = Process("waggle", command, self.folder / "waggle.log")
        self._until(told.exists, self.waggle, "Waggle does not serve")
        self.waggle_url = self.gate.extender = told.read_text(encoding="utf-8")
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        assert self.waggle is not None
        self._until(lambda: self.ask_waggle("/readyz", strict=False), self.waggle, "Waggle is not ready")

    def start_scheduler(
        self,
        *,
        url: str = "",
        flags: Sequence[str] = (),
        extender: Mapping[str, Any] | None = None,
        wait: bool = True,
    ) -> None:
        """Starts kube-scheduler with the gate as its extender, or whoever serves at `url`.

        `flags` are further ones of `waggle kube-scheduler-config`; `extender` changes fields of what it wrote.
        """
        port = free_port()
        self.scheduler_url = f"https://127.0.0.1:{port}"
        config = write(
            self.folder / f"{self._scheduler_program}.yaml",
            kubeconfig=self.cluster.kubeconfig("kube-scheduler"),
            url=url or self.gate.url,
            flags=flags,
            extender={**self._extender, **(extender or {})},
            profiles=self._profiles,
            json_only=self.cluster.name == "embedded",
            **self._configuration,
        )
        command = [
            self._programs[self._scheduler_program],
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/configz",
            "--v=3",
            *self._scheduler_flags,
        ]
        self.scheduler = Process("kube-scheduler", command, self.folder / f"{self._scheduler_program}.log")
        if wait:
            self._until(self._scheduler_is_healthy, self.scheduler, "kube-scheduler is not ready")

    def run(self, name: str, command: Sequence[str | Path]) -> Process:
        """Another process, which ends with this world."""
        process = Process(name, command, self.folder / f"{name}.log")
        self._others.append(process)
        return process

    def _scheduler_is_healthy(self) -> bool:
        """Ready means that its informers have delivered, too. Versions before 1.32 have no /readyz."""
        with suppress(httpx.TransportError), httpx.Client(verify=False) as client:
            answer = client.get(f"{self.scheduler_url}/readyz")
            if answer.status_code == 404:
                answer = client.get(f"{self.scheduler_url}/healthz")
            return answer.status_code == 200
        return False

    def _until(self, condition: Callable[[], Any], process: Process, what: str) -> None:
        def checked() -> Any:
            process.check()
            return condition()

        eventually(checked, lambda: f"{what}; {process.last_words()}")

    def close(self) -> None:
        for process in (self.scheduler, *self._others, self.waggle):
            if process is not None:
                process.stop()
        self.gate.__exit__(None, None, None)
        self.http.close()

    def check(self) -> None:
        """Raises ProcessError if kube-scheduler or Waggle has ended by itself."""
        for process in (self.scheduler, self.waggle):
            if process is not None:
                process.check()

    def ask_waggle(self, path: str, *, strict: bool = True) -> Any:
        """One of Waggle's pages; None if it does not answer 200, unless `strict`."""
        try:
            answer = httpx.get(f"{self.waggle_url}{path}", timeout=30, verify=self._trust)
        except httpx.TransportError:
            if strict:
                raise
            return None
        return describe(answer) if strict else (answer.json() if answer.is_success else None)

    def explain(self, name: str) -> Any:
        """Waggle's page about one pod."""
        return self.ask_waggle(f"/v1/explain/{self.namespace}/{name}")

    def counted(self, metric: str) -> dict[str, float]:
        """One of Waggle's metrics: value by labels, as Prometheus writes them."""
        lines = httpx.get(f"{self.waggle_url}/metrics", timeout=30, verify=self._trust).text.splitlines()
        mine = [line.rpartition(" ") for line in lines if line.startswith((f"{metric} ", f"{metric}{{"))]
        return {name.removeprefix(metric): float(value) for name, _, value in mine}

    def filters(self, *pods: str) -> int:
        """How often kube-scheduler has filtered these pods."""
        return len(self.gate.calls_of("filter", *pods))

    def story(self) -> str:
        """All pods, calls and events, for assertions that fail."""
        pods = [f"{pod['metadata']['name']} on {pod['spec'].get('nodeName')}" for pod in self.list("Pod")]
        calls = [f"{call.at:.3f} {call.verb} {call.pod} {call.nodes} -> {call.answer}" for call in self.gate.calls]
        events = [
            f"{e['involvedObject']['name']}: {e['reason']} {e.get('message') or e.get('note')}"
            for e in self.list("Event")
        ]
        return "\n".join([*pods, *calls, *events])

    def quiet(self, *, seconds: float = 0.6) -> int:
        """Waits until kube-scheduler has called nobody for so long; the number of calls until then."""

        def rested() -> bool:
            calls = self.gate.calls
            return not calls or (time.monotonic() - calls[-1].at > seconds and all(each.ended for each in calls))

        eventually(rested, lambda: f"quiet: {len(self.gate.calls)} calls, {self.gate.calls[-4:]}")
        return len(self.gate.calls)

    # -- the end ----------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Removes all that tests create, and forgets what was seen of it."""
        self.gate.forget()
        self.remove_all()
        if self.waggle is not None and self.waggle.alive:
            eventually(self._waggle_knows_nothing, "Waggle has forgotten all")
        self.enter_namespace()
        self.gate.forget()

    def _waggle_knows_nothing(self) -> bool:
        pods = self.ask_waggle("/v1/inspect/pods", strict=False)
        nodes = self.ask_waggle("/v1/inspect/nodes", strict=False)
        return pods is not None and not pods["items"] and nodes is not None and not nodes["items"]


@contextmanager
def world(
    cluster: Cluster, programs: Mapping[str, Path], *, waggle: bool = True, start: bool = True, **given: Any
) -> Iterator[RealCluster]:
    """A RealCluster with its processes running; `waggle` False: the gate plays the extender."""
    w = RealCluster(cluster, programs, **given)
    try:
        if start:
            if waggle:
                w.start_waggle(wait=False)
            w.start_scheduler()
            if waggle:
                w.wait_ready()
        yield w
        w.check()
        assert not w.overcommitted()
    finally:
        try:
            w.clear()
        finally:
            w.close()


__all__ = ["GPU", "Gate", "Object", "ProcessError", "RealCluster", "eventually", "world"]
