"""The comparer finds what the informers missed, heals it, and says nothing when all is well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest
from msgspec.structs import replace

from algorithm.decoding import decode_node, decode_pod
from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.kube.client.api import ApiServer, Response
from extender.kube.client.kubeconfig import connect
from extender.scheduling.comparison import Kind
from extender.scheduling.events import Event, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.server.cache_comparer import CacheComparer, CompareError
from extender.server.runtime import Runtime
from extender.settings import ClusterSettings
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm


@dataclass
class Bench:
    cluster: EmbeddedCluster
    api: ApiServer
    machine: SchedulerStateMachine
    runtime: Runtime
    comparer: CacheComparer

    def show(self, *events: Event) -> None:
        self.runtime.handle(*events)

    def live_node(self, name: str) -> None:
        """A node that the API server and the engine know."""
        made = self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        self.show(NodeSeen(decode_node(msgspec.json.encode(made))))

    def record(self, name: str) -> Pod:
        """The pod as the API server has it."""
        return decode_pod(msgspec.json.encode(self.cluster.get("pods", name)))

    def live_pod(self, name: str, on: str = "") -> str:
        """A pod that only the API server knows; returns its UID."""
        spec = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": on} if on else {})
        made = self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        uid: str = made["metadata"]["uid"]
        return uid


@pytest.fixture
def bench() -> Iterator[Bench]:
    engine = SchedulerStateMachine(PlainAlgorithm())
    runtime = Runtime(engine, lambda _command: None)
    runtime.handle(Synced())
    with serve_in_thread() as cluster:
        api = connect(ClusterSettings(server=cluster.url))
        comparer = CacheComparer(api, runtime, Policy(), every=0, grace=0.01)
        yield Bench(cluster, api, engine, runtime, comparer)
        engine.validate()
        api.close()


def test_nothing_differs_when_all_is_well(bench: Bench) -> None:
    bench.live_node("a")
    bench.live_pod("p", on="a")
    bench.show(PodSeen(bench.record("p")))
    assert bench.comparer.run() == []


def test_a_status_that_scheduling_does_not_read_is_no_difference(bench: Bench) -> None:
    bench.live_node("a")
    bench.cluster.patch("nodes", "a", {"status": {"phase": "Running"}}, subresource="status")
    assert bench.comparer.run() == []


def test_a_node_and_a_pod_that_changed_unheard_are_told(bench: Bench) -> None:
    bench.live_node("a")
    bench.live_pod("p", on="a")
    bench.show(PodSeen(bench.record("p")))
    bench.cluster.patch("nodes", "a", {"spec": {"unschedulable": True}})
    bench.cluster.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}})
    assert [(d.name, d.kind, d.detail) for d in bench.comparer.run()] == [
        ("a", Kind.OUTDATED, "unschedulable: not as believed"),
        ("p", Kind.OUTDATED, "labels: not as believed"),
    ]
    assert bench.runtime.model.cache_snapshot().nodes["a"].node.unschedulable
    assert bench.comparer.run() == []


def test_thousands_of_differences_are_healed_without_as_many_reads(bench: Bench) -> None:
    bench.live_node("a")
    for number in range(200):
        bench.live_pod(f"p{number}", on="a")
    reads = bench.cluster.faults.inject("status", method="GET", path="/namespaces/default/pods/", times=None)
    assert len(bench.comparer.run()) == 200
    assert bench.cluster.faults.fired(reads) == 0
    assert bench.comparer.run() == []


def test_what_a_rolled_back_api_server_has_cannot_be_healed_and_asks_for_a_restart(bench: Bench) -> None:
    bench.live_node("a")
    bench.live_pod("p", on="a")
    bench.show(PodSeen(replace(bench.record("p"), resource_version="99999999", labels=(("from", "the future"),))))
    assert [d.kind for d in bench.comparer.run()] == [Kind.OUTDATED]
    assert bench.runtime.liveness().ready
    bench.comparer.run()
    assert "cannot be healed" in bench.runtime.liveness().detail
    unhealed = next(m for m in bench.comparer.metrics() if m.name == "waggle_cache_unhealed_total")
    assert unhealed.samples == [({}, 2.0)]


def test_components_that_disagree_ask_for_a_restart(bench: Bench) -> None:
    bench.live_node("a")
    uid = bench.live_pod("p", on="a")
    bench.show(PodSeen(bench.record("p")))
    forgotten = bench.machine.state.cache.forget(uid)
    bench.comparer.run()
    assert "components disagree: default/p (Bound): cache: it should be added" in bench.runtime.liveness().detail
    counted = next(m for m in bench.comparer.metrics() if m.name == "waggle_cache_inconsistent_total")
    assert counted.samples == [({}, 1.0)]
    bench.machine.state.cache.add_pod(forgotten)


def test_an_object_that_cannot_be_read_is_not_taken_for_gone(bench: Bench) -> None:
    bench.live_node("a")
    bench.live_pod("p", on="a")
    bench.show(PodSeen(bench.record("p")))
    listed, unreadable = bench.comparer._page, Response(200, b'{"metadata":{"resourceVersion":"9"},"items":[{}]}')
    bench.comparer._page = lambda path, query: unreadable if path == "/api/v1/pods" else listed(path, query)
    bench.comparer.run()
    assert [view.name for view in bench.runtime.model.pods()] == ["p"]


def test_a_phantom_is_found_and_its_room_is_free_again(bench: Bench) -> None:
    bench.show(PodSeen(pod("ghost", cpu=4000, on="a")), NodeSeen(node("b")))
    found = {(d.resource, d.kind, d.name) for d in bench.comparer.run()}
    assert found == {("pods", Kind.PHANTOM, "ghost"), ("nodes", Kind.PHANTOM, "b")}
    assert bench.runtime.model.pods() == []
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
    assert {view.name: view.state for view in bench.runtime.model.pods()} == {"bound": "Bound", "waits": "Waiting"}
    assert bench.comparer.run() == []


def test_a_pod_believed_elsewhere_is_moved(bench: Bench) -> None:
    uid = bench.live_pod("p", on="a")
    bench.show(PodSeen(pod("p", uid=uid, on="b", version=1)))
    assert [d.kind for d in bench.comparer.run()] == [Kind.MISPLACED]
    assert [view.node for view in bench.runtime.model.pods()] == ["a"]


def test_a_node_that_was_replaced_is_told(bench: Bench) -> None:
    bench.live_node("a")
    bench.show(NodeGone("a"), NodeSeen(node("a")))
    assert [(d.kind, d.name) for d in bench.comparer.run()] == [(Kind.MISSING, "a")]
    assert bench.comparer.run() == []


def test_a_proposal_is_no_difference(bench: Bench) -> None:
    bench.live_node("a")
    uid = bench.live_pod("p")
    bench.show(
        NodeSeen(node("a", cpu=4000).__class__(name="a", uid=bench.cluster.get("nodes", "a")["metadata"]["uid"]))
    )
    bench.show(PodSeen(pod("p", uid=uid, cpu=0)))
    assert bench.runtime.filter(pod("p", uid=uid, cpu=0), SuggestedNodes(["a"])).node == "a"
    assert bench.comparer.run() == []


def test_what_the_informer_catches_up_with_meanwhile_is_no_difference(bench: Bench) -> None:
    bench.live_pod("p", on="a")
    look = bench.comparer._look
    bench.comparer._look = lambda: (look(), bench.show(PodSeen(bench.record("p"))))[0]
    assert bench.comparer.run() == []


def test_what_was_healed_is_counted(bench: Bench) -> None:
    bench.show(PodSeen(pod("ghost", on="a")), PodGone("default", "other", "x"))
    bench.comparer.run()
    healed = next(m for m in bench.comparer.metrics() if m.name == "waggle_cache_healed_total")
    assert [sample for sample in healed.samples if sample[1]] == [({"resource": "pods", "kind": "phantom"}, 1.0)]


def test_an_api_server_that_cannot_be_read_is_said(bench: Bench) -> None:
    bench.cluster.faults.inject("status", method="GET", path="/api/v1/pods", status=500, times=None)
    with pytest.raises(CompareError, match="500"):
        bench.comparer.run()


def test_an_answer_that_is_no_list_is_said(bench: Bench) -> None:
    bench.cluster.faults.inject("garbage", method="GET", path="/api/v1/nodes", times=None)
    with pytest.raises(CompareError, match="malformed"):
        bench.comparer.run()
