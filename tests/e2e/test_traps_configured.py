"""The traps of docs/protocol.md that need a configuration of their own: each test starts its own kube-scheduler.

See test_traps.py for the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.gate import Call, Reply, on, refuse, victims
from tests.e2e.world import GPU, RealCluster, eventually, world

Start = Callable[..., AbstractContextManager[RealCluster]]


@pytest.fixture(scope="module")
def scripted(plane: ControlPlane, programs: Mapping[str, Path]) -> Start:
    """A world of its own, with an extender configured as the test wants it, and without Waggle."""

    def start(*, configuration: Any = None, **extender: Any) -> AbstractContextManager[RealCluster]:
        return world(
            plane,
            programs,
            waggle=False,
            extender=extender,
            configuration=configuration,
            folder="test_traps_configured",
        )

    return start


def bind(w: RealCluster, call: Call, node: str = "") -> None:
    """Writes the binding that the call asks for."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node or call.request["Node"]}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": call.pod}, "target": target}
    describe(w.http.post(f"/api/v1/namespaces/{w.namespace}/pods/{call.pod}/binding", json=body))


def test_trap_1_the_next_filter_comes_before_the_bind(scripted: Start) -> None:
    with scripted() as w:

        def slow(call: Call) -> Reply:
            time.sleep(1)
            bind(w, call)
            return Reply({"Error": ""})

        w.gate.play(on("bind", slow))
        w.nodes(2)
        names = ["a", "b", "c"]
        for name in names:
            w.pod(name)
        w.all_placed(names)
        binds = w.gate.calls_of("bind")
        eventually(lambda: all(call.ended for call in binds), "all are answered")
        assert min(call.ended for call in binds) > w.gate.calls_of("filter", "c")[0].at


@pytest.mark.parametrize(("percentage", "offered"), [(0, 100), (100, 130)])
def test_trap_2_only_a_sample_is_offered(scripted: Start, percentage: int, offered: int) -> None:
    with scripted(bindVerb=None, configuration={"percentageOfNodesToScore": percentage}) as w:
        w.nodes(130)
        w.pod("p")
        w.place("p")
        assert len(w.gate.calls_of("filter", "p")[0].nodes) == offered


def test_trap_3_a_whole_node_that_was_not_offered_is_bound_to(scripted: Start) -> None:
    with scripted(bindVerb=None, nodeCacheCapable=False) as w:
        w.nodes(2)
        w.gate.play(on("filter", lambda call: Reply({"Nodes": {"items": [{"metadata": {"name": "elsewhere"}}]}})))
        w.pod("p")
        assert w.place("p") == "elsewhere"


def test_trap_6_one_slow_answer_stops_everybody(scripted: Start) -> None:
    managed = [{"name": GPU, "ignoredByScheduler": False}]
    with scripted(bindVerb=None, managedResources=managed) as w:
        w.gate.play(on("filter", lambda call: time.sleep(1.5)))
        w.nodes(1)
        w.pod("slow", gpus=1)
        eventually(lambda: w.filters("slow"), "it is being filtered")
        w.pod("other")
        w.place("other")
        assert w.gate.calls_of("filter", "slow")[0].ended, "a pod that is not sent waited for one that is"


def test_trap_8_ignorable_makes_a_failing_filter_a_yes(scripted: Start) -> None:
    with scripted(bindVerb=None, ignorable=True) as w:
        w.nodes(1)
        w.gate.play(lambda call: Reply({}, status=500))
        w.pod("p")
        assert w.place("p") == "n0"


def test_trap_8_ignorable_binds_what_was_refused(scripted: Start) -> None:
    with scripted(ignorable=True) as w:
        w.nodes(1)
        w.gate.play(on("bind", lambda call: Reply({"Error": "never"})))
        w.pod("p")
        assert w.place("p") == "n0"
        assert w.gate.calls_of("bind", "p")


def test_trap_9_an_ok_without_a_binding_is_believed(scripted: Start) -> None:
    with scripted() as w:
        w.nodes(1, gpus=8)
        w.pod("p", gpus=8)
        eventually(lambda: w.gate.calls_of("bind", "p"), "it is to be bound")
        w.quiet()
        w.pod("q", gpus=8)
        w.refused("q")
        assert (w.node_of("p"), w.condition("p")) == ("", {}), "no node, no condition, and its room is taken"


def test_trap_9_a_refused_bind_starts_anew(scripted: Start) -> None:
    with scripted() as w:

        def second_time(call: Call) -> Reply:
            if len(w.gate.calls_of("bind")) == 1:
                return Reply({"Error": "not there"})
            bind(w, call)
            return Reply({"Error": ""})

        w.gate.play(on("bind", second_time))
        w.nodes(1)
        w.pod("p")
        w.place("p")
        assert [call.verb for call in w.gate.calls] == ["filter", "bind", "filter", "bind"]


