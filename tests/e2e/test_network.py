"""The network between kube-scheduler, Waggle and the API server: down, slow, and lying."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.e2e.gate import Call, Reply
from tests.e2e.world import RealCluster, eventually
from tests.support.apiserver.proxy import Proxy

#: A short time-out, as waiting for longer ones proves nothing more.
WORLD = {"extender": {"httpTimeout": "2s"}}


def test_extender_down_then_up(w: RealCluster) -> None:
    w.nodes(1)
    assert w.waggle is not None
    w.waggle.kill()
    w.pod("p")
    words = w.refused("p")
    assert w.condition("p")["reason"] == "SchedulerError"
    assert w.gate.url in words
    w.start_waggle()
    assert w.place("p") == "n0"


def test_filter_answers_that_come_too_late_do_no_harm(w: RealCluster) -> None:
    w.nodes(1)

    def slow_at_first(call: Call) -> Reply | None:
        if call.verb == "filter" and len(w.gate.calls_of("filter")) == 1:
            time.sleep(3)
        return None

    w.gate.play(slow_at_first)
    w.pod("p", gpus=8)
    w.refused("p", "context deadline exceeded")
    assert w.place("p") == "n0"


def test_waggle_hangs_and_goes_on(w: RealCluster) -> None:
    """A node that stops breathing: connections stand, nobody answers, and later everything is answered at once."""
    w.nodes(2)
    assert w.waggle is not None
    w.waggle.pause()
    names = ["p0", "p1", "p2"]
    for name in names:
        w.pod(name, gpus=8)
    w.refused("p0", "context deadline exceeded")
    w.waggle.resume()
    eventually(lambda: sum(map(bool, w.places(names))) == 2, lambda: f"two of three have room\n{w.story()}")
    assert len(set(w.places(names))) == 3


def test_a_slow_filter_holds_up_everybody_else(w: RealCluster) -> None:
    w.nodes(1)
    w.gate.play(lambda call: time.sleep(0.4) if call.verb == "filter" else None)
    names = [f"p{i}" for i in range(5)]
    for name in names:
        w.pod(name)
    w.all_placed(names)
    filters = w.gate.calls_of("filter")
    assert all(b.at >= a.ended for a, b in pairwise(filters)), "filters never overlap"


def test_a_bind_whose_answer_is_lost_binds_once(w: RealCluster) -> None:
    w.nodes(2)
    w.gate.lose_answers("bind")
    w.pod("p", gpus=8)
    node = w.place("p")
    w.gate.lose_answers()
    w.quiet()
    assert w.node_of("p") == node
    w.pod("q", gpus=8)
    assert w.place("q") != node


def test_a_filter_whose_answer_is_lost_leaks_nothing(w: RealCluster) -> None:
    w.nodes(1)
    w.gate.lose_answers("filter")
    w.pod("p", gpus=8)
    w.refused("p", "EOF")
    w.gate.lose_answers()
    assert w.place("p") == "n0"


def test_a_filter_answer_that_is_lost_for_a_pod_that_is_deleted_frees_its_place(w: RealCluster) -> None:
    w.nodes(1)
    w.gate.lose_answers("filter")
    w.pod("p", gpus=8)
    w.refused("p", "EOF")
    w.delete("p", grace=0)
    w.gate.lose_answers()
    w.pod("q", gpus=8)
    assert w.place("q") == "n0"


@pytest.mark.parametrize(
    "lie", [b"<html>502 Bad Gateway</html>", b"", b'{"NodeNames": 7}'], ids=["html", "empty", "type"]
)
def test_a_middleman_that_answers_rubbish(w: RealCluster, lie: bytes) -> None:
    w.nodes(1)
    w.gate.play(lambda call: Reply(lie) if call.verb == "filter" and w.filters() <= 2 else None)
    w.pod("p")
    w.refused("p")
    assert w.condition("p")["reason"] == "SchedulerError"
    assert w.place("p") == "n0"


def test_a_middleman_that_says_bound_where_nothing_is(w: RealCluster) -> None:
    """kube-scheduler believes it for ever; Waggle does not, and says who is not bound."""
    w.nodes(1)
    w.gate.play(lambda call: Reply({"Error": ""}) if call.verb == "bind" else None)
    w.pod("p", gpus=8)
    eventually(lambda: w.gate.calls_of("bind", "p"), "it was to be bound")
    w.gate.play(lambda call: None)
    w.quiet()
    assert w.node_of("p") == ""
    [told] = w.ask_waggle("/v1/inspect/pods")["items"]
    assert told["state"] in ("Binding", "Waiting")
    w.delete("p", grace=0)
    w.pod("q", gpus=8)
    assert w.place("q") == "n0"


# -- between Waggle and the API server ------------------------------------------------------------------------------


@pytest.fixture
def line(w: RealCluster) -> Iterator[Proxy]:
    """Waggle reaches the API server through this one."""
    assert w.waggle is not None
    w.waggle.stop()
    with Proxy(w.cluster.url) as proxy:
        w.start_waggle(api_server=proxy.url.replace("http://", "https://"), cluster={"request_timeout_seconds": 1})
        yield proxy
        proxy.resume()
        w.waggle.stop()
    w.start_waggle(cluster={})


def test_a_silent_api_server_while_binding(w: RealCluster, line: Proxy) -> None:
    w.nodes(2)
    w.pod("before", gpus=8)
    w.place("before")
    line.hold()
    w.pod("p", gpus=8)
    eventually(lambda: w.gate.calls_of("bind", "p") or w.condition("p"), "it was tried")
    time.sleep(2.5)
    line.resume()
    assert w.place("p") != w.node_of("before")


def test_connections_cut_while_many_pods_are_bound(w: RealCluster, line: Proxy) -> None:
    w.nodes(4, gpus=10)
    names = [f"p{i}" for i in range(40)]
    for name in names:
        w.pod(name, gpus=1)
    for _ in range(5):
        time.sleep(0.1)
        line.cut()
        line.resume()
    w.all_placed(names)


def preempt_unseen(w: RealCluster, line: Proxy, nodes: int) -> None:
    """A full cluster, and a pod for which one has to go; Waggle does not see that it went until `line.resume()`."""
    w.nodes(nodes)
    names = [f"low{i}" for i in range(nodes)]
    for name in names:
        w.pod(name, gpus=8)
    w.all_placed(names)
    w.gate.play(lambda call: line.hold() if call.verb == "preempt" and not w.gate.calls_of("preempt")[1:] else None)
    w.pod("high", gpus=8, priority=1000)
    eventually(lambda: len(w.list("Pod")) <= nodes, "the victim is gone")
    eventually(lambda: w.filters("high"), "kube-scheduler asks whether the pod fits now")
    w.quiet()


def test_an_informer_that_is_behind_costs_no_second_victim(w: RealCluster, line: Proxy) -> None:
    preempt_unseen(w, line, 3)
    assert len(w.list("Pod")) == 3, w.story()


def test_a_preemptor_that_asked_too_early_is_tried_again(w: RealCluster, line: Proxy) -> None:
    preempt_unseen(w, line, 1)
    line.resume()
    assert w.place("high") == "n0"
