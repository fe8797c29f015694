from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api, brief, reason
from tests.support.apiserver.cluster_objects import pod


@pytest.fixture
def faulty(api: Api, still_cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield still_cluster
    still_cluster.faults.clear()


def test_a_status_replaces_the_answer_and_nothing_is_done(api: Api, faulty: EmbeddedCluster) -> None:
    fault = faulty.faults.inject("status", method="POST", status=429, headers={"Retry-After": "1"})
    refused = api.post("pods", pod("a", api.namespace))
    assert reason(refused) == (429, "TooManyRequests")
    assert refused.headers["retry-after"] == "1"
    assert api.names("pods") == []
    assert faulty.faults.fired(fault) == 1
    assert api.post("pods", pod("a", api.namespace)).status_code == 201


def test_a_rule_skips_and_counts_its_matches(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("status", method="LIST", path=f"{api.namespace}/pods", skip=1, times=2, status=503)
    codes = [api.get("pods").status_code for _ in range(4)]
    assert codes == [200, 503, 503, 200]
    assert api.get("configmaps").status_code == 200


def test_a_rule_without_times_fires_for_ever(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("status", path="limit=7", times=None)
    assert {api.get("pods", limit=7).status_code for _ in range(5)} == {500}
    assert api.get("pods", limit=8).status_code == 200


def test_a_connection_dropped_before_does_nothing(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("drop-before", method="POST")
    with pytest.raises(httpx.TransportError):
        api.post("pods", pod("a", api.namespace))
    assert api.names("pods") == []


def test_a_connection_dropped_after_has_done_it(api: Api, faulty: EmbeddedCluster) -> None:
    api.create_pod("a")
    faulty.faults.inject("drop-after", path="/binding")
    with pytest.raises(httpx.TransportError):
        api.bind("a", "n1")
    assert api.get("pods/a").json()["spec"]["nodeName"] == "n1"
    assert reason(api.bind("a", "n1")) == (409, "Conflict")


def test_a_delay_outlasts_an_impatient_client_and_the_write_happens(api: Api, faulty: EmbeddedCluster) -> None:
    fault = faulty.faults.inject("delay", method="POST", seconds=0.3)
    with pytest.raises(httpx.ReadTimeout):
        api.http.post(api.path("pods"), json=pod("a", api.namespace), timeout=0.05)
    assert faulty.faults.fired(fault) == 1


def test_an_answer_may_never_come_though_it_was_done(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("silence", method="POST")
    with pytest.raises(httpx.ReadTimeout):
        api.http.post(api.path("pods"), json=pod("a", api.namespace), timeout=0.1)
    assert api.names("pods") == ["a"]


def test_an_answer_may_end_in_its_midst(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("cut", method="POST")
    with pytest.raises(httpx.TransportError):
        api.post("pods", pod("a", api.namespace))
    assert api.names("pods") == ["a"]


def test_interim_answers_may_come_before_the_answer(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("interim", method="LIST")
    host, port = faulty.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        path = api.path("pods")
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        came = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert [line.split()[1] for line in came.splitlines() if line.startswith(b"HTTP/1.1")] == [b"103", b"103", b"200"]


def test_an_answer_may_be_no_json(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("garbage", method="LIST")
    answer = api.get("pods")
    assert (answer.status_code, answer.text[:6]) == (200, "<html>")


def test_pages_may_be_shorter_than_asked_for(api: Api, faulty: EmbeddedCluster) -> None:
    for name in "abc":
        api.create_pod(name)
    faulty.faults.inject("page", after=2, times=None)
    first = api.get("pods", limit=500).json()
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert api.names("pods", **{"continue": first["metadata"]["continue"]}) == ["c"]


def test_a_rule_may_hold_for_one_client_only(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("status", agent="^waggle$", times=None)
    mine = [api.http.get(api.path("pods"), headers={"User-Agent": who}).status_code for who in ("waggle", "kubectl")]
    assert mine == [500, 200]


def test_reads_may_lag_behind() -> None:
    """The cluster is its own: a late write of another test would count among those that are not seen yet."""
    with serve_in_thread(kubelet=False, controllers=False) as alone, closing(Api(alone.url)) as api:
        old = api.create_pod("a")
        api.patch("pods/a", {"metadata": {"labels": {"x": "1"}}})
        api.create_pod("b")
        alone.faults.inject("stale", behind=2, times=3)
        assert api.get("pods/a").json() == old
        listed = api.get("pods").json()
        assert listed["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        assert reason(api.get("pods/b")) == (404, "NotFound")
        assert api.names("pods") == ["a", "b"]


def received(api: Api, faulty: EmbeddedCluster, action: Any, after: int, **query: Any) -> list[tuple[str, str]]:
    """What a watch of three creations gets."""
    faulty.faults.inject(action, method="WATCH", after=after)
    for name in "abc":
        api.create_pod(name)
    with api.watch("pods", **query) as events:
        return [brief(event) for event in events]


ADDED = [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_may_close_early(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-close", 2) == ADDED[:2]


def test_a_watch_may_close_before_its_first_event(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-close", 0) == []


def test_a_watch_may_expire(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-expire", 1) == [*ADDED[:1], ("ERROR", "")]


def test_a_watch_may_repeat_an_event(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-duplicate", 2, timeoutSeconds=1) == [ADDED[0], ADDED[1], ADDED[1], ADDED[2]]


def test_a_watch_may_lose_an_event(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-swallow", 2, timeoutSeconds=1) == [ADDED[0], ADDED[2]]


def test_a_watch_may_change_the_order(api: Api, faulty: EmbeddedCluster) -> None:
    assert received(api, faulty, "watch-late", 1, timeoutSeconds=1) == [ADDED[1], ADDED[0], ADDED[2]]


def test_a_watch_may_send_half_a_line(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("watch-garbage", method="WATCH", after=1)
    api.create_pod("a")
    with api.watch("pods", timeoutSeconds=1) as events, pytest.raises(ValueError, match="Unterminated|Expecting"):
        list(events)


def test_the_watches_of_one_client_may_end_at_once(api: Api, faulty: EmbeddedCluster) -> None:
    api.create_pod("a")
    with api.watch("pods") as events:
        first = next(events)
        faulty.end_watches("^waggle$")
        faulty.end_watches("httpx")
        assert [brief(event) for event in (first, *events)] == [("ADDED", "a")]


def test_a_watchs_connection_may_be_cut(api: Api, faulty: EmbeddedCluster) -> None:
    api.create_pod("a")
    faulty.faults.inject("watch-drop", method="WATCH", after=2)
    with api.watch("pods") as events:
        assert brief(next(events)) == ("ADDED", "a")
        api.create_pod("b")
        with pytest.raises(httpx.TransportError):
            list(events)


def test_a_watch_may_fall_silent_without_closing(api: Api, faulty: EmbeddedCluster) -> None:
    faulty.faults.inject("watch-stall", method="WATCH", after=1)
    api.create_pod("a")
    timeout = httpx.Timeout(30, read=0.5)
    with httpx.stream("GET", api.http.base_url.join(api.path("pods?watch=1&timeoutSeconds=1")), timeout=timeout) as s:
        lines = s.iter_lines()
        assert '"ADDED"' in next(lines)
        api.create_pod("b")
        with pytest.raises(httpx.ReadTimeout):
            next(lines)


def test_rules_are_set_read_and_removed_over_http(api: Api, faulty: EmbeddedCluster) -> None:
    rules = [{"action": "status", "method": "LIST", "status": 503, "times": None}]
    assert api.post("/debug/faults", rules).json()[0]["fired"] == 0
    assert api.get("pods").status_code == 503
    assert api.get("/debug/faults").json()[0]["fired"] == 1
    assert api.delete("/debug/faults").json() == []
    assert api.get("pods").status_code == 200


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([{"action": "explode"}], "action"),
        ([{"action": "delay", "second": 1}], "second"),
        ([{"action": "delay", "path": "("}], "unterminated"),
        ([{"action": "delay", "agent": "("}], "unterminated"),
        ({}, "array"),
    ],
)
def test_malformed_rules_are_refused_and_change_nothing(
    api: Api, faulty: EmbeddedCluster, rules: Any, text: str
) -> None:
    faulty.faults.inject("delay", path="never")
    refused = api.post("/debug/faults", rules)
    assert reason(refused) == (400, "BadRequest")
    assert text in refused.json()["message"]
    assert len(api.get("/debug/faults").json()) == 1


def test_history_is_expired_over_http(api: Api) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    api.create_pod("b")
    assert api.post("/debug/compact", {}).status_code == 200
    with api.watch("pods", resourceVersion=version) as events:
        assert brief(next(events)) == ("ERROR", "")
