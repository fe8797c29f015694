"""The autoscaler against an API server with its controllers: from zero, to what is asked for, and back to zero."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_objects import add_pool, object_world
from tests.support.cluster.claim_world import ClaimWorld, Server, claim_world

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/warm"


def scaled(mode: str = "detach", **rules: Any) -> dict[str, Any]:
    """The pool, scaled with these rules."""
    return {
        "name": "warm",
        "selector": {"pool": "warm"},
        "mode": mode,
        "workload": {"name": "warm"},
        "autoscaler": {"max_replicas": 10, "idle_seconds": 0.5, "cooldown_seconds": 0.2, "quiet_seconds": 0.5, **rules},
    }


def replicas(world: ClaimWorld) -> int:
    found: int = world.api.get(DEPLOYMENT).json()["spec"]["replicas"]
    return found


def test_a_pool_is_scaled_from_zero_for_those_who_wait_and_back_to_zero() -> None:
    with claim_world(pods=0, pools=[scaled()]) as world, ThreadPoolExecutor() as pool:
        answers = [pool.submit(world.claim, wait_seconds=25) for _ in range(4)]
        claims = [each.result() for each in answers]
        assert [each.status_code for each in claims] == [201] * 4, [each.text for each in claims]
        assert replicas(world) <= 10
        for each in claims:
            assert world.server.http.delete(f"/v1/claims/{each.json()['id']}").status_code == 200
        eventually(lambda: replicas(world) == 0)
        eventually(lambda: world.pods(pool="warm") == [])
        assert world.claimed() == {}


@pytest.mark.slow
def test_no_claimed_pod_is_deleted_when_a_pool_that_recycles_shrinks() -> None:
    with claim_world(pods=6, mode="recycle", pools=[scaled("recycle", idle_seconds=3)]) as world:
        claim = world.claim().json()
        eventually(lambda: replicas(world) <= 2)
        eventually(lambda: len(world.pods(pool="warm")) == replicas(world))
        assert world.claimed() == {claim["id"]: [claim["pods"][0]["name"]]}


@pytest.mark.parametrize("mode", ["detach", pytest.param("recycle", marks=pytest.mark.slow)])
def test_pods_are_added_for_requests_at_every_replica(mode: str) -> None:
    """Also at one that does not scale otherwise: the others do not know of its requests."""
    claims: dict[str, Any] = {"pools": [scaled(mode, buffer="none")], "share_pools": True}
    with claim_world(pods=0, mode=mode, **claims) as world, ThreadPoolExecutor() as pool:
        world.serve(**claims)
        for server in world.servers:
            eventually(lambda server=server: is_member(server, of=2), seconds=20)
        names = {server.claims.members.me: server for server in world.servers if server.claims.members}
        follower, leader = names[max(names)], names[min(names)]
        answers = [pool.submit(ask, follower) for _ in range(3)]
        assert [each.result().status_code for each in answers] == [201] * 3
        assert 3 <= replicas(world) + len(world.claimed()) <= 6
        answers = [pool.submit(ask, server) for server in (follower, leader) * 2]
        assert [each.result().status_code for each in answers] == [201] * 4
        for each in world.claimed():
            assert leader.http.delete(f"/v1/claims/{each}").status_code == 200
        eventually(lambda: replicas(world) == 0, seconds=20)


def is_member(server: Server, of: int) -> bool:
    members = server.claims.members
    assert members is not None
    if len(members.members) != of:
        members.look()
    return len(members.members) == of


def ask(server: Server) -> httpx.Response:
    return server.http.post("/v1/pools/default/warm/claims", json={"wait_seconds": 20})


def test_pods_that_another_replica_adds_count_towards_the_refill_limit() -> None:
    with claim_world(pods=0, pools=[scaled(buffer="none", refill_pods=4, refill_seconds=60)]) as world:
        eventually(lambda: world.server.claims.autoscaler.metrics()[0].samples)
        world.api.patch(f"{DEPLOYMENT}/scale", {"spec": {"replicas": 3}})
        world.idle(3)
        assert world.claim(count=5, wait_seconds=3).json()["code"] == "DeadlineExceeded"
        assert replicas(world) <= 4


def test_nobody_scales_beyond_the_most() -> None:
    with claim_world(pods=0, pools=[scaled(max_replicas=2)]) as world, ThreadPoolExecutor() as pool:
        answers = [pool.submit(world.claim, count=3, wait_seconds=4, lease_seconds=60) for _ in range(1)]
        eventually(lambda: replicas(world) == 2)
        assert answers[0].result().json()["code"] == "DeadlineExceeded"
        assert replicas(world) <= 2
        text = "".join(str(sample) for metric in world.server.claims.metrics() for sample in metric.samples)
        assert "AtMaximum" in text or replicas(world) < 2


def test_marks_that_nothing_will_delete_are_cleared() -> None:
    """C47."""
    with claim_world(pods=2, pools=[scaled(min_replicas=2)]) as world:
        name = world.pods(pool="warm")[0]["metadata"]["name"]
        marks = {"waggle.dev/scale-down": "1", "controller.kubernetes.io/pod-deletion-cost": "-2147483648"}
        world.api.patch(f"pods/{name}", {"metadata": {"annotations": marks}})
        eventually(lambda: not world.api.get(f"pods/{name}").json()["metadata"].get("annotations"))
        world.idle(2)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "waggle-autoscaler"]


def test_there_is_no_thread_until_a_pool_is_scaled() -> None:
    with object_world(pods=1) as w:
        assert w.claim().status_code == 201
        assert threads() == []
        w.deploy("more", 0, {"pool": "more"})
        add_pool(w, "more", workload={"name": "more"}, replicas=2, autoscaler={"maxReplicas": 3})
        eventually(lambda: len(w.pods(pool="more")) == 2)
        assert len(threads()) == 1
    assert threads() == []
