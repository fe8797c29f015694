"""What is compared: one kube-scheduler on one control plane, without and with Waggle.

All variants get the very configuration that `waggle kube-scheduler-config` writes, with a limit of requests so high
that it is never reached (kube-scheduler's own 50 a second would be what is measured), and differ in what is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.certificates import Authority, Pair
from tests.e2e.cluster import Cluster
from tests.e2e.processes import Process
from tests.e2e.world import World

#: Requests a second that kube-scheduler may send to the API server.
QPS = 10_000


@dataclass(frozen=True)
class Variant:
    """`extender` and `configuration` change fields of the extender and of the KubeSchedulerConfiguration.

    `tls`: kube-scheduler and Waggle show each other certificates, as in everything that is shipped.
    """

    name: str
    waggle: bool = True
    tls: bool = False
    extender: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)


#: As people have it who have no extender: a sample of the nodes is looked at (all of 100, 420 of 1,000).
BARE = Variant("no extender", waggle=False, configuration={"extenders": [], "percentageOfNodesToScore": None})
#: All nodes, as they are offered to Waggle.
BARE_ALL = Variant("ditto, all nodes", waggle=False, configuration={"extenders": []})
FILTER = Variant("filter", extender={"bindVerb": None})
BIND = Variant("filter + bind")
BIND_TLS = Variant("ditto, mutual TLS", tls=True)
VARIANTS = (BARE, BARE_ALL, FILTER, BIND, BIND_TLS)


class Stage:
    """One namespace of the cluster with one variant, whose servers run only while they are measured."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Path], variant: Variant) -> None:
        self.variant = variant
        folder = f"bench-{variant.name.replace(' ', '')}"
        self._flags = ["--qps", str(QPS)]
        self._server: dict[str, Any] = {}
        identity = self._secure(cluster.folder / folder) if variant.tls else None
        self.world = World(
            cluster,
            programs,
            scheduler_flags=["--v=0"],
            extender=variant.extender,
            configuration=variant.configuration,
            identity=identity,
            folder=folder,
        )

    def _secure(self, folder: Path) -> tuple[Path, Pair]:
        """Certificates for Waggle and for kube-scheduler; whom the bench itself trusts as Waggle, and what it shows."""
        authority = Authority(folder / "certificates", "waggle-ca")
        serving, client = authority.server("waggle-server"), authority.client("scheduler", "kube-scheduler")
        ca = authority.certificate
        self._server["tls"] = {
            "cert_file": str(serving.certificate),
            "key_file": str(serving.key),
            "client_ca_file": str(ca),
        }
        self._flags += ["--ca-file", str(ca), "--cert", str(client.certificate), "--key", str(client.key)]
        return ca, client

    @property
    def pods(self) -> str:
        """The path of the namespace's pods."""
        return f"/api/v1/namespaces/{self.world.namespace}/pods"

    @property
    def servers(self) -> dict[str, Process]:
        """What runs here of its own, by name."""
        running = {"kube-scheduler": self.world.scheduler, "Waggle": self.world.waggle}
        return {name: process for name, process in running.items() if process is not None and process.alive}

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Waggle, if it takes part, is ready; everything ends with the block. kube-scheduler is started in it."""
        try:
            if self.variant.waggle:
                self.world.start_waggle(server={"port": self.world.waggle_port, **self._server})
            yield
            self.world.check()
        finally:
            for process in (self.world.scheduler, self.world.waggle):
                if process is not None:
                    process.stop()

    def start_scheduler(self, *, wait: bool) -> None:
        self.world.start_scheduler(url=self.world.waggle_url, flags=self._flags, wait=wait)

    def close(self) -> None:
        self.world.close()
