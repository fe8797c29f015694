"""A reflector of a custom resource, for two handlers: all that the package does not know of it is in this file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from algorithm.decoding import DecodeError
from extender.kube.client.api import ApiServer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.informers.reflection import NODES, PODS, Resource
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from tests.support.apiserver.kube_objects import event, expired
from tests.support.apiserver.scripted_server import WAIT, Feed, ScriptedServer, hang, lines, reply


@dataclass(frozen=True, slots=True)
class Pool:
    """A record with the fields that somebody reads: another engine's, and no pod."""

    name: str
    uid: str
    resource_version: str
    replicas: int


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _Spec(msgspec.Struct):
    replicas: int


class _Wire(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_wire = msgspec.json.Decoder(_Wire)


def decode(raw: bytes | msgspec.Raw) -> Pool:
    try:
        wire = _wire.decode(raw)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from error
    return Pool(wire.metadata.name, wire.metadata.uid, wire.metadata.resource_version, wire.spec.replicas)


POOLS: Resource[Pool] = Resource(
    "pools",
    decode,
    lambda pool: pool.name,
    group="waggle.example.com",
    version="v1beta1",
    namespace="team-a",
    label_selector="tier=warm",
    field_selector="metadata.name!=old",
)
LIST = "/apis/waggle.example.com/v1beta1/namespaces/team-a/pools"
WATCH = f"{LIST}?watch"
TIMING = Timing(backoff=BackoffSettings(shortest=0.01, longest=0.05))


def pool(name: str, version: int, replicas: Any = 1) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "apiVersion": "waggle.example.com/v1beta1",
        "kind": "Pool",
        "metadata": metadata,
        "spec": {"replicas": replicas},
    }


def pool_list(*items: Any, version: int = 10) -> dict[str, Any]:
    return {"kind": "PoolList", "metadata": {"resourceVersion": str(version)}, "items": list(items)}


class Mirror:
    """What a handler knows after all that it was told, some of it perhaps twice."""

    def __init__(self) -> None:
        self.replicas: dict[str, int] = {}
        self.told: list[str] = []
        self.fail_next = 0

    def __call__(self, changes: list[Change[Pool]]) -> None:
        if self.fail_next:
            self.fail_next -= 1
            raise RuntimeError("this handler is broken")
        for change in changes:
            self.told.append(f"{change.kind} {change.obj.name} {change.obj.resource_version}")
            if change.kind is ChangeKind.SEEN:
                self.replicas[change.obj.name] = change.obj.replicas
            else:
                self.replicas.pop(change.obj.name, None)


@contextmanager
def reflecting(api: ApiServer, *handlers: Mirror) -> Iterator[Reflector[Pool]]:
    reflector = Reflector(api, POOLS, timing=TIMING)
    for handler in handlers:
        reflector.add_handler(handler)
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()


def test_both_handlers_get_the_list_and_the_events(server: ScriptedServer, api: ApiServer) -> None:
    first, second, feed = Mirror(), Mirror(), Feed()
    server.on("GET", LIST, reply(200, pool_list(pool("a", 1), pool("b", 2, 5))))
    server.on("GET", WATCH, feed)
    with reflecting(api, first, second) as reflector:
        assert reflector.wait_synced(WAIT)
        feed.send(event("MODIFIED", pool("a", 11, 3)), event("DELETED", pool("b", 12)))
        server.wait_for(lambda: second.replicas == {"a": 3})
    assert first.told == second.told == ["seen a 1", "seen b 2", "seen a 11", "gone b 12"]


def test_list_and_watch_ask_for_the_namespace_and_the_selected_objects(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, reply(200, pool_list()))
    server.on("GET", WATCH, hang())
    with reflecting(api, Mirror()):
        server.wait_for(lambda: len(server.requests) == 2)
    for request in server.requests:
        selected = request.query["labelSelector"], request.query["fieldSelector"]
        assert (request.path, selected) == (LIST, ("tier=warm", "metadata.name!=old"))


def test_an_event_that_expired_lists_again_and_tells_both_the_difference(
    server: ScriptedServer, api: ApiServer
) -> None:
    first, second = Mirror(), Mirror()
    again = pool_list(pool("b", 20), version=20)
    server.on("GET", LIST, reply(200, pool_list(pool("a", 1))), reply(200, again))
    server.on("GET", WATCH, lines(expired()), hang())
    with reflecting(api, first, second):
        server.wait_for(lambda: second.told == ["seen a 1", "gone a 1", "seen b 20"])
    assert first.told == second.told


def test_one_that_cannot_be_read_harms_no_other(server: ScriptedServer, api: ApiServer) -> None:
    mirror = Mirror()
    server.on("GET", LIST, reply(200, pool_list(pool("a", 1, "many"), pool("b", 2))))
    server.on("GET", WATCH, hang())
    with reflecting(api, mirror) as reflector:
        assert reflector.wait_synced(WAIT)
        assert reflector.stats.decode_errors == 1
    assert mirror.replicas == {"b": 1}


@pytest.mark.parametrize("broken", [0, 1], ids=["the first", "the second"])
def test_a_handler_that_raises_is_told_again_and_the_other_misses_nothing(
    server: ScriptedServer, api: ApiServer, broken: int
) -> None:
    mirrors, feed = (Mirror(), Mirror()), Feed()
    again = pool_list(pool("b", 12, 7), version=12)
    server.on("GET", LIST, reply(200, pool_list(pool("a", 1), pool("b", 2))), reply(200, again))
    server.on("GET", WATCH, feed)
    with reflecting(api, *mirrors) as reflector:
        feed.wait_opened()
        mirrors[broken].fail_next = 1
        feed.send(event("DELETED", pool("a", 11)), event("MODIFIED", pool("b", 12, 7)))
        server.wait_for(lambda: all(mirror.replicas == {"b": 7} for mirror in mirrors))
        assert reflector.stats.handler_failures == 1


def test_after_the_start_no_handler_is_added(server: ScriptedServer, api: ApiServer) -> None:
    server.on("GET", LIST, reply(200, pool_list()))
    server.on("GET", WATCH, hang())
    with reflecting(api, Mirror()) as reflector, pytest.raises(RuntimeError, match="all handlers before the start"):
        reflector.add_handler(Mirror())


def test_a_resource_is_named_by_what_is_reflected_of_it() -> None:
    assert (PODS.name, NODES.name) == ("pods", "nodes")
    assert (PODS.path, NODES.path) == ("/api/v1/pods", "/api/v1/nodes")
    everything: Resource[Pool] = Resource("pools", decode, lambda pool: pool.name, group="waggle.example.com")
    assert everything.name == "pools.waggle.example.com"
    assert everything.path == "/apis/waggle.example.com/v1/pools"
    assert POOLS.name == "pools.waggle.example.com[team-a&tier=warm&metadata.name!=old]"
