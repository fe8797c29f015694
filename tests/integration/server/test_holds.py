"""Filter calls that no bind follows: the place is held for a while, verified, and given back to who waits for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apiserver.api import Api
from tests.support.cluster.local_cluster import LocalCluster, world

BRIEF = {"holds": {"lease_seconds": 0.4, "verify_seconds": 0.2}}


@pytest.fixture
def w() -> Iterator[LocalCluster]:
    with world(nodes=1, **BRIEF) as made:
        yield made


def states(w: LocalCluster) -> dict[str, str]:
    return {e.key.name: str(e.state) for e in w.waggle.pod_infos()}


def test_a_proposal_without_a_bind_vanishes_once_it_is_verified(w: LocalCluster):
    w.pod("p")
    w.propose("p")
    assert w.waggle.holds() == {"default/p": "held"}

    w.until(lambda: states(w) == {"p": "Waiting"})

    assert w.waggle.holds() == {}
    assert w.waggle.counted("holds") == {"expired": 1}
    assert w.waggle.runtime.model.cache_snapshot().counts.pods == 0


def test_who_waits_for_the_room_is_nudged_and_placed_by_kube_scheduler():
    with world(nodes=1, scheduler=True, holds={"lease_seconds": 1.0}) as w:
        w.pod("trial", cpu="4", schedulerName="nobody")
        w.propose("trial")
        w.pod("waits", cpu="4")
        w.until(lambda: "insufficient cpu" in w.message("waits"))

        w.until(lambda: w.node_of("waits") == "n0")
        assert "waits" in w.books.nudged


def test_the_first_in_line_is_who_has_the_highest_priority(w: LocalCluster):
    w.pod("trial", cpu="4")
    w.propose("trial")
    w.pod("low", cpu="4")
    w.pod("high", cpu="4", priority=100)
    for name in ("low", "high"):
        assert not w.filter(name)["NodeNames"]

    w.until(lambda: {"low", "high"} <= set(w.books.nudged))
    assert w.books.nudged.index("high") < w.books.nudged.index("low")
    w.place("high")


def test_a_repeated_filter_renews_the_hold(w: LocalCluster):
    w.pod("p")
    for _ in range(8):
        w.propose("p")
        w.until(lambda: True)
    assert w.waggle.holds() == {"default/p": "held"}
    assert w.bind("p", "n0") == ""


def test_a_bind_after_the_hold_expired_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")
    w.until(lambda: states(w) == {"p": "Waiting"})

    assert "never proposed" in w.bind("p", node)
    assert w.place("p") == node


def test_a_pod_that_nobody_has_but_the_caller_vanishes(w: LocalCluster):
    body = {
        "metadata": {"name": "ghost", "namespace": "default", "uid": "no-such-uid"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
    }
    assert w.post("filter", {"Pod": body, "NodeNames": ["n0"]})["NodeNames"] == ["n0"]
    w.pod("real", cpu="4")
    assert not w.filter("real")["NodeNames"]

    w.until(lambda: states(w) == {"real": "Waiting"})
    w.until(lambda: "real" in w.books.nudged)
    w.place("real")


def test_a_refused_pod_that_nobody_has_but_the_caller_vanishes(w: LocalCluster):
    body = {
        "metadata": {"name": "ghost", "namespace": "default", "uid": "no-such-uid"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "400"}}}]},
    }
    assert not w.post("filter", {"Pod": body, "NodeNames": ["n0"]})["NodeNames"]
    assert states(w) == {"ghost": "Waiting"}

    w.until(lambda: states(w) == {})


def test_nothing_is_given_back_while_the_api_server_cannot_be_read(w: LocalCluster):
    w.pod("p", cpu="4")
    w.pod("q", cpu="4")
    broken = w.faults.inject("status", method="GET", path="/pods/p$", status=500, times=None)
    w.propose("p")

    w.until(lambda: w.faults.fired(broken) >= 3)

    assert states(w)["p"] == "Binding"
    assert not w.filter("q")["NodeNames"]
    w.faults.clear()
    w.until(lambda: states(w)["p"] == "Waiting")
    w.place("q")


def test_what_was_bound_by_somebody_else_unseen_is_not_given_away(w: LocalCluster):
    w.pod("p", cpu="4")
    w.pod("q", cpu="4")
    w.until(lambda: len(w.waggle.pod_infos()) == 2)
    w.faults.inject("status", status=503, times=None, method="WATCH", path="/api/v1/pods")
    w.waggle.service._pods._exchange.interrupt()
    w.propose("p")
    w.bound_by_others.add("p")
    api = Api(w.cluster.url)
    assert api.bind("p", "n0").status_code == 201
    api.close()

    w.until(lambda: states(w)["p"] == "Bound")
    assert not w.filter("q")["NodeNames"]


def test_a_gang_proposed_and_never_bound_gives_all_its_seats_back():
    with world(nodes=2, **BRIEF) as w:
        names = w.gang("g", 4, cpu="2")
        w.until(lambda: len(w.waggle.pod_infos()) == 4)
        for name in names:
            w.propose(name)
        w.pod("waits", cpu="4")
        assert not w.filter("waits")["NodeNames"]

        w.until(lambda: set(states(w).values()) == {"Waiting"})
        w.until(lambda: "waits" in w.books.nudged)
        w.place("waits")


def test_a_pod_deleted_while_it_is_held_frees_its_place_and_nudges(w: LocalCluster):
    w.pod("p", cpu="4")
    w.pod("q", cpu="4")
    w.propose("p")
    assert not w.filter("q")["NodeNames"]

    w.cluster.delete("pods", "p", grace_period_seconds=0)

    w.until(lambda: "q" in w.books.nudged)
    w.place("q")
