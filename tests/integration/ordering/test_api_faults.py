"""The API server restarts, asks for patience, loses answers, expires what it has shown; others change the pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.apiserver.api import eventually
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.claim_world import QUICK
from tests.support.cluster.ordering_world import OrderingWorld, definition, ordering_world

AFTER_A = "[{kind: Pod, name: a}]"
GATES = {"method": "PATCH", "path": "/pods/b", "agent": "^waggle$"}


def started(w: OrderingWorld) -> None:
    """What is waited for comes, and everything runs."""
    w.pod("a")
    w.running("a", "b")


@pytest.mark.parametrize(
    ("fault", "given"),
    [
        ("drop-after", {"times": 2}),
        ("drop-before", {"times": 2}),
        ("status", {"status": 500, "times": 2}),
        ("status", {"status": 409, "times": 1}),
        ("status", {"status": 422, "times": 1}),
        ("status", {"status": 429, "headers": {"Retry-After": "1"}, "times": 1}),
    ],
)
def test_a_removal_that_fails_or_is_not_answered(fault: str, given: dict[str, object]) -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        rule = w.cluster.faults.inject(fault, **GATES, **given)
        started(w)
        eventually(lambda: w.cluster.faults.fired(rule) >= 1)


def test_versions_that_have_expired() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        w.cluster.faults.inject("watch-expire", after=1, method="WATCH", agent="^waggle$", times=4)
        w.cluster.end_watches("waggle")
        w.cluster.compact()
        started(w)


def test_an_api_server_that_is_away_for_a_while() -> None:
    with ordering_world(serve=False) as w, Proxy(w.cluster.url) as proxy:
        w.url = proxy.url
        w.serve()
        w.pod("b", AFTER_A)
        w.waits("b")
        proxy.cut()
        w.pod("a")
        proxy.resume()
        w.running("a", "b")
        w.end(w.server)


def test_a_watch_that_goes_silent() -> None:
    with ordering_world(serve=False) as w:
        w.timing = replace(QUICK, watch_silence=1.0)
        w.serve()
        w.pod("b", AFTER_A)
        w.waits("b")
        w.cluster.faults.inject("watch-stall", after=0, method="WATCH", path="/pods", agent="^waggle$", times=1)
        w.cluster.end_watches("waggle")
        started(w)


def test_a_pod_that_is_recreated_under_its_name_keeps_its_gate() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        w.cluster.faults.inject("delay", seconds=0.5, times=1, **GATES)
        w.pod("a")
        w.running("a")
        w.cluster.delete("pods", "b")
        eventually(lambda: w.cluster.get("pods", "b") is None)
        w.pod("b", "[{kind: Pod, name: c}]")
        w.waits("b")
        eventually(lambda: w.server.metric("waggle_ordering_writes_in_flight") == 0)
        assert w.gates("b") == ["waggle.dev/after"]
        w.pod("c")
        w.running("b")


def test_another_gate_that_goes_while_ours_is_removed() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A, gates=["test/gate"])
        w.waits("b")
        w.cluster.faults.inject("delay", seconds=0.3, times=1, **GATES)
        w.pod("a")
        w.cluster.patch("pods", "b", {"spec": {"schedulingGates": [{"name": "waggle.dev/after"}]}})
        w.running("a", "b")


def test_a_gate_that_somebody_else_removes() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        w.remove_gate("b")
        w.running("b")
        eventually(lambda: w.reasons() == {})


def test_a_crd_that_is_installed_later() -> None:
    with ordering_world(serve=False) as w:
        w.serve()
        w.server.ordering.sources._ask_again = 0.2
        assert "jobsets.jobset.x-k8s.io" in w.server.ordering.sources.not_served()
        w.server.ordering.sources._look.set()
        w.cluster.create(definition("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"))
        eventually(lambda: "jobsets.jobset.x-k8s.io" not in w.server.ordering.sources.not_served())
        w.pod("b", "[{kind: JobSet, name: js, state: Complete}]")
        w.waits("b")
        conditions = [{"type": "Completed", "status": "True"}]
        w.cluster.create(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "js", "namespace": "default"},
                "spec": {"replicatedJobs": []},
                "status": {"conditions": conditions},
            }
        )
        w.running("b")


def test_an_api_server_that_does_not_say_whether_it_serves_an_api() -> None:
    """The list that follows says it: an API that is not served does not keep the server from being ready."""
    with ordering_world(serve=False) as w:
        path = "/apis/batch[.]volcano[.]sh/.*limit=1$"
        rule = w.cluster.faults.inject("status", status=500, method="GET", path=path, agent="^waggle$", times=1)
        server = w.serve(wait=False)
        eventually(lambda: w.cluster.faults.fired(rule))
        server.ordering.sources._ask_again = 0.1
        server.ordering.sources._look.set()
        eventually(lambda: server.ordering.readiness().ready, why=lambda: server.ordering.readiness().detail)
        assert "jobs.batch.volcano.sh" in server.ordering.sources.not_served()
        w.pod("b", AFTER_A)
        started(w)
