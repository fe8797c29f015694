"""Pods are placed by Waggle and bound by it, whoever asks and whoever keeps the books."""

from __future__ import annotations

from tests.e2e.matrix import Entry, every_entry
from tests.e2e.world import RealCluster, eventually

pytestmark = every_entry


def test_a_pod_is_bound_where_waggle_says(w: RealCluster) -> None:
    w.nodes(3)
    w.pod("p", gpus=2)
    node = w.place("p")
    [told] = w.ask_waggle(f"/v1/inspect/pods?namespace={w.namespace}")["items"]
    assert (told["name"], told["node"]) == ("p", node)
    [bind] = w.gate.calls_of("bind", "p")
    assert bind.nodes == [node]
    assert bind.answer == {"Error": ""}


def test_its_event_says_so(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("p")
    w.place("p")
    event = eventually(lambda: w.events("p", "Scheduled"), "the event is written")[0]
    assert f"Successfully assigned {w.namespace}/p to n0" in (event.get("message") or event.get("note"))


def test_kubelets_see_it_run(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("p")
    w.place("p")
    eventually(lambda: (w.get("p") or {"status": {}})["status"].get("phase") == "Running", "it runs")


def test_many_pods_fill_the_cluster_and_not_one_more(w: RealCluster) -> None:
    w.nodes(4, gpus=8)
    names = [f"p{i}" for i in range(20)]
    for name in names:
        w.pod(name, gpus=2)

    def settled() -> bool:
        return sum(map(bool, w.places(names))) == 16 and all(
            w.node_of(name) or w.condition(name).get("status") == "False" for name in names
        )

    eventually(settled, lambda: f"16 of 20 are placed, 4 refused: {w.places(names)}")
    assert not w.overcommitted()


def test_small_pods_are_packed_so_that_whole_nodes_stay_free(w: RealCluster) -> None:
    w.nodes(4, gpus=8)
    names = [f"p{i}" for i in range(4)]
    for name in names:
        w.pod(name, gpus=2)
    assert len(set(w.all_placed(names))) == 1


def test_kube_schedulers_own_rules_still_hold(w: RealCluster) -> None:
    w.node("n0", labels={"zone": "a"})
    w.node("n1", labels={"zone": "b"})
    w.pod("p", gpus=1, nodeSelector={"zone": "b"})
    assert w.place("p") == "n1"
    assert w.gate.calls_of("filter", "p")[0].nodes == ["n1"]


def test_controllers_make_pods_and_they_are_placed(w: RealCluster) -> None:
    w.nodes(2)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": w.pod_spec(gpus=4)}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    w.create({"kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec})
    eventually(lambda: len(w.list("Pod")) == 3, "three pods exist")
    w.all_placed([pod["metadata"]["name"] for pod in w.list("Pod")])


def test_a_node_that_comes_later_is_used(w: RealCluster, entry: Entry) -> None:
    w.pod("p", gpus=1)
    w.refused("p")
    w.node("late")
    assert w.place("p") == "late"
