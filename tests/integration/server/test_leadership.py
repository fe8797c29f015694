"""Two replicas behind one API server: one decides at a time, whatever happens to it, and no pod is bound twice.

Each replica is a whole Service with its HTTP face, and reaches the API server over a connection of its own, which the
test can hold up (a paused process, or a network that delivers later what it was given) or cut (a partition).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.server.service import Service
from extender.settings import ClusterSettings, LeaderElectionSettings, ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread as serve_http
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.witness import Books
from tests.support.http.fixed_runtime import Client

SHORT = LeaderElectionSettings(enabled=True, lease_seconds=2, renew_deadline_seconds=1.5, retry_seconds=0.3)
RELEASED = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "waggle", "namespace": "default"},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"},
}
NODES = ["n1", "n2", "n3"]


class Replica:
    """A replica with its line to the API server."""

    def __init__(self, cluster: EmbeddedCluster, name: str, election: LeaderElectionSettings) -> None:
        self.name = name
        self.line = Proxy(cluster.url)
        settings = Settings(
            server=ServerSettings(port=0),
            cluster=ClusterSettings(server=self.line.url, request_timeout_seconds=3),
            leader_election=election.model_copy(update={"identity": name}),
        )
        self.service = Service(settings)
        self.service.start()
        self.web = serve_http(create_app(self.service.runtime, settings), settings)
        self.client = Client(self.web.url)

    @property
    def ready(self) -> bool:
        return self.client.get("/readyz").status == 200

    @property
    def why(self) -> str:
        return self.client.get("/readyz").text

    def filter(self, pod: dict[str, Any]) -> dict[str, Any]:
        return self.client.post("/filter", {"Pod": pod, "NodeNames": NODES}).json

    def bind(self, pod: dict[str, Any], node: str) -> str:
        meta = pod["metadata"]
        asked = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        return self.client.post("/bind", asked).json["Error"]

    def schedule(self, pod: dict[str, Any]) -> str:
        """The node to which it was bound through this replica; "" if it did not do so."""
        answer = self.filter(pod)
        names = answer["NodeNames"] or []
        return names[0] if names and not self.bind(pod, names[0]) else ""

    def stop(self) -> None:
        self.service.stop()
        self.web.stop()
        self.line.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as server:
        for name in NODES:
            server.create(node(name))
        yield server


class Pair:
    def __init__(self, cluster: EmbeddedCluster, election: LeaderElectionSettings) -> None:
        self.cluster = cluster
        self.election = election
        self.all: list[Replica] = []
        self.numbers = itertools.count(1)

    def start(self, name: str) -> Replica:
        self.all.append(Replica(self.cluster, name, self.election))
        return self.all[-1]

    def both(self) -> tuple[Replica, Replica]:
        """Replica a leads, b waits. The Lease is there, so that nobody has to wait for a whole one at the start."""
        self.cluster.create(RELEASED)
        a = self.start("a")
        eventually(lambda: a.ready)
        b = self.start("b")
        eventually(lambda: "held by a_" in b.why)
        return a, b

    def new_pod(self) -> dict[str, Any]:
        return self.cluster.create(pod(f"p{next(self.numbers)}"))

    def node_of(self, pod: dict[str, Any]) -> str:
        return self.cluster.get("pods", pod["metadata"]["name"])["spec"].get("nodeName", "")

    def leaders(self) -> list[str]:
        return [replica.name for replica in self.all if replica.ready]


@pytest.fixture
def pair(cluster: EmbeddedCluster) -> Iterator[Pair]:
    yield from paired(cluster, SHORT)


def paired(cluster: EmbeddedCluster, election: LeaderElectionSettings) -> Iterator[Pair]:
    made = Pair(cluster, election)
    yield made
    for replica in made.all:
        replica.line.resume()
        replica.stop()
    for kind in ("pods", "leases"):
        for item in cluster.objects(kind):
            cluster.delete(kind, item["metadata"]["name"])
    eventually(lambda: not cluster.objects("pods"))


def took(what: Callable[[], Any], limit: float) -> float:
    began = time.monotonic()
    eventually(what, seconds=limit)
    return time.monotonic() - began


def test_only_the_leader_is_ready_and_only_it_decides(pair: Pair) -> None:
    a, b = pair.both()
    assert pair.leaders() == ["a"]
    # The follower synchronises by itself; until it has, it says that instead.
    eventually(lambda: "another replica leads" in b.service.runtime.readiness().detail, seconds=30)
    p = pair.new_pod()
    refused = b.filter(p)
    assert not refused["NodeNames"]
    assert "another replica leads" in refused["Error"]
    assert "another replica leads" in b.bind(p, "n1")
    assert pair.node_of(p) == ""
    assert a.schedule(p) == pair.node_of(p) != ""


def test_an_orderly_stop_hands_over_at_once_and_the_next_knows_all(pair: Pair) -> None:
    a, b = pair.both()
    bound = [p for p in [pair.new_pod() for _ in range(5)] if a.schedule(p)]
    waiting = pair.new_pod()
    proposed = a.filter(waiting)["NodeNames"][0]
    a.service.stop()
    eventually(lambda: b.ready, seconds=15)
    views = {view.name: view for view in b.service.runtime.model.pods()}
    assert all(views[p["metadata"]["name"]].node == pair.node_of(p) for p in bound)
    assert "never proposed" in b.bind(waiting, proposed)
    assert b.schedule(waiting) == pair.node_of(waiting) != ""


def test_a_leader_that_crashed_is_followed(pair: Pair) -> None:
    a, b = pair.both()
    a.line.cut()
    eventually(lambda: b.ready, seconds=15)
    assert pair.leaders() == ["b"]
    p = pair.new_pod()
    eventually(lambda: b.schedule(p) == pair.node_of(p) != "")


def test_a_partitioned_leader_ends_before_the_other_begins(pair: Pair) -> None:
    a, b = pair.both()
    p = pair.new_pod()
    proposed = a.filter(p)["NodeNames"][0]
    a.line.hold()
    seen = set()

    def other_leads() -> bool:
        leaders = tuple(pair.leaders())
        seen.add(leaders)
        return leaders == ("b",)

    eventually(other_leads, seconds=15)
    assert seen <= {("a",), (), ("b",)}
    assert "another replica leads" in a.bind(p, proposed)
    assert b.schedule(p) == pair.node_of(p) != ""
    a.line.resume()
    eventually(lambda: "held by b_" in a.why)
    assert pair.leaders() == ["b"]


@pytest.mark.slow
def test_a_bind_that_the_network_delivers_late_binds_nothing_twice(pair: Pair) -> None:
    """The write is on its way when the line is held up, and arrives when another leads and has bound the pod."""
    a, b = pair.both()
    pods = [pair.new_pod() for _ in range(3)]
    proposed = [a.filter(p)["NodeNames"][0] for p in pods]
    a.line.hold()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(a.bind, p, n) for p, n in zip(pods, proposed, strict=True)]
        eventually(lambda: b.ready, seconds=15)
        bound = [b.schedule(p) for p in pods]
        assert all(bound)
        a.line.resume()
        assert all(answer.result(30) or pair.node_of(p) for answer, p in zip(answers, pods, strict=True))
    eventually(
        lambda: {v.name: v.node for v in a.service.runtime.model.pods()} == dict(zip(names(pods), bound, strict=True))
    )
    assert [pair.node_of(p) for p in pods] == bound
    assert a.service.runtime.model.cache_snapshot().nodes.keys() == set(NODES)


@pytest.mark.slow
def test_leadership_that_goes_from_one_to_the_other_and_back(pair: Pair) -> None:
    """A place that was proposed in a term long ago is not a place now."""
    a, b = pair.both()
    p = pair.new_pod()
    proposed = a.filter(p)["NodeNames"][0]
    a.line.hold()
    eventually(lambda: b.ready, seconds=15)
    a.line.resume()
    eventually(lambda: "held by b_" in a.why)
    b.line.hold()
    eventually(lambda: a.ready, seconds=15)
    assert "never proposed" in a.bind(p, proposed)
    assert a.schedule(p) == pair.node_of(p) != ""
    b.line.resume()
    eventually(
        lambda: {v.name: v.node for v in b.service.runtime.model.pods()} == {p["metadata"]["name"]: pair.node_of(p)}
    )
    assert pair.leaders() == ["a"]


@pytest.mark.slow
def test_pods_that_both_replicas_are_asked_for_while_they_take_turns_are_bound_once(pair: Pair) -> None:
    """Whoever leads is held up, and what it had under way arrives when it leads no more."""
    books = Books(pair.cluster)
    both = pair.both()
    pods = []
    for leader, other in (both, both[::-1], both):
        pods += [pair.new_pod() for _ in range(4)]
        proposed = [(p, names[0]) for p in pods if (names := leader.filter(p)["NodeNames"])]
        with ThreadPoolExecutor(4) as pool:
            leader.line.hold()
            answers = [pool.submit(leader.bind, p, n) for p, n in proposed]
            eventually(lambda other=other: other.ready, seconds=15)
            for p in pods[::2]:
                other.schedule(p)
            leader.line.resume()
            assert all(answer.result(30) is not None for answer in answers)
        eventually(lambda leader=leader: "held by" in leader.why)
    eventually(lambda: all(pair.node_of(p) or any(r.schedule(p) for r in both) for p in pods))
    assert not books.faults
    assert sorted(each.uid for each in books.bindings) == sorted(p["metadata"]["uid"] for p in pods)


def test_a_verb_that_comes_first_after_a_pause_is_refused(pair: Pair) -> None:
    """The lease's thread does not notice a thing: it is the fence that says so, at the moment of asking."""
    a, _ = pair.both()
    p = pair.new_pod()
    a.line.hold()
    assert "leads" in eventually(lambda: a.filter(p)["Error"], seconds=15)
    assert not a.ready


