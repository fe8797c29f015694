"""The comparer finds what the informers missed, heals it, and says nothing when all is well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from algorithm.interface import SuggestedNodes
from extender.comparer import CompareError, Comparer
from extender.core.comparison import Kind
from extender.core.events import Event, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from extender.core.lifecycle import Lifecycle
from extender.core.policy import Policy
from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.kube.api import ApiServer
from extender.kube.connection import connect
from extender.runtime import Runtime
from extender.settings import ClusterSettings
from tests.support.objects import node, pod
from tests.support.plain_algorithm import PlainAlgorithm


@dataclass
class Bench:
    cluster: EmbeddedCluster
    api: ApiServer
    heart: Lifecycle
    runtime: Runtime
    comparer: Comparer

    def tell(self, *events: Event) -> None:
        self.runtime.handle(*events)

    def live_node(self, name: str) -> None:
        """A node that the API server and the heart know."""
        made = self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        self.tell(NodeSeen(node(name).__class__(name=name, uid=made["metadata"]["uid"])))

    def live_pod(self, name: str, on: str = "") -> str:
        """A pod that only the API server knows; returns its UID."""
        spec = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": on} if on else {})
        made = self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        uid: str = made["metadata"]["uid"]
        return uid


@pytest.fixture
def bench() -> Iterator[Bench]:
    heart = Lifecycle(PlainAlgorithm())
    runtime = Runtime(heart, lambda _command: None)
    runtime.handle(Synced())
    with serve_in_thread() as cluster:
        api = connect(ClusterSettings(server=cluster.url))
        comparer = Comparer(api, runtime, Policy(), every=0, grace=0.01)
        yield Bench(cluster, api, heart, runtime, comparer)
        heart.validate()
        api.close()


def test_nothing_differs_when_all_is_well(bench: Bench) -> None:
    bench.live_node("a")
    uid = bench.live_pod("p", on="a")
    bench.tell(PodSeen(pod("p", uid=uid, on="a")))
    assert bench.comparer.run() == []


def test_a_phantom_is_found_and_its_room_is_free_again(bench: Bench) -> None:
    bench.tell(PodSeen(pod("ghost", cpu=4000, on="a")), NodeSeen(node("b")))
    found = {(d.resource, d.kind, d.name) for d in bench.comparer.run()}
    assert found == {("pods", Kind.PHANTOM, "ghost"), ("nodes", Kind.PHANTOM, "b")}
    assert bench.runtime.pods() == []
    assert bench.comparer.run() == []


def test_a_pod_and_a_node_that_were_missed_are_told(bench: Bench) -> None:
    bench.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    bench.live_pod("bound", on="a")
    bench.live_pod("waits")
    assert {(d.name, d.kind) for d in bench.comparer.run()} == {
        ("a", Kind.MISSING),
        ("bound", Kind.MISSING),
        ("waits", Kind.MISSING),
    }
    assert {view.name: view.state for view in bench.runtime.pods()} == {"bound": "Bound", "waits": "Waiting"}
    assert bench.comparer.run() == []


def test_a_pod_believed_elsewhere_is_moved(bench: Bench) -> None:
    uid = bench.live_pod("p", on="a")
    bench.tell(PodSeen(pod("p", uid=uid, on="b", version=1)))
    assert [d.kind for d in bench.comparer.run()] == [Kind.MISPLACED]
    assert [view.node for view in bench.runtime.pods()] == ["a"]


def test_a_node_that_was_replaced_is_told(bench: Bench) -> None:
    bench.live_node("a")
    bench.tell(NodeGone("a"), NodeSeen(node("a")))
    assert [(d.kind, d.name) for d in bench.comparer.run()] == [(Kind.MISSING, "a")]
    assert bench.comparer.run() == []


def test_a_proposal_is_no_difference(bench: Bench) -> None:
    bench.live_node("a")
    uid = bench.live_pod("p")
    bench.tell(
        NodeSeen(node("a", cpu=4000).__class__(name="a", uid=bench.cluster.get("nodes", "a")["metadata"]["uid"]))
    )
    bench.tell(PodSeen(pod("p", uid=uid, cpu=0)))
    assert bench.runtime.filter(pod("p", uid=uid, cpu=0), SuggestedNodes(["a"])).node == "a"
    assert bench.comparer.run() == []


def test_what_the_informer_catches_up_with_meanwhile_is_no_difference(bench: Bench) -> None:
    uid = bench.live_pod("p", on="a")
    suspects = bench.comparer._suspects
    bench.comparer._suspects = lambda: (suspects(), bench.tell(PodSeen(pod("p", uid=uid, on="a"))))[0]
    assert bench.comparer.run() == []


def test_what_was_healed_is_counted(bench: Bench) -> None:
    bench.tell(PodSeen(pod("ghost", on="a")), PodGone("default", "other", "x"))
    bench.comparer.run()
    healed = next(m for m in bench.comparer.metrics() if m.name == "waggle_cache_healed_total")
    assert [sample for sample in healed.samples if sample[1]] == [({"resource": "pods", "kind": "phantom"}, 1.0)]


def test_an_api_server_that_cannot_be_read_is_said(bench: Bench) -> None:
    bench.cluster.faults.inject("status", method="GET", path="/api/v1/pods", status=500, times=None)
    with pytest.raises(CompareError, match="500"):
        bench.comparer.run()
