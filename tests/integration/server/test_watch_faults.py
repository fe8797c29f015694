"""The informers' connections fail, lie or fall silent: what Waggle believes ends up as the API server has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.cluster.local_cluster import QUICK, LocalCluster, world

POD_WATCH = {"method": "WATCH", "path": "/api/v1/pods"}
NODE_WATCH = {"method": "WATCH", "path": "/api/v1/nodes"}


@pytest.fixture
def w() -> Iterator[LocalCluster]:
    with world(nodes=2) as made:
        yield made


def reopen(w: LocalCluster) -> None:
    """The pod informer opens a new watch: faults hold for watches opened after them."""
    before = w.waggle.service._pods.stats.watches
    w.waggle.service._pods._exchange.interrupt()
    w.until(lambda: w.waggle.service._pods.stats.watches > before)


def known(w: LocalCluster) -> dict[str, str]:
    return {e.key.name: str(e.state) for e in w.waggle.pod_infos()}


def test_a_dropped_watch_goes_on_where_it_was(w: LocalCluster):
    drop = w.faults.inject("watch-drop", after=1, **POD_WATCH)
    reopen(w)
    for name in ("a", "b", "c"):
        w.pod(name)

    w.until(lambda: known(w) == dict.fromkeys("abc", "Waiting"))
    assert w.faults.fired(drop) == 1
    assert w.waggle.service._pods.stats.relists == 0


def test_a_half_open_watch_is_noticed_by_its_silence():
    with world(nodes=1, timing=replace(QUICK, watch_silence=0.5), apiserver={"bookmark_seconds": 0.1}) as w:
        w.faults.inject("watch-stall", after=1, **POD_WATCH)
        reopen(w)
        for name in ("a", "b", "c"):
            w.pod(name)

        w.until(lambda: known(w) == dict.fromkeys("abc", "Waiting"))
        assert w.waggle.service._pods.stats.silences >= 1


def test_a_watch_that_expires_as_an_event_is_followed_by_a_list(w: LocalCluster):
    w.faults.inject("watch-expire", after=1, **POD_WATCH)
    reopen(w)
    for name in ("a", "b", "c"):
        w.pod(name)

    w.until(lambda: known(w) == dict.fromkeys("abc", "Waiting"))
    assert w.waggle.service._pods.stats.expired >= 1


def test_a_watch_that_expires_as_a_status_is_followed_by_a_list(w: LocalCluster):
    w.pod("gone")
    w.until(lambda: known(w) == {"gone": "Waiting"})
    w.faults.inject("status", status=503, times=3, **POD_WATCH)
    w.waggle.service._pods._exchange.interrupt()
    w.faults.inject("status", status=410, times=1, skip=3, **POD_WATCH)
    w.cluster.delete("pods", "gone", grace_period_seconds=0)
    w.pod("new")

    w.until(lambda: known(w) == {"new": "Waiting"})
    w.until(lambda: w.waggle.service._pods.stats.expired == 1)


def test_what_was_deleted_during_a_compaction_is_gone(w: LocalCluster):
    w.pod("gone")
    w.until(lambda: known(w) == {"gone": "Waiting"})
    w.place("gone")
    w.faults.inject("status", status=503, times=2, **POD_WATCH)
    w.waggle.service._pods._exchange.interrupt()
    w.cluster.delete("pods", "gone", grace_period_seconds=0)
    w.cluster.compact()

    w.until(lambda: known(w) == {})


def test_duplicated_events_count_once(w: LocalCluster):
    for after in range(1, 8):
        w.faults.inject("watch-duplicate", after=after, **POD_WATCH)
    reopen(w)
    for name in ("a", "b"):
        w.pod(name)
        w.place(name)

    w.until(lambda: known(w) == dict.fromkeys("ab", "Bound"))


def test_a_swallowed_confirmation_is_found_by_reading():
    with world(nodes=1, holds={"lease_seconds": 0.5}) as w:
        for after in range(2, 6):
            w.faults.inject("watch-swallow", after=after, **POD_WATCH)
        reopen(w)
        w.pod("p")
        w.until(lambda: known(w) == {"p": "Waiting"})
        w.place("p")

        w.until(lambda: known(w) == {"p": "Bound"})
        assert w.waggle.counted("holds") == {}


def test_a_swallowed_pod_is_placed_all_the_same(w: LocalCluster):
    for after in range(1, 9):
        w.faults.inject("watch-swallow", after=after, **POD_WATCH)
    reopen(w)
    w.pod("p")

    w.place("p")
    w.may_hold.add("default/p")
    w.faults.clear()
    reopen(w)
    w.cluster.patch("pods", "p", {"metadata": {"labels": {"seen": "now"}}})
    w.until(lambda: known(w) == {"p": "Bound"})


def test_a_swallowed_deletion_is_found_by_the_comparer(w: LocalCluster):
    w.may_count.add("waggle_cache_healed_total")
    w.pod("p")
    w.place("p")
    w.until(lambda: known(w) == {"p": "Bound"})
    w.until(lambda: w.get("p")["status"].get("phase") == "Running")
    version = w.get("p")["metadata"]["resourceVersion"]
    w.until(lambda: [e.pod.resource_version for e in w.waggle.pod_infos()] == [version])
    w.faults.inject("watch-swallow", after=1, **POD_WATCH)  # it is shown going,
    w.faults.inject("watch-swallow", after=2, **POD_WATCH)  # and gone
    reopen(w)
    w.cluster.delete("pods", "p", grace_period_seconds=0)
    w.pod("later")
    w.until(lambda: known(w).get("later"))
    assert known(w)["p"] == "Bound"

    found = w.waggle.client.get("/v1/inspect/cache/diff").json["items"]

    assert [(each["kind"], each["name"]) for each in found] == [("phantom", "p")]
    assert known(w) == {"later": "Waiting"}


def test_a_swallowed_node_is_found_by_the_next_list(w: LocalCluster):
    w.faults.inject("watch-swallow", after=1, **NODE_WATCH)
    w.waggle.service._nodes._exchange.interrupt()
    before = w.waggle.service._nodes.stats.watches
    w.until(lambda: w.waggle.service._nodes.stats.watches > before)
    amounts = {"cpu": "4", "memory": "64Gi", "pods": "110"}
    w.cluster.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": amounts}}
    )
    w.cluster.compact()
    w.faults.inject("watch-expire", **NODE_WATCH)
    w.waggle.service._nodes._exchange.interrupt()

    w.until(lambda: "n2" in w.waggle.runtime.model.cache_snapshot().nodes)


def test_lists_that_fail_for_a_while_only_delay(w: LocalCluster):
    w.faults.inject("status", status=410, times=1, **POD_WATCH)
    w.faults.inject("status", status=500, times=4, method="LIST", path="/api/v1/pods")
    w.waggle.service._pods._exchange.interrupt()
    w.pod("p")

    w.until(lambda: known(w) == {"p": "Waiting"})
    w.place("p")


def test_a_stale_list_is_caught_up_with(w: LocalCluster):
    w.pod("a")
    w.place("a")
    w.until(lambda: known(w) == {"a": "Bound"})
    w.pod("b")
    w.until(lambda: known(w) == {"a": "Bound", "b": "Waiting"})
    w.faults.inject("status", status=410, times=1, **POD_WATCH)
    w.faults.inject("stale", behind=3, times=2, method="LIST", path="/api/v1/pods")
    w.waggle.service._pods._exchange.interrupt()
    w.until(lambda: w.waggle.service._pods.stats.relists == 1)

    assert known(w) == {"a": "Bound", "b": "Waiting"}
    w.place("b")