@pytest.fixture
def crowded(pair: Pair) -> Pair:
    """So many pods that they are not listed lightly. They run somewhere else."""
    for number in range(700):
        pair.cluster.create(pod(f"other-{number}", nodeName="elsewhere"))
    return pair


def lists(replica: Replica) -> int:
    return replica.service._pods.stats.lists


@pytest.mark.slow
def test_an_orderly_stop_leaves_word_and_the_next_lists_nothing(crowded: Pair) -> None:
    a, b = crowded.both()
    eventually(lambda: "another replica leads" in b.service.runtime.readiness().detail)
    p = crowded.new_pod()
    assert a.schedule(p)
    watches = b.service._pods.stats.watches
    a.service.stop()
    eventually(lambda: b.ready, seconds=15)
    assert b.service.runtime.model.explain("default", p["metadata"]["name"]).pod.node == crowded.node_of(p)
    assert (lists(b), b.service._pods.stats.watches) == (1, watches)


@pytest.mark.slow
def test_after_a_crash_a_bookmark_says_that_nothing_was_missed(crowded: Pair) -> None:
    a, b = crowded.both()
    eventually(lambda: "another replica leads" in b.service.runtime.readiness().detail)
    p = crowded.new_pod()
    assert a.schedule(p)
    a.line.cut()
    eventually(lambda: b.ready, seconds=15)
    assert b.service.runtime.model.explain("default", p["metadata"]["name"]).pod.node == crowded.node_of(p)
    assert lists(b) == 1


def test_a_word_about_what_never_was_is_not_waited_for(pair: Pair) -> None:
    a, b = pair.both()
    a.service._leadership._last_words = lambda: '{"term":1,"nodes":"99999999","pods":"99999999"}'
    a.service.stop()
    eventually(lambda: b.ready, seconds=15)


@pytest.mark.slow
def test_the_default_configuration_takes_over_in_time(cluster: EmbeddedCluster) -> None:
    """At most 15 s after a crash, 2 s after an orderly stop (5 s here: the machine may be busy)."""
    pairs = paired(cluster, LeaderElectionSettings(enabled=True))
    pair = next(pairs)
    a, b = pair.both()
    a.line.cut()
    print(f"crash: ready after {took(lambda: b.ready, 15):.2f} s")
    a.line.resume()
    eventually(lambda: "held by b_" in a.why)
    b.service.stop()
    print(f"orderly stop: ready after {took(lambda: a.ready, 5):.2f} s")
    next(pairs, None)


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [p["metadata"]["name"] for p in pods]
