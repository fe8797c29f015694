"""Pods without a gate: kube-scheduler's filter calls are refused with the reason, until what they wait for is there."""

from __future__ import annotations

import pytest

from extender.core.ordering_names import AFTER
from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import ordering_world

AFTER_A = "[{kind: Pod, name: a}]"


def test_filter_refuses_with_the_reason_and_the_pod_is_requeued_when_it_lifts() -> None:
    with ordering_world(scheduler=True) as w:
        w.pod("b", AFTER_A, gate=False)
        w.waits("b")
        said = {}

        def told() -> bool:
            conditions = w.get("b")["status"].get("conditions", [])
            said.update({each["type"]: each.get("message", "") for each in conditions})
            return "Pod/default/a" in said.get("PodScheduled", "")

        eventually(told, why=lambda: str(said))
        found = w.server.http.get("/v1/explain/default/b").json()
        assert found["reason"]["code"] in ("WaitsForDependency", "DependencyNotFound")
        w.pod("a")
        w.running("a", "b")


def test_pods_with_a_gate_are_placed_by_kube_scheduler_once_it_is_gone() -> None:
    with ordering_world(scheduler=True) as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        explained = w.server.http.get("/v1/explain/default/b").json()
        assert explained["pod"]["state"] == "Waiting"
        w.pod("a")
        w.running("a", "b")


def test_before_ordering_knows_all_pods_that_declare_dependencies_wait() -> None:
    with ordering_world(scheduler=True, serve=False) as w:
        w.cluster.faults.inject(
            "status", status=403, method="GET", path="^/apis/batch/v1/jobs", agent="^waggle$", times=1000
        )
        server = w.serve(wait=False)
        service = server.process.service
        assert service is not None
        eventually(lambda: service.runtime.readiness().ready)
        w.start_scheduler()
        w.pod("a")
        w.pod("b", AFTER_A, gate=False)
        w.running("a")
        eventually(lambda: "not known yet" in str(w.get("b")["status"]), why=lambda: str(w.get("b")["status"]))
        assert "jobs" in server.ordering.readiness().detail
        ready = server.http.get("/readyz")
        assert ready.status_code == 200
        assert "ordering" in ready.text
        w.cluster.faults.clear()
        w.running("b")


@pytest.mark.slow
def test_pods_that_inherit_dependencies_wait_also_while_a_server_that_starts_does_not_know_their_jobs() -> None:
    with ordering_world(scheduler=True) as w:
        uid = w.job("train", parallelism=20, annotations={AFTER: "[{kind: Pod, name: a}]"})
        names = [f"train-{number}" for number in range(20)]
        for name in names:
            w.pod_of("train", uid, name)
        w.waits(names[-1])
        w.stop_scheduler()
        w.end(w.server)
        w.cluster.faults.inject(
            "status", status=403, method="GET", path="^/apis/batch/v1/jobs", agent="^waggle$", times=1000
        )
        server = w.serve(wait=False)
        eventually(lambda: server.process.service is not None and server.process.service.runtime.readiness().ready)
        w.start_scheduler()
        for name in names:
            eventually(lambda name=name: "not known yet" in str(w.get(name)["status"]))  # type: ignore[misc]
        assert not any(map(w.node_of, names))
        w.cluster.faults.clear()
        w.waits(names[-1])
        w.pod("a")
        w.running("a", *names)


def test_without_ordering_the_annotation_has_no_effect_and_that_is_counted() -> None:
    with ordering_world(scheduler=True, serve=False) as w:
        server = w.serve(wait=False, enabled=False)
        service = server.process.service
        assert service is not None
        assert server.process.ordering is None
        eventually(lambda: service.runtime.readiness().ready)
        w.start_scheduler()
        w.pod("b", AFTER_A, gate=False)
        w.running("b")
        assert "waggle_ordering_ignored_pods_total 1.0" in server.http.get("/metrics").text
        w.servers.remove(server)
        server.stop()


def test_a_gang_that_waits_is_placed_as_a_whole() -> None:
    with ordering_world(scheduler=True) as w:
        gang = {"annotations": {"waggle.dev/gang": "web", "waggle.dev/gang-min": "3"}}
        for number in range(3):
            w.pod(f"web-{number}", AFTER_A, gate=False, metadata=gang)
        w.waits("web-0")
        w.pod("a")
        w.running("a", *(f"web-{number}" for number in range(3)))
