"""Watches that do not end their lines, drip, or bring more than there is room for: left in time, told, survived."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from algorithm.model import Pod
from extender.kube.client import bounds
from extender.kube.client.api import ApiServer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.client.bounds import Bound
from extender.kube.informers.listing import unlimited
from extender.kube.informers.reflection import PODS, RelistError
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from extender.kube.informers.store import weigh
from extender.kube.informers.watching import Lines
from tests.support.apiserver.kube_objects import event, pod, pod_list
from tests.support.apiserver.scripted_server import Answer, Closed, Peer, ScriptedServer, lines, reply, truncated

pytestmark = pytest.mark.usefixtures("read_in")

LIST = "/api/v1/pods"
WATCH = "/api/v1/pods?watch"
IMPATIENT = Timing(backoff=BackoffSettings(shortest=0.01, longest=0.05), list_page=0.3, watch_silence=0.3)


@contextmanager
def reflecting(api: ApiServer, *, most: Callable[[], int] = unlimited) -> Iterator[tuple[Reflector[Pod], list[str]]]:
    """A reflector of pods, and the names of those that it has shown and not taken back."""
    shown: list[str] = []

    def sink(changes: list[Change[Pod]]) -> None:
        for change in changes:
            (shown.append if change.kind is ChangeKind.SEEN else shown.remove)(change.obj.name)

    reflector = Reflector(api, PODS, sink, timing=IMPATIENT, most=most, rng=random.Random(1))
    reflector.start()
    try:
        yield reflector, shown
    finally:
        reflector.stop()
        assert not reflector._thread.is_alive()


def forever(piece: bytes, pause: float = 0.0) -> Answer:
    """A watch of chunks that are the same."""

    def answer(peer: Peer, _request: object) -> None:
        peer.start_chunks()
        while not peer.stopped.wait(pause):
            peer.chunk(piece)
        raise Closed

    return answer


@pytest.mark.parametrize("piece", [b'{"type":', b"\n", b" \n"])
def test_only_a_whole_line_puts_off_the_end_of_a_watch(server: ScriptedServer, api: ApiServer, piece: bytes) -> None:
    server.on("GET", LIST, reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, forever(piece, 0.02), lines(event("ADDED", pod("b", 11)), then="hang"))
    with reflecting(api) as (reflector, shown):
        server.wait_for(lambda: "b" in shown)
        assert reflector.stats.silences >= 1
        assert reflector.stats.lists == 1
    assert sum(api.refusals.counts().values()) == 0  # a silent watch is nothing special


def test_a_line_without_end_ends_the_watch_and_is_told(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, reply(200, pod_list(pod("a"))), reply(200, pod_list(pod("a"), pod("b"))))
    server.on("GET", WATCH, forever(b"x" * bounds.MIB), lines(then="hang"))
    with reflecting(api) as (reflector, shown):
        server.wait_for(lambda: "b" in shown)
        assert "more than 4194304 bytes" in reflector.last_error
    assert api.refusals.counts()[Bound.SIZE] == 1
    assert "4194304" in api.refusals.readiness_warning()


def test_lines_are_put_together_from_pieces_up_to_a_bound() -> None:
    lines_of = Lines(most=10)
    assert lines_of.feed(b"ab") == []
    assert lines_of.feed(b"cd\nef\n\n \ngh") == [b"abcd", b"ef"]
    assert lines_of.feed(b"ij\n") == [b"ghij"]
    assert lines_of.feed(b"0123456789") == []
    with pytest.raises(RelistError):
        lines_of.feed(b"0")
    with pytest.raises(RelistError):
        Lines(most=10).feed(b"0123456789a\n")


def test_a_page_that_does_not_end_in_time_is_left(server: ScriptedServer, api: ApiServer) -> None:
    def drip(peer: Peer, _request: object) -> None:
        peer.head(200, {"Content-Length": "1000"})
        while not peer.stopped.wait(0.02):
            peer.send(b" ")

    server.on("GET", LIST, drip, reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, lines(then="hang"))
    with reflecting(api) as (reflector, shown):
        server.wait_for(lambda: shown == ["a"])
        assert reflector.stats.failures == 1
    assert api.refusals.counts()[Bound.TIME] == 1


def test_pods_without_end_are_not_kept_and_what_was_known_stays(server: ScriptedServer, api: ApiServer) -> None:
    numbers = itertools.count(20)

    def flood(peer: Peer, _request: object) -> None:
        peer.start_chunks()
        while not peer.stopped.is_set():
            batch = (event("ADDED", pod(f"w{number}", number)) for number in itertools.islice(numbers, 50))
            peer.chunk(b"".join(json.dumps(each).encode() + b"\n" for each in batch))
        raise Closed

    room = 100 * weigh(PODS.decode(json.dumps(pod("w100", 100)).encode()))
    server.on("GET", LIST, reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, flood, lines(then="hang"))
    with reflecting(api, most=lambda: room) as (reflector, shown):
        server.wait_for(lambda: api.refusals.counts()[Bound.CACHE] > 0)
        assert "cluster.cache_mib" in reflector.last_error
        assert 95 <= len(shown) <= 205
        assert reflector.weight < 2 * room
        assert "a" in shown


def test_a_list_that_does_not_fit_leaves_what_was_known(server: ScriptedServer, api: ApiServer) -> None:
    room = 3 * weigh(PODS.decode(json.dumps(pod("a")).encode()))
    many = pod_list(*(pod(f"p{number}") for number in range(10)), version=20)
    server.on("GET", LIST, reply(200, pod_list(pod("a"))), reply(200, many))
    server.on("GET", WATCH, lines(then="hang"))
    with reflecting(api, most=lambda: room) as (reflector, shown):
        server.wait_for(lambda: shown == ["a"])
        reflector.relist()
        server.wait_for(lambda: api.refusals.counts()[Bound.CACHE] > 0)
        assert shown == ["a"]


def test_half_an_answer_to_a_list_is_no_list(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, truncated(b'{"items":[]'), reply(200, pod_list(pod("a"))))
    server.on("GET", WATCH, lines(then="hang"))
    with reflecting(api) as (_, shown):
        server.wait_for(lambda: shown == ["a"])
