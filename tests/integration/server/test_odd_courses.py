"""Courses of events that are rare, allowed, and once surprised somebody."""

from __future__ import annotations

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world

BINDING = {"method": "POST", "path": "/binding$"}
FOREIGN = {"pods": {"scheduler_names": ["default-scheduler"]}}


def states(w: LocalCluster) -> dict[str, str]:
    return {e.key.name: str(e.state) for e in w.waggle.pod_infos()}


def test_a_bind_that_kube_scheduler_gives_up_waiting_for_is_written_once():
    with world(nodes=3, scheduler=True, extender={"httpTimeout": "400ms"}) as w:
        w.faults.inject("delay", seconds=1.0, times=2, **BINDING)
        for name in ("a", "b"):
            w.pod(name)

        w.until(lambda: w.all_bound(["a", "b"]))
        assert any(record.error for record in w.scheduler.binds())


def test_a_node_deleted_while_a_binding_to_it_is_written():
    with world(nodes=1) as w:
        w.pod("p")
        slow = w.faults.inject("delay", seconds=0.4, **BINDING)
        node, uid = w.propose("p"), w.uid("p")
        outcome = w.waggle.runtime.bind("default", "p", uid, node)
        w.until(lambda: w.faults.fired(slow))
        w.cluster.delete("nodes", node)
        w.until(lambda: node not in {n.name for n in w.waggle.runtime.model.nodes()})

        assert outcome.result(30).error is None
        w.until(lambda: states(w) == {"p": "Bound"})


def test_a_node_that_comes_back_smaller_is_taken_as_it_is():
    with world(nodes=1) as w:
        w.pod("p", cpu="3")
        w.propose("p")
        w.cluster.delete("nodes", "n0")
        w.until(lambda: states(w) == {"p": "Waiting"})
        w.node("n0", cpu="2")

        assert not w.filter("p")["NodeNames"]


def test_a_pod_behind_a_gate_is_placed_when_the_gate_opens():
    with world(nodes=1, scheduler=True) as w:
        w.pod("p", schedulingGates=[{"name": "test/gate"}])
        w.settle()
        assert states(w) == {}

        w.cluster.patch("pods", "p", {"spec": {"schedulingGates": None}})

        w.until(lambda: w.node_of("p"))


def test_a_cordoned_node_takes_nobody_until_it_is_opened():
    with world(nodes=1, scheduler=True) as w:
        w.cluster.patch("nodes", "n0", {"spec": {"unschedulable": True}})
        w.settle()
        w.pod("p")
        w.settle()
        assert not w.node_of("p")

        w.cluster.patch("nodes", "n0", {"spec": {"unschedulable": None}})

        w.until(lambda: w.node_of("p"))


def many_nodes(w: LocalCluster) -> None:
    for number in range(130):
        w.node(f"n{number:03}")


def test_a_gang_among_more_nodes_than_kube_scheduler_offers_at_once():
    with world(prepare=many_nodes, scheduler=True, extender={"percentage": 1}) as w:
        names = w.gang("g", 8, cpu="4")

        w.until(lambda: w.all_bound(names))
        assert {len(call.offered) for call in w.witness.filtered} == {100}


def test_pods_of_others_through_a_storm_of_faults():
    with world(nodes=3, scheduler=True, **FOREIGN) as w:
        w.faults.inject("drop-after", times=2, **BINDING)
        w.faults.inject("drop-before", times=2, skip=2, **BINDING)
        w.faults.inject("status", status=403, times=2, skip=4, **BINDING)
        names = [f"theirs{i}" for i in range(8)]
        for name in names:
            w.pod(name, schedulerName="other")

        w.until(lambda: w.all_bound(names))


def test_pods_of_others_are_placed_after_a_restart():
    with world(nodes=1, **FOREIGN) as w:
        w.pod("theirs", schedulerName="other")
        [node] = w.filter("theirs")["NodeNames"]
        w.stop_waggle()
        w.start_waggle()

        assert "never proposed" in w.bind("theirs", node)
        assert w.place("theirs") == node


@pytest.mark.parametrize(
    ("setting", "ours"),
    [
        ({"annotation": "team/ours"}, {"annotations": {"team/ours": "yes"}}),
        ({"scheduler_names": ["default-scheduler"]}, {}),
    ],
)
def test_only_our_pods_are_refused(setting: dict, ours: dict):
    with world(nodes=1, pods=setting) as w:
        w.pod("ours", cpu="100", **ours)
        w.pod("theirs", cpu="100", schedulerName="other")

        assert w.filter("ours")["NodeNames"] == []
        assert w.filter("theirs")["NodeNames"] == ["n0"]


class TestForceBind:
    def test_after_filters_that_no_bind_followed(self):
        with world(nodes=1, force_bind={"after_filters": 2}) as w:
            w.pod("p")
            for _ in range(3):
                w.propose("p")

            w.until(lambda: w.node_of("p") == "n0")
            assert w.waggle.counted("force_binds") == {"tired": 1}

    def test_at_once_where_the_place_is_no_longer_offered(self):
        with world(nodes=2, force_bind={"when_not_offered": True}) as w:
            w.pod("p")
            node = w.propose("p")
            assert not w.filter("p", [{"n0": "n1", "n1": "n0"}[node]])["NodeNames"]

            w.until(lambda: w.node_of("p") == node)
            assert w.waggle.counted("force_binds") == {"unoffered": 1}

    def test_a_forced_binding_that_fails_is_tried_again_by_kube_scheduler(self):
        with world(nodes=1, force_bind={"after_filters": 1}) as w:
            w.pod("p")
            w.faults.inject("status", status=403, **BINDING)
            w.propose("p")
            w.propose("p")
            w.until(lambda: states(w) == {"p": "Waiting"})

            assert w.place("p") == "n0"


def test_a_pod_refused_while_its_binding_is_written_is_nudged_when_that_fails():
    with world(nodes=2) as w:
        w.pod("p")
        node = w.propose("p")
        w.faults.inject("delay", seconds=0.3, **BINDING)
        w.faults.inject("status", status=403, **BINDING)
        outcome = w.waggle.runtime.bind("default", "p", w.uid("p"), node)
        assert not w.filter("p", [{"n0": "n1", "n1": "n0"}[node]])["NodeNames"]
        assert outcome.result(30).error is not None

        w.until(lambda: "p" in w.books.nudged)


def test_a_wrong_version_from_a_caller_does_not_hide_the_pod_for_long():
    with world(nodes=1, holds={"lease_seconds": 0.5}) as w:
        w.pod("p")
        sent = w.get("p")
        sent["metadata"]["resourceVersion"] = "999999999"
        [node] = w.post("filter", {"Pod": sent, "NodeNames": ["n0"]})["NodeNames"]

        assert w.bind("p", node) == ""
        w.until(lambda: states(w) == {"p": "Bound"})
