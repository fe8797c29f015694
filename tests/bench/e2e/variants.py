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

from tests.e2e.cluster import Cluster
from tests.e2e.processes import Process
from tests.e2e.world import World

#: Requests a second that kube-scheduler may send to the API server.
QPS = 10_000


@dataclass(frozen=True)
class Variant:
    """`extender` and `configuration` change fields of the extender and of the KubeSchedulerConfiguration."""

    name: str
    waggle: bool = True
    extender: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)


#: As people have it who have no extender: a sample of the nodes is looked at (all of 100, 420 of 1,000).
BARE = Variant("no extender", waggle=False, configuration={"extenders": [], "percentageOfNodesToScore": None})
#: All nodes, as they are offered to Waggle.
BARE_ALL = Variant("ditto, all nodes", waggle=False, configuration={"extenders": []})
FILTER = Variant("filter", extender={"bindVerb": None})
BIND = Variant("filter + bind")
VARIANTS = (BARE, BARE_ALL, FILTER, BIND)


class Stage:
    """One namespace of the cluster with one variant, whose servers run only while they are measured."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Path], variant: Variant) -> None:
        self.variant = variant
        self.world = World(
            cluster,
            programs,
            scheduler_flags=["--v=0"],
            extender=variant.extender,
            configuration=variant.configuration,
            folder=f"bench-{variant.name.replace(' ', '')}",
        )

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
                self.world.start_waggle()
            yield
            self.world.check()
        finally:
            for process in (self.world.scheduler, self.world.waggle):
                if process is not None:
                    process.stop()

    def start_scheduler(self, *, wait: bool) -> None:
        self.world.start_scheduler(url=self.world.waggle_url, flags=["--qps", str(QPS)], wait=wait)

    def close(self) -> None:
        self.world.close()
