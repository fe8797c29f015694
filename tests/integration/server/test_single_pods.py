"""Single pods from creation to binding: kube-scheduler, Waggle and an API server over real sockets."""

from __future__ import annotations

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world

GPU = "example.com/gpu"
#: kube-scheduler leaves GPUs to Waggle, so that refusals are ours and not in-tree.
OURS = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}


def gpus(amount: int) -> dict[str, object]:
    resources = {"requests": {GPU: str(amount), "cpu": "100m"}, "limits": {GPU: str(amount)}}
    return {"containers": [{"name": "c", "image": "pause", "resources": resources}]}


@pytest.mark.parametrize("names_only", [True, False], ids=["names", "nodes"])
def test_pods_are_placed_until_no_room_is_left(names_only: bool):
    with world(nodes=3, scheduler=True, extender={"nodeCacheCapable": names_only, **OURS}) as w:
        names = [f"p{i}" for i in range(13)]
        for name in names:
            w.pod(name, **gpus(2))
        w.settle()

        [waiting] = [name for name in names if not w.node_of(name)]
        assert "3 insufficient example.com/gpu" in w.message(waiting)


def test_a_refused_pod_is_not_tried_while_nothing_changes():
    with world(nodes=2, scheduler=True, extender=OURS) as w:
        for name in ("a", "b", "c"):
            w.pod(name, **gpus(8))
        w.settle()
        [waiting] = [name for name in ("a", "b", "c") if not w.node_of(name)]
        before = w.witness.calls(waiting)

        for i in range(5):
            w.cluster.patch("nodes", "n0", {"metadata": {"labels": {"round": str(i)}}})
            w.settle()

        assert before <= 4
        assert w.witness.calls(waiting) - before <= 5, "at most once for each change of a node"
        message = w.message(waiting)
        w.settle()
        assert w.message(waiting) == message


def test_a_deleted_pod_makes_room_for_a_waiting_one():
    with world(nodes=1, scheduler=True, extender=OURS) as w:
        w.pod("first", **gpus(8))
        w.settle()
        w.pod("second", **gpus(8))
        w.settle()
        assert not w.node_of("second")

        w.cluster.delete("pods", "first")

        w.until(lambda: w.node_of("second") == "n0")


def test_a_completed_pod_makes_room_for_a_waiting_one():
    with world(nodes=1, scheduler=True, extender=OURS) as w:
        w.pod("job", annotations={"waggle.dev/run-seconds": "0.3"}, **gpus(8))
        w.until(lambda: w.node_of("job"))
        w.pod("next", **gpus(8))

        w.until(lambda: w.node_of("next") == "n0")
        assert w.get("job")["status"]["phase"] == "Succeeded"


def test_a_new_node_takes_the_pods_that_wait():
    with world(nodes=1, scheduler=True, extender=OURS) as w:
        for name in ("a", "b"):
            w.pod(name, **gpus(8))
        w.settle()

        w.node("n1")

        w.until(lambda: sorted(w.places(["a", "b"])) == ["n0", "n1"])


def test_a_pod_proposed_for_a_node_that_is_deleted_is_proposed_elsewhere():
    with world(nodes=2) as w:
        w.pod("p")
        first = w.propose("p")

        w.cluster.delete("nodes", first)
        w.until(lambda: [e.state for e in w.waggle.pod_infos()] == ["Waiting"])

        assert "never proposed" in w.bind("p", first)
        assert w.place("p") in {"n0", "n1"} - {first}


def test_an_unschedulable_pod_is_explained_as_its_condition_says():
    with world(nodes=2, scheduler=True, extender=OURS) as w:
        for name in ("a", "b", "c"):
            w.pod(name, **gpus(8))
        w.settle()
        [waiting] = [name for name in ("a", "b", "c") if not w.node_of(name)]

        found = w.waggle.client.get(f"/v1/explain/default/{waiting}").json

        assert found["reason"]["code"] in ("NoNodeFits", "InsufficientResource")
        for each in found["nodes"].values():
            assert each["text"] in w.message(waiting)


