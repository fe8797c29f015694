"""The reflector against a scripted API server: lists, watches and every fault it promises to survive."""

from __future__ import annotations

import json
import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from algorithm.model import Pod
from extender.kube.client.api import ApiServer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.client.kubeconfig import connect
from extender.kube.client.transport import Endpoint, Tls
from extender.kube.informers.reflector import PODS, Change, ChangeKind, Reflector, Timing
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.kube_objects import bookmark, event, expired, pod, pod_list
from tests.support.apiserver.scripted_server import (
    WAIT,
    Answer,
    Feed,
    Peer,
    Request,
    ScriptedServer,
    drop,
    hang,
    lines,
    reply,
    status,
)

pytestmark = pytest.mark.usefixtures("read_in")

CERTS = Path(__file__).parents[3] / "support" / "http" / "certs"
LIST = "/api/v1/pods"
WATCH = "/api/v1/pods?watch"
IMPATIENT = Timing(backoff=BackoffSettings(shortest=0.01, longest=0.05), list_page=0.3, watch_silence=0.3)
CALM = Timing(backoff=BackoffSettings(shortest=0.01, longest=0.05))


class Follower:
    """A sink that keeps what it was told as a mirror of the API server."""

    def __init__(self) -> None:
        self.changes: list[Change[Pod]] = []
        self.mirror: dict[str, Pod] = {}
        self.fail_next = 0
        self.batches: list[int] = []

    def __call__(self, batch: list[Change[Pod]]) -> None:
        self.batches.append(len(batch))
        if self.fail_next:
            self.fail_next -= 1
            raise RuntimeError("the sink is broken")
        for change in batch:
            self.changes.append(change)
            if change.kind is ChangeKind.SEEN:
                self.mirror[change.obj.name] = change.obj
            else:
                del self.mirror[change.obj.name]

    @property
    def told(self) -> list[str]:
        return [f"{change.kind} {change.obj.name} {change.obj.resource_version}" for change in self.changes]

    @property
    def versions(self) -> dict[str, str]:
        return {name: pod.resource_version for name, pod in self.mirror.items()}


@contextmanager
def reflecting(
    server: ScriptedServer, sink: Follower, *, timing: Timing = CALM, page: int = 500
) -> Iterator[Reflector[Pod]]:
    api = connect(ClusterSettings(server=server.url))
    reflector = Reflector(api, PODS, sink, page=page, timing=timing, rng=random.Random(1))
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()
        api.close()
        assert not reflector._thread.is_alive()


