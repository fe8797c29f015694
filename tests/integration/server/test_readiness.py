"""Before nodes and pods are known nothing is decided, and everybody is told why."""

from __future__ import annotations

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.http.fixed_runtime import capture


def start_with(w: LocalCluster, **fault: object) -> None:
    w.faults.inject(**fault)
    w.start_waggle(wait=False)


def test_not_ready_says_why_while_the_api_server_refuses():
    with world(nodes=1, waggle=False) as w:
        start_with(w, action="status", status=500, method="LIST", times=None)
        readyz = w.until(lambda: w.waggle.client.get("/readyz") if w.faults.fired() else None)
        w.until(lambda: "500 injected fault" in w.waggle.client.get("/readyz").text)

        assert readyz.status == 503
        assert w.waggle.client.get("/livez").status == 200
        w.faults.clear()
        w.waggle.wait_ready()
        assert w.waggle.client.get("/readyz").status == 200


def test_not_ready_says_why_while_the_api_server_is_not_there():
    with world(waggle=False, cluster={"server": "http://127.0.0.1:1"}) as w:
        w.start_waggle(wait=False)

        w.until(lambda: "refused" in w.waggle.client.get("/readyz").text)
        assert w.waggle.client.get("/livez").status == 200


@pytest.mark.parametrize(("resource", "other"), [("pods", "nodes"), ("nodes", "pods")])
def test_one_resource_alone_is_not_enough(resource: str, other: str):
    with world(nodes=1, waggle=False) as w:
        w.pod("p")
        fault = w.faults.inject("status", status=500, method="LIST", path=f"/api/v1/{resource}", times=None)
        w.start_waggle(wait=False)
        w.until(lambda: w.faults.fired(fault) >= 2)

        assert w.waggle.client.get("/readyz").status == 503
        w.faults.clear()
        w.waggle.wait_ready()
        w.place("p")


def test_every_verb_refuses_with_text_until_it_is_ready():
    with world(nodes=1, waggle=False) as w:
        w.pod("p")
        start_with(w, action="status", status=500, method="LIST", path="/api/v1/nodes", times=None)
        revision = w.cluster.revision

        assert "extender is not ready" in w.filter("p")["Error"]
        assert "extender is not ready" in w.bind("p", "n0")
        preempt = w.waggle.client.post("/preempt", capture("preempt-victims"))
        assert (preempt.status, "extender is not ready" in preempt.text) == (503, True)
        assert {each["Score"] for each in w.post("prioritize", capture("prioritize-nodenames"))} == {0}
        assert w.cluster.revision == revision
        w.faults.clear()
        w.waggle.wait_ready()
        w.place("p")


def test_lists_that_fail_at_the_start_only_delay_kube_scheduler():
    with world(nodes=2, waggle=False) as w:
        w.pod("p")
        start_with(w, action="status", status=500, method="LIST", times=6)
        w.start_scheduler()

        w.until(lambda: w.node_of("p"))


def test_bound_pods_are_known_before_the_first_answer():
    with world(nodes=2, waggle=False) as w:
        w.pod("big", cpu="4", nodeName="n0")
        w.pod("p", cpu="4")
        w.faults.inject("delay", seconds=0.3, method="LIST", path="/api/v1/pods", times=1)
        w.start_waggle(wait=False)

        assert w.place("p") == "n1"


def test_a_stale_first_list_is_caught_up_with():
    with world(nodes=2, waggle=False) as w:
        w.pod("p")
        w.pod("q", nodeName="n0")
        w.faults.inject("stale", behind=2, method="LIST", path="/api/v1/pods")
        w.start_waggle()

        w.until(lambda: {e.key.name: str(e.state) for e in w.waggle.pod_infos()} == {"p": "Waiting", "q": "Bound"})


def test_a_server_that_was_ready_stays_so_while_the_api_server_is_away():
    with world(nodes=1) as w:
        w.pod("p")
        w.faults.inject("drop-before", times=None)
        w.waggle.service._pods._exchange.interrupt()
        w.until(lambda: w.waggle.service._pods.last_error)

        assert w.waggle.client.get("/readyz").status == 200
        w.faults.clear()
        w.place("p")


def test_a_silent_api_server_is_said_although_it_is_ready():
    with world(nodes=1) as w:
        assert w.waggle.client.get("/readyz").json == {"status": "ok", "detail": ""}
        w.faults.inject("status", status=503, method="WATCH", path="/api/v1/pods", times=None)
        pods = w.waggle.service._pods
        pods._exchange.interrupt()
        w.until(lambda: pods.failing)
        pods._last_sign -= 150  # 150 s pass

        answer = w.waggle.client.get("/readyz")
        assert answer.status == 200
        assert answer.json["detail"].startswith("API server silent for 15")
        assert w.waggle.runtime.model.api_silence() >= 150
        w.faults.clear()
        w.until(lambda: w.waggle.client.get("/readyz").json["detail"] == "")
        assert w.waggle.runtime.model.api_silence() == 0
