"""Gangs: all of them or none, whoever comes between."""

from __future__ import annotations

import json

import pytest

from tests.support.cluster.local_cluster import world


@pytest.mark.parametrize("names_only", [True, False], ids=["names", "nodes"])
def test_a_gang_that_fits_is_placed_whole(names_only: bool):
    with world(nodes=4, scheduler=True, extender={"nodeCacheCapable": names_only}) as w:
        names = w.gang("g", 8, cpu="2")

        w.until(lambda: w.all_bound(names))
        assert sorted(w.places(names)) == ["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"]


def test_the_plan_stands_on_every_member():
    with world(nodes=2, scheduler=True) as w:
        names = w.gang("g", 4, cpu="2")
        w.until(lambda: w.all_bound(names))

        plans = [json.loads(w.get(name)["metadata"]["annotations"]["waggle.dev/gang-plan"]) for name in names]
        newest = max(plans, key=lambda plan: plan["generation"])
        assert newest["seats"] == {w.uid(name): w.node_of(name) for name in names}


def test_a_gang_that_cannot_fit_waits_whole_with_one_reason():
    with world(nodes=3, scheduler=True) as w:
        names = w.gang("big", 4, cpu="3")
        w.until(lambda: all("does not fit as a whole" in w.message(name) for name in names))
        w.settle()

        assert w.places(names) == [""] * 4
        waiting = w.waggle.client.get("/v1/inspect/pods?state=Waiting").json["items"]
        assert {pod["name"]: pod["reason"]["code"] for pod in waiting} == dict.fromkeys(names, "GangDoesNotFit")
        assert len({w.message(name) for name in names}) == 1
        page = w.waggle.client.get("/metrics").text
        assert 'waggle_pending_pods{reason="GangDoesNotFit"} 4.0' in page


def test_a_gang_that_cannot_fit_does_not_make_kube_scheduler_loop():
    with world(nodes=3, scheduler=True) as w:
        names = w.gang("big", 4, cpu="3")
        w.until(lambda: all("does not fit as a whole" in w.message(name) for name in names))
        w.settle()
        before = [w.witness.calls(name) for name in names]
        writes = w.cluster.revision

        eager = [w.settle() for _ in range(20)]

        assert eager
        assert max(before) <= 8, before
        assert [w.witness.calls(name) for name in names] == before
        assert w.cluster.revision - writes <= 4, "only Events may still be written"


def test_a_gang_takes_nothing_while_it_waits():
    with world(nodes=2, scheduler=True) as w:
        names = w.gang("big", 3, cpu="3")
        w.until(lambda: all("does not fit as a whole" in w.message(name) for name in names))
        w.pod("single", cpu="4")

        w.until(lambda: w.node_of("single"))
        assert w.places(names) == [""] * 3


def test_an_incomplete_gang_waits_for_its_members():
    with world(nodes=2, scheduler=True) as w:
        w.pod("g-0", gang=("g", 3))
        w.pod("g-1", gang=("g", 3))
        w.until(lambda: "waits until 3 of its pods exist" in w.message("g-0") and w.condition("g-1"))
        w.pod("g-2", gang=("g", 3))

        w.until(lambda: w.all_bound(["g-0", "g-1", "g-2"]))


def test_a_gang_is_placed_when_the_room_it_lacked_is_freed():
    with world(nodes=2, scheduler=True) as w:
        w.pod("in-the-way", cpu="4")
        w.until(lambda: w.node_of("in-the-way"))
        names = w.gang("g", 4, cpu="2")
        w.until(lambda: all(w.condition(name) for name in names))
        w.settle()

        w.cluster.delete("pods", "in-the-way")

        w.until(lambda: w.all_bound(names))


def test_a_gang_is_placed_when_a_node_is_added():
    with world(nodes=1, scheduler=True) as w:
        names = w.gang("g", 4, cpu="2")
        w.until(lambda: all(w.condition(name) for name in names))

        w.node("n1")

        w.until(lambda: w.all_bound(names))


def test_a_gang_preempts_whole():
    with world(nodes=3, scheduler=True) as w:
        low = [f"low{i}" for i in range(6)]
        for name in low:
            w.pod(name, cpu="2")
        w.until(lambda: w.all_bound(low))
        w.settle()

        names = w.gang("high", 4, cpu="2", priority=1000)

        w.until(lambda: w.all_bound(names))
        w.settle()
        left = [pod["metadata"]["name"] for pod in w.cluster.objects("pods")]
        assert len(set(left) & set(low)) == 2, left


def test_a_gang_that_would_not_fit_even_by_preemption_evicts_nobody():
    with world(nodes=2, scheduler=True) as w:
        low = ["low0", "low1"]
        for name in low:
            w.pod(name, cpu="4")
        w.until(lambda: w.all_bound(low))
        w.settle()

        names = w.gang("high", 3, cpu="4", priority=1000)
        w.until(lambda: all(w.condition(name) for name in names))
        w.settle()

        assert w.all_bound(low)
        assert w.places(names) == [""] * 3


def test_a_seat_is_not_given_to_somebody_else():
    with world(nodes=2) as w:
        names = w.gang("g", 4, cpu="2")
        w.place("g-0")
        w.pod("greedy", cpu="2")

        refused = w.filter("greedy")

        assert not refused["NodeNames"]
        assert "room is held for" in json.dumps(refused)
        for name in names:
            w.place(name)


def test_a_member_that_is_replaced_takes_the_free_seat():
    with world(nodes=2, scheduler=True) as w:
        names = w.gang("g", 4, cpu="2")
        w.until(lambda: w.all_bound(names))
        w.settle()
        w.cluster.delete("pods", "g-3", grace_period_seconds=0)
        w.until(lambda: w.cluster.get("pods", "g-3") is None)

        w.pod("g-3", cpu="2", gang=("g", 4))

        w.until(lambda: w.all_bound(names))
