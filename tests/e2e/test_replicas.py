"""Two replicas with leader election, as they are shipped: one decides, and when it is gone the other does.

Their pods exist in the API server only, so that the leader's label has somewhere to be; the test stands for the
Service, and leads kube-scheduler to whoever has the label at that moment.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from extender.server.leader_label import LABEL
from tests.e2e.cluster import WAGGLES_NAMESPACE, ControlPlane, describe
from tests.e2e.gate import Call, Reply
from tests.e2e.processes import Process, free_port
from tests.e2e.world import RealCluster, eventually, world

NAMES = ("replica-a", "replica-b")
#: Where a replica that runs in no pod believes to be.
HOME = "/api/v1/namespaces/default/pods"
#: As shipped, but for the patience of a test.
ELECTION = {
    "enabled": True,
    "label_pod": True,
    "namespace": WAGGLES_NAMESPACE,
    "lease_seconds": 2,
    "renew_deadline_seconds": 1.5,
    "retry_seconds": 0.3,
}


class Replicas:
    """Both replicas in front of a world's kube-scheduler."""

    def __init__(self, w: RealCluster) -> None:
        self.w = w
        self.urls: dict[str, str] = {}
        self.processes: dict[str, Process] = {}
        for name in NAMES:
            spec = {"schedulerName": "nobody", "containers": [{"name": "waggle", "image": "waggle"}]}
            describe(w.http.post(HOME, json={"metadata": {"name": name}, "spec": spec}))
            self.start(name)
        w.gate.play(self.serve)

    def start(self, name: str) -> None:
        port = free_port()
        config = self.w.folder / f"{name}.yaml"
        settings = {
            "server": {"port": port},
            "cluster": {"kubeconfig": str(self.w.cluster.kubeconfig("waggle"))},
            "leader_election": {**ELECTION, "identity": name},
        }
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.urls[name] = f"http://127.0.0.1:{port}"
        self.processes[name] = Process(
            name,
            [sys.executable, "-m", "extender.cli", "serve", "--config", config],
            self.w.folder / f"{name}.log",
            environment={"POD_NAME": name},
        )

    def labelled(self) -> list[str]:
        items = describe(self.w.http.get(HOME, params={"labelSelector": LABEL}))["items"]
        return [item["metadata"]["name"] for item in items]

    def leader(self) -> str:
        """Waits for it."""
        found: list[str] = eventually(self.labelled, "one of them leads")
        return found[0]

    def serve(self, call: Call) -> Reply | None:
        """What a Service does: nobody is there, or whoever has the label."""
        found = self.labelled()
        if not found:
            return Reply(drop=True)
        self.w.gate.extender = self.urls[found[0]]
        return None

    def close(self) -> None:
        for process in self.processes.values():
            process.stop()
        for name in NAMES:
            self.w.http.delete(f"{HOME}/{name}", params={"gracePeriodSeconds": "0"})


@pytest.fixture
def replicas(plane: ControlPlane, programs: Mapping[str, Path]) -> Iterator[Replicas]:
    with world(plane, programs, waggle=False, folder="replicas") as w:
        both = Replicas(w)
        try:
            yield both
        finally:
            both.close()


def test_a_leader_that_dies_in_the_middle_of_60_pods_is_followed(replicas: Replicas, record_property) -> None:
    w = replicas.w
    w.nodes(6, gpus=10)
    first = replicas.leader()
    killed = []

    def serve(call: Call) -> Reply | None:
        if call.verb == "bind" and len(w.gate.calls_of("bind")) == 30:
            killed.append(time.monotonic())
            replicas.processes[first].kill()
        return replicas.serve(call)

    w.gate.play(serve)
    names = [f"p{i:02}" for i in range(60)]
    for name in names:
        w.pod(name, gpus=1)
    eventually(lambda: killed, "it was killed in the middle")
    w.all_placed(names)
    record_property("measured", f"60 pods bound {time.monotonic() - killed[0]:.1f} s after kill -9 of the leader")
    assert set(Counter(w.places(names)).values()) == {10}
    assert replicas.labelled() == [name for name in NAMES if name != first]


def test_a_leader_that_ends_in_order_hands_over(replicas: Replicas) -> None:
    w = replicas.w
    w.nodes(2)
    first = replicas.leader()
    w.pod("before", gpus=8)
    taken = w.place("before")
    replicas.processes[first].stop()
    w.pod("after", gpus=8)
    assert w.place("after") != taken
    eventually(lambda: replicas.labelled() not in ([], [first]), "the other one has the label")


def test_who_does_not_lead_refuses_and_says_why(replicas: Replicas) -> None:
    w = replicas.w
    w.nodes(1)
    leader = replicas.leader()
    (other,) = (name for name in NAMES if name != leader)
    w.gate.extender = replicas.urls[other]
    w.gate.play(lambda call: None)
    w.pod("p")
    w.refused("p", "another replica leads")
    assert w.condition("p")["reason"] == "SchedulerError"
    w.gate.play(replicas.serve)
    assert w.place("p") == "n0"
