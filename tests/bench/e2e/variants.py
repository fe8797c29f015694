"""What is compared: one kube-scheduler on one control plane, without and with Waggle.

    configuration       what `waggle kube-scheduler-config` writes (all nodes are offered), without limit of requests
                        ditto, with kube-scheduler's own sample of the nodes, in clusters that are larger than that
                        ditto, with the limit of requests that kube-scheduler has if nobody says otherwise
    extender            none; filter; filter and bind; filter and bind with mutual TLS, which is what is shipped

Within a configuration nothing differs but the extender. Its own limit of 50 requests a second to the API server is what
kube-scheduler mostly waits for, so it is lifted where the extender is to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.certificates import Authority, Pair
from tests.e2e.cluster import Cluster
from tests.e2e.processes import Process
from tests.e2e.world import RealCluster

#: Requests a second that kube-scheduler may send to the API server (and twice that in a burst): if nobody says
#: otherwise, and where it is not to be held up.
_USUAL, _UNLIMITED = 50, 10_000
#: In a cluster of at most so many nodes kube-scheduler looks at all of them anyway.
_SAMPLED_FROM = 100


@dataclass(frozen=True)
class Configuration:
    """What kube-scheduler is told beside its extender: `changed` fields of the KubeSchedulerConfiguration.

    `pods`: how many are bound, of those that are otherwise; for what takes long.
    """

    name: str
    changed: Mapping[str, Any] = field(default_factory=dict)
    limited: bool = False
    pods: float = 1.0

    def tells_something(self, nodes: int, smallest: int) -> bool:
        """Whether it is measured in a cluster of so many nodes, where the smallest cluster has so many."""
        return nodes == smallest if self.limited else not self.changed or nodes > _SAMPLED_FROM


ALL_NODES = Configuration("all nodes")
SAMPLE = Configuration("its own sample", {"percentageOfNodesToScore": None})
LIMITED = Configuration("50 requests/s", limited=True, pods=0.5)


@dataclass(frozen=True)
class Variant:
    """`extender` changes fields of the extender; None: there is none."""

    configuration: Configuration
    name: str
    extender: Mapping[str, Any] | None = field(default_factory=dict)
    tls: bool = False

    @property
    def waggle(self) -> bool:
        return self.extender is not None


NONE, FILTER, BIND, BIND_TLS = "no extender", "filter", "filter + bind", "filter + bind, mTLS"
_FILTER_ONLY = {"bindVerb": None}
GANGS = Variant(ALL_NODES, BIND)
VARIANTS = (
    Variant(ALL_NODES, NONE, None),
    Variant(ALL_NODES, FILTER, _FILTER_ONLY),
    Variant(ALL_NODES, BIND),
    Variant(ALL_NODES, BIND_TLS, tls=True),
    Variant(SAMPLE, NONE, None),
    Variant(SAMPLE, FILTER, _FILTER_ONLY),
    Variant(SAMPLE, BIND),
    Variant(LIMITED, NONE, None),
    Variant(LIMITED, FILTER, _FILTER_ONLY),
    Variant(LIMITED, BIND_TLS, tls=True),
)


def variants_for(nodes: int, smallest: int) -> list[Variant]:
    """Those that tell something in a cluster of so many nodes."""
    return [variant for variant in VARIANTS if variant.configuration.tells_something(nodes, smallest)]


class Stage:
    """One namespace of the cluster with one variant, whose servers run only while they are measured."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Path], variant: Variant) -> None:
        self.variant = variant
        folder = "-".join(re.findall(r"\w+", f"bench {variant.configuration.name} {variant.name}"))
        self._flags = ["--qps", str(_USUAL if variant.configuration.limited else _UNLIMITED)]
        self._server: dict[str, Any] = {}
        identity = self._secure(cluster.folder / folder) if variant.tls else None
        self.world = RealCluster(
            cluster,
            programs,
            scheduler_flags=["--v=0"],
            extender=variant.extender,
            configuration={**variant.configuration.changed, **({} if variant.waggle else {"extenders": []})},
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
