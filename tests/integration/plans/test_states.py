"""Plans of a server in odd states: not ready, without memory, on its way down; and of pods that are only proposed."""

from __future__ import annotations

import threading

import pytest

from extender.embedded.apiserver.server import serve_in_thread
from extender.server.plans import memory
from extender.server.process import ServerProcess
from extender.settings import Settings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.cluster.plans import PlanServer, serving
from tests.support.http.fixed_runtime import Client


def test_a_server_that_is_not_ready_makes_no_plan() -> None:
    process = ServerProcess(Settings.model_validate({"cluster": {"server": "http://127.0.0.1:1"}}))
    try:
        assert process.plans is not None
        answer = process.plans.plan(b"{}")
        assert (answer.status, answer.code) == (503, "NotReady")
    finally:
        process.stop()
    assert process.plans.plan(b"{}").error == "the server is shutting down"


def test_plans_can_be_switched_off() -> None:
    sections = {"cluster": {"server": "http://127.0.0.1:1"}, "plans": {"enabled": False}}
    process = ServerProcess(Settings.model_validate(sections))
    process.stop()
    assert process.plans is None


def test_a_plan_leaves_the_memory_that_the_server_needs(server: PlanServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "left", lambda: 100 << 20)
    answer = server.ask({})
    assert (answer.status_code, answer.json()["code"]) == (503, "NoMemory")
    assert "100 MiB" in answer.json()["error"]


def test_a_pod_that_is_only_proposed_takes_its_place() -> None:
    with serve_in_thread() as cluster:
        cluster.create(node("n0"))
        cluster.create(pod("first", requests={"cpu": "6"}))
        cluster.create(pod("second", requests={"cpu": "6"}))
        with serving(cluster.url) as server:
            first = cluster.get("pods", "first", "default")
            Client(server.url).post("/filter", {"Pod": first, "NodeNames": ["n0"]})
            rows = {row["name"]: row["sign"] for row in server.plan()["rows"]}
    assert rows == {"second": "?"}


def test_a_server_that_stops_ends_its_plans() -> None:
    with serve_in_thread() as cluster:
        cluster.create(node("n0"))
        with serving(cluster.url) as server:
            ended: list[str] = []
            thread = threading.Thread(target=lambda: ended.append(server.plans.plan(b"{}").outcome))
            thread.start()
            eventually(lambda: any(child._process for child in server.plans._running))
            server.process.end_calls()
            thread.join(30)
    assert ended == ["cancelled"]
