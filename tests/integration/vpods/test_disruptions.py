"""Nodes are drained, pods go and come back, somebody else scales: vreplicas follow, and no pod gets too many."""

from __future__ import annotations

import httpx

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import STATEFUL_SETS, VPodWorld, vpod_world


def metric(w: VPodWorld, name: str) -> float:
    text = w.server.http.get("/metrics").text
    return sum(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))
    )


def test_vreplicas_leave_a_cordoned_node_and_come_back_to_it() -> None:
    with vpod_world(replicas=3, capacity=10, min_replicas=3, max_replicas=3) as w:
        w.add_vpod("a", 9)
        assert w.placed("a", 9) == {"fleet-0": 3, "fleet-1": 3, "fleet-2": 3}
        pod = next(name for name, node in w.hosts().items() if node == "n1")
        w.cordon("n1")
        eventually(lambda: pod not in w.placements("a"))
        assert sum(w.placements("a").values()) == 9
        w.cordon("n1", on=False)
        eventually(lambda: w.placements("a") == {"fleet-0": 3, "fleet-1": 3, "fleet-2": 3})


def test_a_pod_that_comes_back_soon_keeps_its_vreplicas() -> None:
    with vpod_world(replicas=3, min_replicas=3, unready_seconds=30) as w:
        w.add_vpod("a", 6)
        before = w.placed("a", 6)
        uid = w.api.get("pods/fleet-1").json()["metadata"]["uid"]
        w.api.delete("pods/fleet-1")
        eventually(lambda: w.api.get("pods/fleet-1").json()["metadata"].get("uid", uid) != uid)
        eventually(lambda: w.api.get("pods/fleet-1").json().get("status", {}).get("phase") == "Running")
        w.resting()
        assert w.placements("a") == before


def test_vreplicas_of_a_pod_that_stays_away_are_placed_elsewhere() -> None:
    with vpod_world(replicas=3, nodes=3, min_replicas=3, max_replicas=3, unready_seconds=0.5) as w:
        w.add_vpod("a", 6)
        w.placed("a", 6)
        for node in ("n0", "n1", "n2"):  # its successor finds no node
            w.cordon(node)
        w.cordon(w.hosts()["fleet-0"], on=False)
        w.cordon(w.hosts()["fleet-1"], on=False)
        eventually(lambda: "fleet-2" not in w.placements("a") and sum(w.placements("a").values()) == 6)


def test_a_roll_out_of_the_set_loses_nothing() -> None:
    with vpod_world(replicas=3, capacity=10, min_replicas=3, max_replicas=3) as w:
        w.add_vpod("a", 12)
        w.placed("a", 12)
        changed = {"spec": {"template": {"metadata": {"annotations": {"turn": "2"}}}}}
        assert w.api.patch(f"{STATEFUL_SETS}/fleet", changed).status_code == 200

        def is_rolled_out() -> bool:
            status = w.api.get(f"{STATEFUL_SETS}/fleet").json()["status"]
            return bool(status.get("updatedReplicas") == status.get("readyReplicas") == 3)

        eventually(is_rolled_out)
        eventually(lambda: sorted(w.placements("a").values()) == [4, 4, 4])


def test_somebody_else_who_scales_the_set_is_noticed_and_corrected() -> None:
    with vpod_world(replicas=3, min_replicas=3, max_replicas=5) as w:
        w.add_vpod("a", 6)
        w.placed("a", 6)
        w.scale(5)
        eventually(lambda: metric(w, "waggle_vpods_foreign_scales_total") == 1)
        eventually(lambda: w.replicas() == 3)
        eventually(lambda: sum(w.placements("a").values()) == 6)
        events = w.api.get("events").json()["items"]
        assert "ForeignScale" in {each["reason"] for each in events}


def test_a_set_that_somebody_shrinks_too_far_grows_again_and_all_is_placed() -> None:
    with vpod_world(replicas=3, capacity=4, min_replicas=0, is_witnessed=False) as w:
        w.add_vpod("a", 12)
        w.placed("a", 12)
        w.scale(1)
        eventually(lambda: w.replicas() == 3)
        eventually(lambda: w.placements("a") == {"fleet-0": 4, "fleet-1": 4, "fleet-2": 4})


def test_a_vpod_grows_by_steps_of_one_and_stays_even() -> None:
    with vpod_world(replicas=3, min_replicas=3) as w:
        w.add_vpod("a", 1)
        for number in range(2, 11):
            w.want("a", number)
            w.placed("a", number)
        assert sorted(w.placements("a").values()) == [3, 3, 4]  # the original: 8, 1, 1
        w.want("a", 0)
        eventually(lambda: not w.placements("a"))
        assert w.vpod("a")["status"]["scheduled"] == 0


def test_a_deleted_vpod_makes_room_at_once() -> None:
    with vpod_world(replicas=1, capacity=4, max_replicas=1) as w:
        w.add_vpod("a", 4)
        w.placed("a", 4)
        w.add_vpod("b", 4)
        eventually(lambda: w.reason("b") == "NotEnoughRoom")
        w.api.delete("/apis/waggle.dev/v1alpha1/namespaces/default/vpods/a")
        w.placed("b", 4)


def test_metrics_have_the_nouns_of_knative() -> None:
    with vpod_world(replicas=3, min_replicas=3, capacity=10) as w:
        w.add_vpod("a", 6)
        w.placed("a", 6)
        eventually(lambda: metric(w, "waggle_vpods_scheduled_vreplicas") == 6)
        assert metric(w, "waggle_vpods_expected_replicas") == 3
        assert metric(w, "waggle_vpods_ready_replicas") == 3
        assert metric(w, "waggle_vpods_pending_vreplicas") == 0
        assert metric(w, "waggle_vpods_schedule_seconds_count") == 1
        assert metric(w, "waggle_vpods_moves_total") == 0
        answer = httpx.get(f"{w.server.handle.url}/readyz/vpods")
        assert answer.status_code == 200