def together(*events: object) -> Answer:
    """A watch that sends its events in one go, each in a chunk of its own."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.start_chunks()
        rendered = [json.dumps(each).encode() + b"\n" for each in events]
        peer.send(b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in rendered))
        peer.hang()

    return answer


def test_a_list_is_told_and_then_synced(server: ScriptedServer) -> None:
    server.on("GET", LIST, reply(200, pod_list(pod("a"), pod("b", 2))))
    server.on("GET", WATCH, hang())
    follower = Follower()
    with reflecting(server, follower) as reflector:
        assert reflector.wait_synced(WAIT)
        assert follower.told == ["seen a 1", "seen b 2"]


def test_the_watch_starts_at_the_lists_version_and_asks_for_bookmarks(server: ScriptedServer) -> None:
    server.on("GET", LIST, reply(200, pod_list(version=42)))
    server.on("GET", WATCH, hang())
    with reflecting(server, Follower()):
        server.wait_for(lambda: len(server.requests) == 2)
    query = server.requests[1].query
    assert query["resourceVersion"] == "42"
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


def test_events_are_told_as_they_come(server: ScriptedServer) -> None:
    feed, follower = Feed(), Follower()
    server.on("GET", LIST, reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, feed)
    with reflecting(server, follower) as reflector:
        feed.send(event("ADDED", pod("b", 11)), event("MODIFIED", pod("a", 12, node="n")))
        feed.send(event("DELETED", pod("b", 13)))
        server.wait_for(lambda: len(follower.told) == 4)
        assert follower.told == ["seen a 1", "seen b 11", "seen a 12", "gone b 13"]
        assert reflector.stats.events == 3


def test_an_event_cut_into_pieces_is_put_together(server: ScriptedServer) -> None:
    feed, follower = Feed(), Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, feed)
    with reflecting(server, follower):
        feed.send(b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u",')
        feed.send(b'"resourceVersion":"11"}}}')
        feed.send(b"\n")
        server.wait_for(lambda: follower.told == ["seen a 11"])


def test_a_watch_that_ended_is_resumed_from_the_last_event(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, lines(event("ADDED", pod("a", 11))), lines(bookmark(20)), hang())
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: len(server.requests) == 4)
        assert [request.query["resourceVersion"] for request in server.requests[1:]] == ["10", "11", "20"]
        assert reflector.stats.lists == 1
        assert reflector.stats.bookmarks == 1


def test_a_dropped_stream_is_resumed_without_a_list(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on(
        "GET", WATCH, lines(event("ADDED", pod("a", 11)), then="drop"), lines(event("ADDED", pod("b", 12)), then="hang")
    )
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen a 11", "seen b 12"])
        assert server.requests[-1].query["resourceVersion"] == "11"
        assert reflector.stats.lists == 1


def test_a_late_event_does_not_turn_the_watch_back(server: ScriptedServer) -> None:
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, lines(bookmark(20), event("ADDED", pod("a", 15)), bookmark(12)), hang())
    with reflecting(server, Follower()):
        server.wait_for(lambda: len(server.requests) == 3)
    assert server.requests[-1].query["resourceVersion"] == "20"


def test_a_half_open_watch_is_noticed_and_resumed(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on(
        "GET", WATCH, lines(event("ADDED", pod("a", 11)), then="hang"), lines(event("ADDED", pod("b", 12)), then="hang")
    )
    with reflecting(server, follower, timing=IMPATIENT) as reflector:
        server.wait_for(lambda: "seen b 12" in follower.told)
        assert reflector.stats.silences >= 1
        assert reflector.stats.lists == 1


def test_a_certificate_that_expires_while_running_only_delays(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes((CERTS / "ca.pem").read_bytes() + (CERTS / "expired.pem").read_bytes())
    feed, follower = Feed(), Follower()
    with ScriptedServer(tls=context) as server:
        server.on("GET", LIST, reply(200, pod_list()))
        server.on("GET", WATCH, feed)
        api = ApiServer(Endpoint("127.0.0.1", int(server.url.rsplit(":", 1)[1]), tls=Tls(ca_file=str(trusted))))
        reflector = Reflector(api, PODS, follower, timing=CALM)
        reflector.start()
        feed.wait_opened()
        context.load_cert_chain(CERTS / "expired.pem", CERTS / "expired.key")
        feed.drop()
        eventually(lambda: "certificate has expired" in reflector.last_error)
        context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
        feed.wait_opened()
        feed.send(event("ADDED", pod("a", 11)))
        server.wait_for(lambda: follower.told == ["seen a 11"])
        assert reflector.stats.lists == 1
        reflector.stop(WAIT)
        api.close()


def test_a_server_that_accepts_and_never_answers_is_left(server: ScriptedServer) -> None:
    server.on("GET", LIST, hang(), reply(200, pod_list()))
    server.on("GET", WATCH, hang())
    with reflecting(server, Follower(), timing=IMPATIENT) as reflector:
        assert reflector.wait_synced(WAIT)
        assert "no answer within" in reflector.last_error


@pytest.mark.parametrize("gone", [lines(expired()), status(410, "too old", "Expired")], ids=["event", "status"])
def test_410_lists_anew_and_tells_the_deletes_that_were_missed(server: ScriptedServer, gone: object) -> None:
    follower = Follower()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a"), pod("b"), pod("c"))),
        reply(200, pod_list(pod("b"), pod("c", 15), pod("d", 16), version=20)),
    )
    server.on("GET", WATCH, gone, lines(then="hang"))
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: len(server.called("GET", LIST)) == 4)
        assert follower.told[3:] == ["gone a 1", "seen c 15", "seen d 16"]
        assert server.requests[-1].query["resourceVersion"] == "20"
        assert reflector.stats.relists == reflector.stats.expired == 1


def test_a_uid_change_found_by_a_list_is_gone_then_seen(server: ScriptedServer) -> None:
    follower = Follower()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a", uid="old"))),
        reply(200, pod_list(pod("a", 15, uid="new"), version=20)),
    )
    server.on("GET", WATCH, lines(expired()), hang())
    with reflecting(server, follower):
        server.wait_for(lambda: len(follower.changes) == 3)
    assert [(change.kind, change.obj.uid) for change in follower.changes] == [
        (ChangeKind.SEEN, "old"),
        (ChangeKind.GONE, "old"),
        (ChangeKind.SEEN, "new"),
    ]


def test_pages_are_followed_to_the_end(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list(pod("a"), more="t1")), reply(200, pod_list(pod("b"), version=10)))
    server.on("GET", WATCH, hang())
    with reflecting(server, follower, page=1) as reflector:
        assert reflector.wait_synced(WAIT)
    first, second = server.called("GET", LIST)[:2]
    assert (first.query, second.query) == ({"limit": "1"}, {"limit": "1", "continue": "t1"})
    assert follower.told == ["seen a 1", "seen b 1"]


def test_a_page_token_that_expired_starts_the_list_anew(server: ScriptedServer) -> None:
    follower = Follower()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a"), pod("old"), more="t1")),
        status(410, "The provided continue parameter is too old", "Expired"),
        reply(200, pod_list(pod("a", 11), more="t2", version=12)),
        reply(200, pod_list(pod("b", 12), version=12)),
    )
    server.on("GET", WATCH, hang())
    with reflecting(server, follower, page=1) as reflector:
        assert reflector.wait_synced(WAIT)
    assert follower.told == ["seen a 11", "seen b 12"]


def test_a_list_that_changes_while_it_is_paged_loses_nothing(server: ScriptedServer) -> None:
    """Pages of different versions, which no API server should give: b moved on and is on both, a is gone since."""
    follower = Follower()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a"), pod("b"), more="t", version=10)),
        reply(200, pod_list(pod("b", 14), pod("c", 15), version=15)),
    )
    missed = event("DELETED", pod("a", 12)), event("MODIFIED", pod("b", 14)), event("ADDED", pod("c", 15))
    server.on("GET", WATCH, lines(*missed, event("ADDED", pod("d", 16)), then="hang"))
    with reflecting(server, follower, page=2):
        server.wait_for(lambda: "seen d 16" in follower.told)
    assert server.requests[2].query["resourceVersion"] == "10"
    assert follower.versions == {"b": "14", "c": "15", "d": "16"}


def test_tokens_that_always_expire_end_in_a_list_without_pages(server: ScriptedServer) -> None:
    follower = Follower()
    paged, too_old = reply(200, pod_list(pod("a"), more="t")), status(410, "too old", "Expired")
    server.on("GET", LIST, paged, too_old, paged, too_old, reply(200, pod_list(pod("a"), pod("b"))))
    server.on("GET", WATCH, hang())
    with reflecting(server, follower, page=1) as reflector:
        assert reflector.wait_synced(WAIT)
    assert "limit" not in server.called("GET", LIST)[4].query
    assert follower.told == ["seen a 1", "seen b 1"]


def test_a_list_that_breaks_between_pages_tells_nothing_by_halves(server: ScriptedServer) -> None:
    follower = Follower()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a"), more="t")),
        drop(),
        drop(),
        reply(200, pod_list(pod("b", 11), version=11)),
    )
    server.on("GET", WATCH, hang())
    with reflecting(server, follower, page=1) as reflector:
        assert reflector.wait_synced(WAIT)
    assert follower.told == ["seen b 11"]


def test_an_undecodable_object_costs_only_itself(server: ScriptedServer) -> None:
    follower = Follower()
    broken = pod("bad") | {"spec": {"containers": "none"}}
    server.on("GET", LIST, reply(200, pod_list(pod("a"), broken, None, 7, {"metadata": {"name": "no-uid"}}, pod("b"))))
    server.on("GET", WATCH, hang())
    with reflecting(server, follower) as reflector:
        assert reflector.wait_synced(WAIT)
        assert reflector.stats.decode_errors == 4
    assert follower.told == ["seen a 1", "seen b 1"]


def deep(name: str, version: int) -> bytes:
    """A pod that is nested more deeply than any decoder goes."""
    meta = json.dumps(pod(name, version)["metadata"])
    return b'{"metadata":%s,"spec":{"odd":%s}}' % (meta.encode(), b"[" * 50_000 + b"]" * 50_000)


def test_an_object_nested_too_deeply_costs_only_itself(server: ScriptedServer) -> None:
    follower = Follower()
    listed = json.dumps(pod_list(pod("a"), "DEEP", pod("b"))).encode().replace(b'"DEEP"', deep("bad", 2))
    shown = b'{"type":"ADDED","object":%s}\n' % deep("worse", 11)
    server.on("GET", LIST, reply(200, listed))
    server.on("GET", WATCH, lines(shown, event("ADDED", pod("c", 12)), then="hang"))
    with capture_logs() as said, reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen a 1", "seen b 1", "seen c 12"])
        stats = reflector.stats
    assert (stats.decode_errors, stats.broken_lines, stats.lists) == (2, 0, 1)
    assert "default/bad: " in said[0]["objects"][0]
    assert said[1]["name"] == "default/worse"


def test_a_bad_object_is_spoken_of_once_and_those_of_a_list_in_one_line(server: ScriptedServer) -> None:
    follower = Follower()
    bad = [pod(f"bad-{number}") | {"spec": {"priority": "high"}} for number in range(30)]
    again = [event("MODIFIED", pod("bad-0", 11 + number) | {"spec": {"priority": "high"}}) for number in range(5)]
    other = [event("MODIFIED", pod("new", 21 + number) | {"spec": {"priority": "high"}}) for number in range(5)]
    worse = event("MODIFIED", pod("new", 30) | {"spec": {"priority": 2**40}})
    server.on("GET", LIST, reply(200, pod_list(*bad)))
    server.on("GET", WATCH, lines(*again, *other, worse, event("ADDED", pod("a", 31)), then="hang"))
    with capture_logs() as said, reflecting(server, follower) as reflector:
        server.wait_for(lambda: "seen a 31" in follower.told)
        assert reflector.stats.decode_errors == 41
    assert [(line["event"], line.get("count"), line.get("name")) for line in said] == [
        ("objects in a list cannot be read", 30, None),
        ("object cannot be read", None, "default/new"),
        ("object cannot be read", None, "default/new"),
    ]
    assert len(said[0]["objects"]) == 10


def test_what_changes_nothing_that_scheduling_reads_is_not_told(server: ScriptedServer) -> None:
    follower = Follower()
    feed = Feed()
    server.on("GET", LIST, reply(200, pod_list(pod("a", label="x"))))
    server.on("GET", WATCH, feed)
    with reflecting(server, follower) as reflector:
        feed.wait_opened()
        feed.send(event("MODIFIED", pod("a", 11, label="x")), event("MODIFIED", pod("a", 12, label="x")))
        eventually(lambda: reflector.version == "12")
        feed.send(event("MODIFIED", pod("a", 13, label="y")), event("DELETED", pod("a", 14, label="y")))
        eventually(lambda: reflector.version == "14")
    assert follower.told == ["seen a 1", "seen a 13", "gone a 14"]


def test_events_that_arrive_together_are_told_together(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, together(*(event("ADDED", pod(f"p{number}", 11 + number)) for number in range(40))))
    with reflecting(server, follower):
        server.wait_for(lambda: len(follower.told) == 40)
    assert len(follower.batches) < 10


def test_what_was_known_of_an_object_stays_when_it_becomes_undecodable(server: ScriptedServer) -> None:
    follower = Follower()
    broken = pod("a", 11) | {"spec": {"priority": "high"}}
    server.on("GET", LIST, reply(200, pod_list(pod("a"))), reply(200, pod_list(broken, version=20)))
    server.on("GET", WATCH, lines(event("MODIFIED", broken), expired()), hang())
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: reflector.stats.relists == 1)
        assert reflector.stats.decode_errors == 2
    assert follower.told == ["seen a 1"]


def test_an_undecodable_delete_still_deletes(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, lines(event("DELETED", pod("a", 11) | {"spec": {"priority": "high"}}), then="hang"))
    with reflecting(server, follower):
        server.wait_for(lambda: follower.told == ["seen a 1", "gone a 1"])


def test_odd_events_are_counted_and_skipped(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on(
        "GET",
        WATCH,
        lines(
            event("RENAMED", pod("a", 11)),
            event("ADDED", {}),
            event("ADDED", None),
            event("ADDED", {"metadata": {"name": "x"}}),
            event("BOOKMARK", {}),
            event("ADDED", pod("b", 12)),
            then="hang",
        ),
    )
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen b 12"])
        stats = reflector.stats
    assert (stats.unknown_events, stats.decode_errors, stats.lists) == (1, 3, 1)


def test_duplicated_and_late_events_change_nothing(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list()))
    first, second, last = event("ADDED", pod("a", 11)), event("MODIFIED", pod("a", 12)), event("DELETED", pod("a", 13))
    server.on(
        "GET",
        WATCH,
        lines(first, first, second, first, second, last, last, second, event("ADDED", pod("b", 14)), then="hang"),
    )
    with reflecting(server, follower):
        server.wait_for(lambda: "seen b 14" in follower.told)
    assert follower.told == ["seen a 11", "seen a 12", "gone a 13", "seen b 14"]


@pytest.mark.parametrize(
    "line", [b"{nonsense\n", b"\xff\xfe\n", b'{"type":"ADDED"}\n', b"[]\n", b'{"type":7,"object":{}}\n']
)
def test_a_broken_line_is_counted_and_lists_anew(server: ScriptedServer, line: bytes) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list(pod("a"))), reply(200, pod_list(pod("a"), pod("b", 12), version=12)))
    server.on("GET", WATCH, lines(line), hang())
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen a 1", "seen b 12"])
        assert reflector.stats.broken_lines == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"items": 3}', b'{"items": []}'])
def test_a_broken_list_is_read_again(server: ScriptedServer, body: bytes) -> None:
    server.on("GET", LIST, reply(200, body), reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, hang())
    with reflecting(server, Follower()) as reflector:
        assert reflector.wait_synced(WAIT)


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 503])
def test_an_error_answer_is_tried_again(server: ScriptedServer, code: int) -> None:
    follower = Follower()
    server.on("GET", LIST, status(code, "not now"), reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, status(code, "not now"), lines(event("ADDED", pod("b", 11)), then="hang"))
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen a 1", "seen b 11"])
        assert reflector.stats.failures == 2
        assert reflector.stats.lists == 2


def test_retry_after_is_honoured(server: ScriptedServer, api: ApiServer) -> None:
    reflector = Reflector(api, PODS, Follower(), timing=CALM)
    server.on("GET", LIST, status(429, "slow down", Retry_After="7"))
    assert reflector._round() == 7.0
    server.on("GET", LIST, status(429, "slow down", Retry_After="999999"))
    assert reflector._round() == 120.0


def test_a_sink_that_raises_is_told_again_by_a_list(server: ScriptedServer) -> None:
    follower = Follower()
    feed = Feed()
    server.on(
        "GET",
        LIST,
        reply(200, pod_list(pod("a"), pod("b"))),
        reply(200, pod_list(pod("b", 12), pod("c", 12), version=12)),
    )
    server.on("GET", WATCH, feed)
    with reflecting(server, follower) as reflector:
        feed.wait_opened()
        follower.fail_next = 1
        feed.send(event("DELETED", pod("a", 11)), event("MODIFIED", pod("b", 12)), event("ADDED", pod("c", 12)))
        server.wait_for(lambda: follower.versions == {"b": "12", "c": "12"})
        assert reflector.stats.handler_failures == 1
    assert follower.told[2:] == ["gone a 1", "seen b 12", "seen c 12"]


def test_batches_are_small(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list(*(pod(f"p{n}") for n in range(120)))))
    server.on("GET", WATCH, hang())
    with reflecting(server, follower) as reflector:
        assert reflector.wait_synced(WAIT)
    assert follower.batches == [50, 50, 20]


def test_a_list_from_the_past_is_refused_unless_the_server_insists(server: ScriptedServer) -> None:
    follower = Follower()
    server.on("GET", LIST, reply(200, pod_list(pod("a", 30), version=30)), reply(200, pod_list(pod("a", 5), version=9)))
    server.on("GET", WATCH, lines(expired()), hang())
    with reflecting(server, follower) as reflector:
        server.wait_for(lambda: follower.told == ["seen a 30", "seen a 5"])
        assert reflector.stats.stale_lists == 2


def test_stop_is_prompt_while_a_watch_is_open(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, lines(then="hang"))
    reflector = Reflector(api, PODS, Follower())
    reflector.start()
    server.wait_for(lambda: len(server.requests) == 2)
    reflector.stop(timeout=WAIT)
    assert not reflector._thread.is_alive()


def test_stop_right_after_start_ends_the_thread(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, hang())
    for _ in range(20):
        reflector = Reflector(api, PODS, Follower())
        reflector.start()
        reflector.stop(timeout=WAIT)
        assert not reflector._thread.is_alive()


def test_an_unreachable_server_is_waited_for() -> None:
    reached = threading.Event()
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    reflector = Reflector(api, PODS, lambda batch: reached.set(), timing=CALM)
    reflector.start()
    assert not reflector.wait_synced(0.1)
    reflector.stop(timeout=WAIT)
    assert reflector.stats.failures >= 1
    assert not reached.is_set()


def test_staleness_is_measured_from_the_last_word(server: ScriptedServer, api: ApiServer) -> None:
    now = [100.0]
    reflector = Reflector(api, PODS, Follower(), clock=lambda: now[0])
    now[0] = 130.0
    assert reflector.last_contact_age() == 30.0
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, lines(bookmark(11)))
    reflector._round()
    now[0] = 131.0
    assert reflector.last_contact_age() == 1.0


def test_the_version_is_what_the_sink_was_told(server: ScriptedServer) -> None:
    feed = Feed()
    server.on("GET", LIST, reply(200, pod_list(pod("a"), version=5)))
    server.on("GET", WATCH, feed)
    follower = Follower()
    with reflecting(server, follower) as reflector:
        assert reflector.wait_synced(WAIT)
        assert reflector.version == "5"
        feed.send(event("ADDED", pod("b", 7)))
        eventually(lambda: reflector.version == "7")
        assert "seen b 7" in follower.told


def test_a_wanted_list_interrupts_the_watch(server: ScriptedServer) -> None:
    server.on("GET", LIST, reply(200, pod_list(pod("a"), version=5)), reply(200, pod_list(pod("b", 8), version=9)))
    server.on("GET", WATCH, hang())
    follower = Follower()
    with reflecting(server, follower) as reflector:
        assert reflector.wait_synced(WAIT)
        reflector.relist()
        eventually(lambda: reflector.version == "9")
        assert list(follower.mirror) == ["b"]


def test_a_bookmark_that_is_asked_for_comes_with_a_short_watch_from_where_it_was(server: ScriptedServer) -> None:
    server.on("GET", LIST, reply(200, pod_list(pod("a"), version=5)))
    server.on("GET", WATCH, lines(event("ADDED", pod("b", 7)), then="hang"), lines(bookmark(99)), lines(then="hang"))
    with reflecting(server, Follower()) as reflector:
        eventually(lambda: reflector.version == "7")
        reflector.ask_for_bookmark()
        eventually(lambda: reflector.version == "99")
        server.wait_for(lambda: len(server.requests) == 4)
        watches = [request.query for request in server.requests[1:]]
    assert [(query["resourceVersion"], int(query["timeoutSeconds"]) < 5) for query in watches] == [
        ("5", False),
        ("7", True),
        ("99", False),
    ]
    assert (reflector.stats.lists, reflector.stats.failures) == (1, 0)


def test_a_wanted_list_does_not_wait_for_the_back_off(server: ScriptedServer) -> None:
    patient = Timing(backoff=BackoffSettings(shortest=60, longest=120))
    server.on("GET", LIST, status(500, "down"), reply(200, pod_list(pod("a"), version=5)))
    server.on("GET", WATCH, hang())
    follower = Follower()
    with reflecting(server, follower, timing=patient) as reflector:
        eventually(lambda: reflector.stats.failures)
        reflector.relist()
        assert reflector.wait_synced(WAIT)
