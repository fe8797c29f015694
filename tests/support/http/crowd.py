"""A cluster that `packing` divides, with pods of several namespaces, gangs, pods that wait and one that preempts.

The page's tables are tried with it. Its clock stands, and it has an hour of samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pairs, Pod
from algorithm.packing import PackingAlgorithm, PackingSettings
from extender.scheduling.events import Candidate, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy, PreemptionMode
from extender.server.runtime import Runtime
from extender.server.usage import EVERY, KEPT, Taken, UsageSample
from tests.support.http.page import on_port

GPU = "example.com/gpu"
EVIL = "<img src=x onerror=document.title='owned'>"


class Crowd:
    """`count` nodes of 8 devices. Half of the namespaces' pods are in gangs of four; every fifth pod waits."""

    def __init__(self, nodes: int = 12, pods: int = 120, namespaces: int = 3, evil: str = "") -> None:
        policy = Policy(preemption=PreemptionMode.KUBE_SCHEDULER)
        machine = SchedulerStateMachine(PackingAlgorithm(PackingSettings()), policy, epoch=time.time() - 100.0)
        self.runtime = Runtime(machine, lambda command: None, clock=lambda: 100.0)
        self.names = [f"gpu-{number:04}" for number in range(nodes)]
        room = (("cpu", 64_000), (GPU, 8), ("memory", 512 << 30), ("pods", 110))
        zones = [(("topology.kubernetes.io/zone", f"zone-{number % 4}"),) for number in range(nodes)]
        self.runtime.handle(
            *[
                NodeSeen(Node(name=name, uid=name, labels=zone, allocatable=room, ready=number != 1))
                for number, (name, zone) in enumerate(zip(self.names, zones, strict=True))
            ]
        )
        self.runtime.handle(*[PodSeen(self.pod(number, namespaces, evil)) for number in range(pods)], Synced())
        self._sample(nodes)

    def pod(self, number: int, namespaces: int, evil: str) -> Pod:
        gang: Pairs = (("waggle.dev/gang", f"gang-{number // 12}{evil}"),) if number % 2 else ()
        waits = number % 5 == 4
        return Pod(
            namespace=f"team-{number % namespaces}{evil}",
            name=f"pod-{number:05}{evil}",
            uid=f"uid-{number}",
            node_name="" if waits else self.names[number % len(self.names)],
            requests=(("cpu", 500), (GPU, 1 if not waits else 9)),
            priority=number % 3,
            annotations=gang,
            created=f"2026-01-{1 + number % 28:02}T00:00:00Z",
        )

    def preempt(self) -> None:
        """A pod of high priority takes the place of another one."""
        low = Pod(namespace="low", name="victim", uid="v", node_name="last", requests=((GPU, 8),), priority=1)
        high = Pod(namespace="high", name="winner", uid="w", requests=((GPU, 8),), priority=9)
        last = Node(name="last", uid="last", allocatable=((GPU, 8), ("pods", 110)))
        self.runtime.handle(NodeSeen(last), PodSeen(low), PodSeen(high))
        assert self.runtime.filter(high, SuggestedNodes(["last"])).node is None
        assert self.runtime.preempt(high, (Candidate("last"),)).candidates
        self.runtime.handle(PodGone("low", "victim", "v"))
        assert self.runtime.filter(high, SuggestedNodes(["last"])).node == "last"

    def ask(self, number: int, namespaces: int = 3) -> None:
        """kube-scheduler asks about a pod that waits."""
        self.runtime.filter(self.pod(number, namespaces, ""), SuggestedNodes(self.names))

    def _sample(self, nodes: int) -> None:
        now = time.time()
        for number in range(KEPT):
            taken = Taken(GPU, (5 * number) % (8 * nodes), 8 * nodes)
            at = now - (KEPT - 1 - number) * EVERY
            self.runtime.model.usage.add(UsageSample(at, number, 40, 2, number, (taken,)))


@contextmanager
def crowded(crowd: Crowd) -> Iterator[str]:
    """Its URL."""
    try:
        with on_port(crowd.runtime, "packing") as url:
            yield url
    finally:
        crowd.runtime.stop()