def test_a_high_priority_pod_preempts_only_who_is_needed():
    with world(nodes=2, scheduler=True) as w:
        for i in range(4):
            w.pod(f"low{i}", **gpus(4))
        w.settle()
        w.pod("high", priority=1000, **gpus(4))

        w.until(lambda: w.node_of("high"))
        w.settle()
        left = [pod["metadata"]["name"] for pod in w.cluster.objects("pods")]
        assert len(left) == 4, left
        assert w.waggle.counted("victims") == {"proposed": 1}


def test_equal_priority_is_not_preempted():
    with world(nodes=1, scheduler=True, extender=OURS) as w:
        w.pod("first", priority=10, **gpus(8))
        w.settle()
        w.pod("second", priority=10, **gpus(8))
        w.settle()

        assert w.places(["first", "second"]) == ["n0", ""]


def test_preemption_is_done_by_the_server_itself_where_kube_scheduler_does_not_see_the_resource():
    with world(nodes=1, scheduler=True, extender=OURS, preemption={"mode": "direct"}) as w:
        w.pod("low", **gpus(8))
        w.settle()
        w.pod("high", priority=1000, **gpus(8))

        w.until(lambda: w.node_of("high") == "n0")
        assert w.waggle.counted("evictions") == {"done": 1}


class TestPodsOfOthers:
    """pods.scheduler_names: they pass untouched, are counted, and may be bound through us."""

    SETTINGS = {"pods": {"scheduler_names": ["default-scheduler"]}}  # noqa: RUF012

    def test_they_pass_every_node(self):
        with world(nodes=3, **self.SETTINGS) as w:
            w.pod("theirs", schedulerName="other")

            assert w.filter("theirs")["NodeNames"] == ["n0", "n1", "n2"]
            assert w.waggle.pod_infos() == []

    def test_they_are_bound_through_us_and_counted(self):
        with world(nodes=1, scheduler=True, **self.SETTINGS) as w:
            w.pod("theirs", cpu="3", schedulerName="other")
            w.until(lambda: w.node_of("theirs") == "n0")
            w.settle()
            w.pod("ours", cpu="2")
            w.until(lambda: w.condition("ours"))

            assert not w.node_of("ours")
            assert w.waggle.counted("binds") == {"done": 1}

    def test_what_somebody_else_bound_is_counted(self):
        with world(nodes=2, **self.SETTINGS) as w:
            w.pod("theirs", cpu="4", schedulerName="other", nodeName="n0")
            w.until(lambda: [e.state for e in w.waggle.pod_infos()] == ["Bound"])
            w.pod("ours", cpu="4")

            assert w.place("ours") == "n1"

    def test_one_of_theirs_can_be_preempted(self):
        with world(nodes=1, scheduler=True, **self.SETTINGS) as w:
            w.pod("theirs", schedulerName="other", **gpus(8))
            w.until(lambda: w.node_of("theirs"))
            w.settle()
            w.pod("ours", priority=1000, **gpus(8))

            w.until(lambda: w.node_of("ours") == "n0")


def test_a_pod_that_the_informer_has_not_shown_yet_is_placed():
    with world(nodes=1) as w:
        held = _without_pod_events(w)
        w.pod("p")
        node = w.propose("p")
        assert w.bind("p", node) == ""
        assert not any(e.informed for e in w.waggle.pod_infos())
        held()
        w.until(lambda: all(e.informed for e in w.waggle.pod_infos()))


def _without_pod_events(w: LocalCluster):
    """The pod informer's connection breaks and is refused; the function returned ends that."""
    w.faults.inject("status", method="WATCH", path="/api/v1/pods", status=503, times=None)
    w.faults.inject("status", method="LIST", path="/api/v1/pods", status=503, times=None)
    w.waggle.service._pods._exchange.interrupt()
    return w.faults.clear
