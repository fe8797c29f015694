"""How long the API server has been silent: a pause between bookmarks is no silence, a failing request is one soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.kube.client.kubeconfig import connect
from extender.kube.informers.reflector import NODES, PODS, Reflector
from extender.server.silence import FAILING, QUIET, ApiSilence
from extender.settings import ClusterSettings
from tests.support.apiserver.kube_objects import bookmark, pod_list
from tests.support.apiserver.scripted_server import ScriptedServer, lines, reply, status

NODE_LIST = pod_list() | {"kind": "NodeList"}


class Heard:
    """Two informers of a scripted API server, with a clock that the test sets."""

    def __init__(self, server: ScriptedServer) -> None:
        self.now = 100.0
        self.server = server
        self.api = connect(ClusterSettings(server=server.url))
        self.pods = Reflector(self.api, PODS, lambda _: None, clock=lambda: self.now)
        self.nodes = Reflector(self.api, NODES, lambda _: None, clock=lambda: self.now)
        self.silence = ApiSilence((self.nodes, self.pods))
        server.on("GET", "/api/v1/pods", reply(200, pod_list()))
        server.on("GET", "/api/v1/nodes", reply(200, NODE_LIST))
        self.watch(self.pods)
        self.watch(self.nodes)

    def watch(self, reflector: Reflector) -> None:
        self.server.on("GET", f"{reflector.path}?watch", lines(bookmark(11)))
        reflector._round()

    def refuse(self, reflector: Reflector) -> None:
        self.server.on("GET", f"{reflector.path}?watch", status(503, "etcd is away"))
        reflector._round()


@pytest.fixture
def heard() -> Iterator[Heard]:
    with ScriptedServer() as server:
        made = Heard(server)
        yield made
        made.api.close()


def test_a_pause_between_bookmarks_is_no_silence(heard: Heard) -> None:
    heard.now += QUIET - 1
    assert (heard.silence.seconds(), heard.silence.readiness_warning()) == (0.0, "")


def test_a_longer_pause_is_a_silence_and_names_what_is_old(heard: Heard) -> None:
    heard.now += 150
    heard.watch(heard.nodes)
    assert heard.silence.seconds() == 150
    assert heard.silence.readiness_warning() == "API server silent for 150 s: pods are as they were then"


def test_requests_that_fail_are_a_silence_soon_and_say_why(heard: Heard) -> None:
    heard.now += FAILING - 1
    heard.refuse(heard.pods)
    assert heard.silence.seconds() == 0
    heard.now += 1
    assert heard.silence.seconds() == FAILING
    assert "pods are as they were then (watch /api/v1/pods: 503 etcd is away" in heard.silence.readiness_warning()


def test_one_word_ends_it(heard: Heard) -> None:
    heard.now += 150
    heard.refuse(heard.pods)
    heard.watch(heard.nodes)
    assert heard.silence.seconds() == 150
    heard.watch(heard.pods)
    assert (heard.silence.seconds(), heard.silence.readiness_warning()) == (0.0, "")


def test_before_the_first_list_there_is_nothing_old() -> None:
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    now = 100.0
    silence = ApiSilence([Reflector(api, PODS, clock=lambda: now)])
    now += 1000
    assert silence.seconds() == 0
    api.close()
