"""A real kube-scheduler on the embedded API server, with Waggle as its extender: all three as processes of their own.

Takes the kube-scheduler that WAGGLE_KUBE_SCHEDULER names (1.34 or newer), else the one that `make e2e` has built.
Skipped where there is neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from extender.demo.cast import Cast
from extender.demo.workloads import GPU, nodes
from tests.e2e.build import find
from tests.support.apiserver.api import Api, eventually

_BINARY = os.environ.get("WAGGLE_KUBE_SCHEDULER") or find("kube-scheduler")
pytestmark = [
    pytest.mark.skipif(not _BINARY, reason="no kube-scheduler: make e2e builds one"),
    pytest.mark.xdist_group("real-kube-scheduler"),
]
#: What it says on every start against any API server, when it is given no flags for authentication.
_USUAL = re.compile(r"manifest file is empty|FLAG|authentication.go|authorization.go")


class RealScheduler:
    def __init__(self, cast: Cast) -> None:
        self.cast, self.api = cast, Api(cast.cluster_url)

    def pod(self, name: str, gpus: int, *, priority: str = "", gang: str = "") -> None:
        annotations = {"waggle.dev/gang": gang.partition(":")[0], "waggle.dev/gang-min": gang.partition(":")[2]}
        amounts = {GPU: str(gpus), "cpu": "1"}
        container = {"name": "main", "image": "pause:3", "resources": {"requests": amounts, "limits": amounts}}
        metadata = {"name": name, **({"annotations": annotations} if gang else {})}
        spec = {"containers": [container], **({"priorityClassName": priority} if priority else {})}
        created = self.api.post("pods", {"metadata": metadata, "spec": spec})
        assert created.status_code == 201, created.text

    def get(self, name: str) -> dict[str, Any]:
        response = self.api.get(f"pods/{name}")
        return response.json() if response.status_code == 200 else {}

    def node_of(self, *names: str) -> list[str]:
        """The nodes of pods that all run; empty while one does not."""
        pods = [self.get(name) for name in names]
        if any(pod.get("status", {}).get("phase") != "Running" for pod in pods):
            return []
        return [pod["spec"]["nodeName"] for pod in pods]

    def clear(self) -> None:
        self.api.delete("pods", gracePeriodSeconds=0)
        eventually(lambda: not self.api.names("pods"))

    def complaints(self) -> list[str]:
        lines = (self.cast.folder / "kube-scheduler.log").read_text().splitlines()
        return [line for line in lines if re.match(r"[EWF]\d{4} ", line) and not _USUAL.search(line)]


@pytest.fixture(scope="module")
def running() -> Iterator[RealScheduler]:
    with closing(Cast(port=0, verbose=False, kube_scheduler=Path(str(_BINARY)))) as cast:
        cast.start_cluster(nodes(4))
        for name, value in (("low", 1), ("high", 1000)):
            cast.create({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
        cast.start_waggle()
        cast.start_scheduler()
        cast.wait_ready()
        world = RealScheduler(cast)
        yield world
        world.api.close()
        cast.check()


@pytest.fixture
def world(running: RealScheduler) -> Iterator[RealScheduler]:
    yield running
    complaints = running.complaints()
    running.clear()
    assert not complaints


def test_pods_are_placed_by_waggle(world: RealScheduler) -> None:
    for i in range(3):
        world.pod(f"single-{i}", 2)
    placed = eventually(lambda: world.node_of("single-0", "single-1", "single-2"))
    assert len(set(placed)) == 1, "packing puts small pods together"
    known = {each["name"]: each["node"] for each in world.cast.waggle("/v1/inspect/pods")["items"]}
    assert [known[f"single-{i}"] for i in range(3)] == placed


def test_a_gang_starts_as_a_whole(world: RealScheduler) -> None:
    names = [f"gang-{i}" for i in range(4)]
    for name in names[:3]:
        world.pod(name, 8, gang="g:4")
    eventually(lambda: all(_refused(world.get(name)) for name in names[:3]))
    world.pod(names[3], 8, gang="g:4")
    placed = eventually(lambda: world.node_of(*names))
    assert len(set(placed)) == 4


def test_a_pod_of_high_priority_takes_a_place_that_is_nominated_for_it(world: RealScheduler) -> None:
    names = [f"filler-{i}" for i in range(4)]
    for name in names:
        world.pod(name, 8, priority="low")
    eventually(lambda: world.node_of(*names))
    with world.api.watch("pods", fieldSelector="metadata.name=urgent", timeoutSeconds=60) as events:
        world.pod("urgent", 8, priority="high")
        nominated, chosen = "", ""
        for event in events:
            nominated = event["object"]["status"].get("nominatedNodeName") or nominated
            chosen = event["object"]["spec"].get("nodeName", "")
            if chosen:
                break
    assert nominated == chosen != ""
    eventually(lambda: len(world.api.names("pods")) == 4)
    eventually(lambda: world.node_of("urgent"))


def test_a_stateful_set_is_scheduled_pod_by_pod_and_scaled(world: RealScheduler) -> None:
    container = {"name": "main", "image": "pause:3", "resources": {"limits": {GPU: "8"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    assert world.api.post(path, {"metadata": {"name": "web"}, "spec": spec}).status_code == 201
    eventually(lambda: world.node_of("web-0", "web-1"))
    assert world.api.patch(f"{path}/web/scale", {"spec": {"replicas": 3}}).status_code == 200
    eventually(lambda: world.node_of("web-0", "web-1", "web-2"))
    world.api.delete(f"{path}/web")
    eventually(lambda: not world.api.names("pods"))


def test_it_leads_by_a_lease_and_says_what_it_did_in_events(world: RealScheduler) -> None:
    world.pod("said", 1)
    eventually(lambda: world.node_of("said"))
    lease = world.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler").json()
    assert lease["spec"]["holderIdentity"]
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    eventually(lambda: [e for e in world.api.get(events).json()["items"] if e["regarding"]["name"] == "said"])


def _refused(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