def test_trap_9_a_time_out_after_the_write_marks_a_bound_pod_as_failed(scripted: Start) -> None:
    with scripted(httpTimeout="1s") as w:

        def late(call: Call) -> Reply:
            bind(w, call)
            return Reply({"Error": ""}, delay=2)

        w.gate.play(on("bind", late))
        w.nodes(1)
        w.pod("p")
        w.place("p")
        eventually(lambda: w.events("p", "FailedScheduling"), "a bound pod is said to have failed")
        w.quiet()
        assert len(w.gate.calls_of("bind")) == 1


def test_trap_9_a_second_binding_is_refused_and_one_to_nowhere_is_not(scripted: Start) -> None:
    with scripted() as w:
        w.nodes(1)
        for name in ("a", "b"):
            w.pod(name, schedulerName="nobody")

        def write(name: str, node: str) -> int:
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            return w.http.post(f"/api/v1/namespaces/{w.namespace}/pods/{name}/binding", json=body).status_code

        assert [write("a", "n0"), write("a", "n0"), write("b", "nowhere")] == [201, 409, 201]


def test_trap_10_without_preempt_verb_pods_go_for_a_pod_that_is_never_admitted(scripted: Start) -> None:
    with scripted(bindVerb=None, preemptVerb=None) as w:
        w.nodes(2)
        for name in ("low0", "low1"):
            w.pod(name, gpus=8)
        w.all_placed(["low0", "low1"])
        w.gate.play(on("filter", lambda call: refuse(call, "never")))
        w.pod("high", gpus=8, priority=1000)
        eventually(
            lambda: [pod["metadata"]["name"] for pod in w.list("Pod")] == ["high"], "both had to go, for nothing"
        )


def test_trap_11_a_null_ends_kube_scheduler(scripted: Start) -> None:
    with scripted(bindVerb=None) as w:
        w.nodes(1)
        w.pod("low", gpus=8)
        w.place("low")
        w.gate.play(on("preempt", lambda call: victims(n0=None)))
        w.pod("high", gpus=8, priority=1000)
        assert w.scheduler is not None
        scheduler = w.scheduler
        eventually(lambda: not scheduler.alive, "kube-scheduler exits")
        assert "nil pointer dereference" in scheduler.last_words(characters=20_000)
        w.scheduler = None


def test_trap_15_whole_nodes_are_many_times_the_bytes(scripted: Start) -> None:
    sizes = {}
    for names_only in (True, False):
        with scripted(bindVerb=None, nodeCacheCapable=names_only) as w:
            w.nodes(50)
            w.pod("p")
            w.place("p")
            sizes[names_only] = len(w.gate.calls_of("filter", "p")[0].body)
    assert sizes[False] > 10 * sizes[True]


def test_trap_15_with_whole_nodes_every_node_seems_empty_to_the_scores(scripted: Start) -> None:
    """Of two nodes, one nearly full, the scores prefer the empty one; with whole nodes they cannot tell."""
    chosen = {}
    for names_only in (True, False):
        with scripted(bindVerb=None, nodeCacheCapable=names_only) as w:
            w.nodes(2, cpu="10")
            w.pod("big", cpu="9", nodeName="n0")
            names = [f"p{i:02}" for i in range(16)]
            for name in names:
                w.pod(name, cpu="1m")
            chosen[names_only] = set(w.all_placed(names))
    assert chosen == {True: {"n1"}, False: {"n0", "n1"}}


def test_trap_16_a_redirect_is_followed_each_time(scripted: Start) -> None:
    paths: list[str] = []
    with scripted(bindVerb=None) as w:
        w.gate.heard = paths.append
        moved = f"{w.gate.url}/elsewhere/filter"
        w.gate.play(lambda call: None if "/elsewhere/filter" in paths[-1] else Reply({}, status=307, location=moved))
        w.nodes(1)
        w.pod("p")
        w.place("p")
    assert [path.startswith("/elsewhere") for path in paths] == [False, True]


def test_trap_16_a_leading_slash_doubles(scripted: Start) -> None:
    paths: list[str] = []
    with scripted(bindVerb=None, filterVerb="/filter") as w:
        w.gate.heard = paths.append
        w.nodes(1)
        w.pod("p")
        w.place("p")
    assert paths[0] == "//filter"


def test_trap_16_enable_https_does_not_choose_the_scheme(scripted: Start) -> None:
    with scripted(bindVerb=None, enableHTTPS=True) as w:
        w.nodes(1)
        w.pod("p")
        w.place("p")
        assert w.filters("p") == 1
