"""Who reads a watch: an event loop while there is one that is not held up, the reflector's thread otherwise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithm.model import Pod
from extender.kube.client.api import ApiServer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.informers import loop_reader
from extender.kube.informers.loop_reader import LoopReader, Next
from extender.kube.informers.reflector import PODS, Change, Reflector, Timing
from tests.support.apiserver.kube_objects import event, pod, pod_list
from tests.support.apiserver.scripted_server import WAIT, Feed, ScriptedServer, reply
from tests.support.http.loop_thread import LoopThread

LIST = "/api/v1/pods"
WATCH = "/api/v1/pods?watch"
TIMING = Timing(backoff=BackoffSettings(shortest=0.01, longest=0.05))


class Told:
    """The names of the pods that were shown, and the threads that did it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.threads: list[str] = []
        self.batches: list[int] = []

    def __call__(self, changes: list[Change[Pod]]) -> None:
        self.batches.append(len(changes))
        for change in changes:
            self.names.append(change.obj.name)
            self.threads.append(threading.current_thread().name)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def reader() -> LoopReader:
    return LoopReader()


@pytest.fixture
def host(reader: LoopReader) -> Iterator[LoopThread]:
    with LoopThread() as host:
        host.call(reader.enter_loop, host.loop)
        yield host
        reader.leave_loop()


@pytest.fixture
def feed(server: ScriptedServer) -> Feed:
    feed = Feed()
    server.on("GET", LIST, reply(200, pod_list()))
    server.on("GET", WATCH, feed)
    return feed


@pytest.fixture
def reflector(api: ApiServer, feed: Feed, told: Told, reader: LoopReader) -> Iterator[Reflector[Pod]]:
    reflector = Reflector(api, PODS, told, timing=TIMING, in_loop=reader)
    yield reflector
    reflector.stop()
    assert not reflector._thread.is_alive()


def send(server: ScriptedServer, feed: Feed, told: Told, *names: str) -> None:
    """These pods are added; returns when they are told."""
    versions = range(len(told.names) + 11, len(told.names) + 11 + len(names))
    feed.send(*(event("ADDED", pod(name, version)) for name, version in zip(names, versions, strict=True)))
    server.wait_for(lambda: told.names[-1:] == [names[-1]])


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_loop_reads_while_there_is_one(
    server: ScriptedServer, feed: Feed, told: Told, reader: LoopReader, host: LoopThread, reflector: Reflector[Pod]
) -> None:
    reflector.start()
    send(server, feed, told, "a")
    send(server, feed, told, "b")
    assert told.threads == ["loop", "loop"]
    reader.leave_loop()
    names = ["a", "b"]
    for number in range(50):  # what the loop has begun to read it still tells
        names.append(f"c{number}")
        send(server, feed, told, names[-1])
        if told.threads[-1] == "reflect-pods":
            break
    assert told.threads[-1] == "reflect-pods"
    host.call(reader.enter_loop, host.loop)
    for name in ("d", "e"):
        names.append(name)
        send(server, feed, told, name)
    assert told.threads[-1] == "loop"
    assert told.names == names


def test_a_loop_that_ends_gives_the_watch_back(
    server: ScriptedServer, feed: Feed, told: Told, reader: LoopReader, host: LoopThread, reflector: Reflector[Pod]
) -> None:
    reflector.start()
    send(server, feed, told, "a")
    host.end()
    reader.leave_loop()
    send(server, feed, told, "b")
    assert told.threads == ["loop", "reflect-pods"]


@pytest.mark.usefixtures("host")
def test_events_that_arrive_together_are_told_a_few_at_a_time(
    server: ScriptedServer, feed: Feed, told: Told, reflector: Reflector[Pod]
) -> None:
    reflector.start()
    names = [f"p{number}" for number in range(100)]
    send(server, feed, told, *names)
    assert told.names == names
    assert max(told.batches) <= 12


@pytest.mark.usefixtures("host")
def test_a_large_event_is_told_by_the_thread_and_the_loop_goes_on(
    server: ScriptedServer, feed: Feed, told: Told, reflector: Reflector[Pod]
) -> None:
    reflector.start()
    large = pod("b", 12)
    large["metadata"]["annotations"] = {"note": "x" * 40_000}
    feed.send(event("ADDED", pod("a", 11)), event("ADDED", large))
    server.wait_for(lambda: len(told.names) == 2)
    send(server, feed, told, "c")
    assert (told.names, told.threads) == (["a", "b", "c"], ["loop", "reflect-pods", "loop"])


def test_a_loop_that_is_held_up_holds_up_no_event(
    server: ScriptedServer,
    feed: Feed,
    told: Told,
    host: LoopThread,
    reflector: Reflector[Pod],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_reader, "_LOOK", 0.05)
    monkeypatch.setattr(loop_reader, "_HELD_UP", 0.1)
    reflector.start()
    send(server, feed, told, "a")
    release = threading.Event()
    host.loop.call_soon_threadsafe(release.wait, WAIT)
    time.sleep(0.2)
    send(server, feed, told, "b")
    assert told.threads == ["loop", "reflect-pods"]
    release.set()
    send(server, feed, told, "c")


def test_what_a_step_raises_is_raised_in_the_thread_and_the_loop_goes_on(reader: LoopReader, host: LoopThread) -> None:
    class StepError(Exception):
        pass

    def step() -> Next:
        raise StepError

    ours, theirs = os.pipe()
    try:
        with pytest.raises(StepError):
            reader.read(ours, step, lambda: WAIT)
    finally:
        os.close(ours)
        os.close(theirs)
    assert host.call(lambda: "goes on") == "goes on"


def test_reading_ends_when_no_time_is_left_and_leaves_no_descriptor_open(reader: LoopReader, host: LoopThread) -> None:
    ours, theirs = os.pipe()
    before = open_descriptors()
    try:
        end = time.monotonic() + 0.05
        reader.read(ours, lambda: Next.ON_DATA, lambda: end - time.monotonic())
        host.call(lambda: None)  # what is scheduled in the loop before it is done
        assert open_descriptors() == before
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_loop_nothing_is_read(reader: LoopReader) -> None:
    reader.read(-1, lambda: pytest.fail("a step without a loop"), lambda: WAIT)
