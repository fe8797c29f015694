from __future__ import annotations

import asyncio
from itertools import islice

from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.selectors import Selector
from extender.embedded.apiserver.table import CONFIG_MAPS
from extender.embedded.apiserver.watch import LIMIT, Watcher, WatchOptions
from tests.support.apiserver.api import Api, brief, reason


def test_a_watch_without_a_version_begins_with_what_exists(api: Api) -> None:
    api.create_pod("a")
    with api.watch("pods") as events:
        assert brief(next(events)) == ("ADDED", "a")
        api.patch("pods/a", {"metadata": {"labels": {"x": "1"}}})
        api.delete("pods/a")
        # Also a pod that goes at once is first seen going.
        assert [brief(next(events))[0] for _ in range(3)] == ["MODIFIED", "MODIFIED", "DELETED"]


def test_a_watch_goes_on_after_its_version(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    api.create_pod("b")
    with api.watch("pods", resourceVersion=version) as events:
        assert brief(next(events)) == ("ADDED", "b")
        api.create_pod("c")
        event = next(events)
    assert brief(event) == ("ADDED", "c")
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Pod", "v1")


def test_a_deletion_carries_the_last_state_and_a_new_version(api: Api) -> None:
    created = api.create_pod("a", labels={"x": "y"})["metadata"]
    with api.watch("pods", resourceVersion=created["resourceVersion"]) as events:
        api.delete("pods/a")
        gone = next(events)["object"]["metadata"]
    assert gone["labels"] == {"x": "y"}
    assert int(gone["resourceVersion"]) > int(created["resourceVersion"])


def test_objects_that_cross_a_selector_appear_and_disappear(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    with api.watch("pods", resourceVersion=version, fieldSelector="spec.nodeName=n1") as bound:
        with api.watch("pods", resourceVersion=version, labelSelector="!done") as waiting:
            api.bind("a", "n1")
            api.patch("pods/a", {"metadata": {"labels": {"done": "1"}}})
            assert [brief(next(bound)) for _ in range(2)] == [("ADDED", "a"), ("MODIFIED", "a")]
            assert brief(next(waiting)) == ("MODIFIED", "a")
            event = next(waiting)
        assert brief(event) == ("DELETED", "a")
        assert "labels" not in event["object"]["metadata"], "the state in which it still matched"
        assert event["object"]["metadata"]["resourceVersion"] == api.get("pods/a").json()["metadata"]["resourceVersion"]


def test_a_watch_sees_its_own_namespace_only(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    with api.watch("pods", resourceVersion=version) as events:
        other = f"/api/v1/namespaces/{api.namespace}-other/configmaps"
        api.post(other, {"metadata": {"name": "x"}})
        api.create_pod("b")
        assert brief(next(events)) == ("ADDED", "b")


def test_a_watch_ends_at_its_time_with_a_bookmark(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "timeoutSeconds": 1, "allowWatchBookmarks": "true"}
    with api.watch("pods", **query) as events:
        api.post("configmaps", {"metadata": {"name": "moves-the-version"}})
        received = list(events)
    assert {event["type"] for event in received} == {"BOOKMARK"}
    last = received[-1]["object"]
    assert last["kind"] == "Pod"
    assert int(last["metadata"]["resourceVersion"]) > int(version)


def test_a_watch_without_bookmarks_gets_none(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    with api.watch("pods", resourceVersion=version, timeoutSeconds=1) as events:
        assert list(events) == []


def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    api.create_pod("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch("pods", **query) as events:
        first, mark = islice(events, 2)
    assert brief(first) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_expired_version_is_an_error_event(api: Api, still_cluster: EmbeddedCluster) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    api.create_pod("b")
    still_cluster.compact()
    with api.watch("pods", resourceVersion=version) as events:
        received = list(events)
    assert [event["type"] for event in received] == ["ERROR"]
    status = received[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")


def test_a_version_from_the_future_is_refused(api: Api) -> None:
    assert reason(api.get("pods", watch="1", resourceVersion="999999999")) == (504, "Timeout")


def test_a_bad_selector_is_refused_before_the_watch_begins(api: Api) -> None:
    assert reason(api.get("pods", watch="1", labelSelector="a in")) == (400, "BadRequest")


def test_events_of_both_groups_are_watched_under_their_names(api: Api) -> None:
    with api.watch(f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events") as events:
        api.post("events", {"metadata": {"name": "e"}, "message": "hello", "involvedObject": {"name": "p"}})
        event = next(events)
    assert event["object"]["note"] == "hello"
    assert event["object"]["apiVersion"] == "events.k8s.io/v1"


def test_a_client_that_reads_too_slowly_loses_its_watch() -> None:
    cluster = Cluster()
    cluster.create(Target(CONFIG_MAPS, "default"), {"metadata": {"name": "a"}})
    (change,) = cluster.store.collection(CONFIG_MAPS).history
    watcher = Watcher(WatchOptions(CONFIG_MAPS, Selector(), since=cluster.store.revision))
    for _ in range(LIMIT + 1):
        assert not watcher.finished
        watcher.live(change)
    assert watcher.finished
    assert asyncio.run(watcher.take(0)) == []
