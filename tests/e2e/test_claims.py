"""Claims on the real control plane, from pools that detach: servers, API server and Deployments fail meanwhile.

No claimed pod is lost and none is in two claims, whatever happens in the middle of 200 claims.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.claims import COLLECTOR, REPLICASETS, ClaimCluster, claim_cluster
from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import eventually

CLAIMS = 200


@pytest.fixture
def c(plane: ControlPlane) -> Iterator[ClaimCluster]:
    with claim_cluster(plane) as made:
        yield made


def test_two_servers_side_by_side_give_each_pod_once_and_the_replicaset_refills(
    c: ClaimCluster, record_property: pytest.RecordProperty
) -> None:
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    begun = time.monotonic()
    with c.callers(CLAIMS) as calls:
        pass
    took = time.monotonic() - begun
    told = calls.claimed()
    assert len(told) == CLAIMS, calls.failed()
    assert c.alive(told) == told == c.claimed()
    c.idle(60)
    c.rest()
    record_property(
        "measured",
        f"{CLAIMS} claims from a pool of 60 by two servers in {took:.1f} s, p50 {calls.p(50) * 1e3:.0f} ms, "
        f"p99 {calls.p(99) * 1e3:.0f} ms; {calls.retried} tried again",
    )
    c.release_all(calls, "b")
    eventually(lambda: not c.claimed(), "all claimed pods are deleted")
    c.rest()


def test_a_server_that_is_killed_loses_nothing(c: ClaimCluster) -> None:
    """Its callers find their claims by their keys, at the other server, or get new ones if its watch does not show them
    yet; then the old ones end with their leases."""
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    with c.callers(CLAIMS) as calls:
        c.middle(calls, CLAIMS // 3)
        c.servers["b"].kill()
    told = calls.claimed()
    assert len(told) == CLAIMS, calls.failed()
    assert c.alive(told) == told
    assert len(c.abandoned(told)) <= 16  # the calls that were under way
    c.rest()


def test_what_a_killed_server_gave_to_callers_that_do_not_come_again_ends_by_lease(c: ClaimCluster) -> None:
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    with c.callers(CLAIMS, keys=False, lease_seconds=8, at_once=32) as calls:
        c.middle(calls, CLAIMS // 3)
        c.servers["b"].kill()
    told = calls.claimed()
    assert calls.failed().keys() == {"no answer"}
    assert set(told.items()) <= set(c.claimed().items())  # and perhaps some whose answer was lost
    eventually(lambda: not c.claimed(), "all leases are over", seconds=30)
    c.rest()


def test_a_roll_out_kills_nothing_that_is_claimed(c: ClaimCluster) -> None:
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    with c.callers(CLAIMS) as calls:
        c.middle(calls, CLAIMS // 3)
        c.roll_out()
    told = calls.claimed()
    assert len(told) == CLAIMS, calls.failed()
    c.idle(60)
    assert c.alive(told) == told == c.claimed()
    c.rest()


def test_the_api_server_is_restarted(c: ClaimCluster, plane: ControlPlane) -> None:
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    with c.callers(CLAIMS) as calls:
        c.middle(calls, CLAIMS // 3)
        plane.restart_api_server()
    told = calls.claimed()
    assert len(told) == CLAIMS, calls.failed()
    assert c.alive(told) == told
    assert len(c.abandoned(told)) <= 16
    c.rest()


def test_a_scale_down_kills_nothing_that_is_claimed(c: ClaimCluster) -> None:
    c.deploy(120)
    c.serve("a")
    with c.policy("replicasets"):
        with c.callers(100) as calls:
            c.middle(calls, 10)
            c.scale(20)
        told = calls.claimed()
        eventually(lambda: c.ready() == 20 and len(c.idle_pods()) == 20, "the scale-down is over", seconds=40)
        assert c.alive(told) == told
    assert len(told) == 100
    c.rest()


def test_the_policy_minds_only_claimed_pods_and_controllers(c: ClaimCluster) -> None:
    c.deploy(2)
    c.serve("a")
    with c.callers(1) as calls:
        pass
    (uid,) = calls.claimed()
    (claimed,) = (pod["metadata"]["name"] for pod in c.list("Pod") if pod["metadata"]["uid"] == uid)
    idle = c.idle_pods()[0]["metadata"]["name"]
    with c.policy("replicasets"):
        for account in (REPLICASETS, COLLECTOR):
            assert c.deletes(claimed, account) == 422
            assert c.deletes(idle, account) == 200
        assert c.deletes(claimed, "") == 200


def test_a_deployment_that_is_deleted_takes_no_claimed_pod_with_it(c: ClaimCluster) -> None:
    """Its ReplicaSet is garbage, and so are the pods that it has; claimed ones it has no more."""
    c.deploy(120)
    c.serve("a")
    with c.policy("replicasets"):
        with c.callers(150, wait_seconds=1, patience=1) as calls:
            c.middle(calls, 30)
            c.delete_deployment()
            eventually(lambda: not c.idle_pods(), "the garbage is collected", seconds=40)
        told = calls.claimed()
        assert c.alive(told) == told == c.claimed()
    assert len(told) >= 30
    c.rest()


def test_pods_that_are_recycled_while_somebody_relabels_them_are_given_to_one_at_a_time(plane: ControlPlane) -> None:
    with claim_cluster(plane, "recycle") as c:
        c.deploy(20)
        c.serve("a")
        c.serve("b")
        c.idle(20)
        with c.relabelled():
            given = c.churn(CLAIMS)
        assert len(set(given)) > 5
        eventually(lambda: not c.claimed(), "all are released")
        c.rest()
        c.idle(20)
        assert c.ready() == 20
