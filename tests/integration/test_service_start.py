"""Starting and stopping a whole server: whatever is missing, it stays alive, says why it is not ready, and stops."""

from __future__ import annotations

import socket
import threading

from extender.embedded.apiserver.server import serve_in_thread
from extender.server.service import Service
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.api import eventually


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def service(url: str) -> Service:
    return Service(Settings(cluster=ClusterSettings(server=url)))


def test_an_api_server_that_does_not_answer_is_named_in_readiness_and_it_stays_alive() -> None:
    server = service(f"http://127.0.0.1:{unused_port()}")
    server.start()
    try:
        eventually(lambda: "nodes: " in server.runtime.readiness().detail)
        assert "refused" in server.runtime.readiness().detail
        assert server.runtime.liveness().ready
    finally:
        server.stop()
    assert not server._starter.is_alive()


def test_it_becomes_ready_once_both_informers_are_synced() -> None:
    with serve_in_thread() as cluster:
        server = service(cluster.url)
        server.start()
        try:
            eventually(lambda: server.runtime.readiness().ready)
        finally:
            server.stop()


def test_use_is_sampled_from_the_start_until_it_stops() -> None:
    with serve_in_thread() as cluster:
        server = service(cluster.url)
        server.start()
        try:
            eventually(lambda: len(server.runtime.model.usage.samples()) == 1)
        finally:
            server.stop()
    assert "waggle-usage" not in {thread.name for thread in threading.enumerate()}


def test_it_may_be_stopped_at_once() -> None:
    with serve_in_thread() as cluster:
        for _ in range(5):
            server = service(cluster.url)
            server.start()
            server.stop()
            server.stop()
            assert not server._starter.is_alive()


def test_it_may_be_stopped_without_having_been_started() -> None:
    server = service(f"http://127.0.0.1:{unused_port()}")
    server.stop()


def test_a_start_that_fails_is_said_and_not_swallowed() -> None:
    with serve_in_thread() as cluster:
        server = service(cluster.url)
        server._pods_buffer.release = None
        server.start()
        try:
            eventually(lambda: "start failed" in server.runtime.readiness().detail)
        finally:
            server.stop()
