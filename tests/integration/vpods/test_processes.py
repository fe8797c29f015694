"""Vpods in one process with the extender and with claims: one port, one election, one informer of nodes."""

from __future__ import annotations

from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import VPodWorld, vpod_world

ELECTION = {"enabled": True, "lease_seconds": 2, "renew_deadline_seconds": 1.5, "retry_seconds": 0.2}


def probe(w: VPodWorld, path: str, number: int = 0) -> tuple[int, Any]:
    answer = w.servers[number].http.get(path)
    return answer.status_code, answer.json()


def test_all_three_in_one_process() -> None:
    pools = [{"name": "warm", "selector": {"pool": "warm"}}]
    sections = {"extender": {"enabled": True}, "claims": {"enabled": True, "pools": pools}}
    with vpod_world(sections=sections, min_replicas=3) as w:
        w.add_vpod("a", 3)
        w.placed("a", 3)
        process = w.server.process
        assert process.service is not None
        assert process.vpods is not None
        assert process.vpods._nodes is process.service.nodes
        for path in ("/readyz", "/readyz/vpods", "/readyz/claims", "/livez"):
            eventually(lambda path=path: probe(w, path)[0] == 200)
        text = w.server.http.get("/metrics").text
        for name in ("waggle_vpods_scheduled_vreplicas", "waggle_claims_accepted_total", "waggle_write_limit"):
            assert name in text
        assert "/v1/vpods" in w.server.http.get("/").json()["pages"]


def test_with_the_extender_its_election_decides_for_both() -> None:
    sections = {"extender": {"enabled": True}, "leader_election": ELECTION}
    with vpod_world(sections=sections, min_replicas=3) as w:
        w.leader()
        w.serve()
        w.add_vpod("a", 6)
        before = w.placed("a", 6)
        leases = w.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases").json()["items"]
        assert [each["metadata"]["name"] for each in leases] == ["waggle"]
        assert [each.places for each in w.servers] == [True, False]
        assert probe(w, "/readyz", 0)[0] == 200
        assert probe(w, "/readyz", 1)[0] == 503  # kube-scheduler calls the leader only
        status, body = probe(w, "/readyz/vpods", 1)
        assert status == 200
        assert "the lease is held by" in body["detail"]
        w.end(w.servers[0])
        leader = w.leader()
        assert leader.process.service is not None
        eventually(lambda: leader.process.service.runtime.readiness().ready)
        w.resting()
        assert w.placements("a") == before
        w.want("a", 9)
        w.placed("a", 9)


def test_vpods_alone_open_ports_and_probes() -> None:
    with vpod_world(min_replicas=3) as w:
        assert w.server.process.service is None
        assert w.server.process.claims is None
        for path in ("/readyz", "/readyz/informed", "/readyz/vpods", "/livez"):
            assert probe(w, path)[0] == 200
        index = w.server.http.get("/").json()
        assert index["about"].startswith("Places virtual replicas")
        assert index["verbs"] == []
        assert w.server.http.post("/filter", json={}).status_code == 404
