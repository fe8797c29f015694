"""Claims on the real control plane, from pools that detach: servers, API server and Deployments fail meanwhile.

No claimed pod is lost and none is in two claims, whatever happens in the middle of 200 claims. The policies that come
with the manifests are in force.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from extender.claims.writes.names import PHASE_LABEL
from tests.e2e.claims import ClaimCluster, claim_cluster
from tests.e2e.cluster import ControlPlane
from tests.e2e.guard import Guard, guarded
from tests.e2e.hands import eventually

CLAIMS = 200


@pytest.fixture(scope="module")
def guard(plane: ControlPlane) -> Iterator[Guard]:
    with guarded(plane) as made:
        yield made


@pytest.fixture
def c(plane: ControlPlane, guard: Guard) -> Iterator[ClaimCluster]:
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
    c.release(told.values(), "b")
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
    c.serve("b")
    c.rest()  # it has read all of them from the pods


def test_what_a_killed_server_gave_to_callers_that_do_not_come_again_ends_by_lease(c: ClaimCluster) -> None:
    c.deploy(60)
    c.serve("a")
    c.serve("b")
    with c.callers(60, keys=False, lease_seconds=12, at_once=32) as calls:  # none of them waits for another pod
        c.middle(calls, 10)
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


def test_a_scale_down_kills_nothing_that_is_claimed(
    c: ClaimCluster, plane: ControlPlane, guard: Guard, record_property: pytest.RecordProperty
) -> None:
    """The ReplicaSet controller chooses at once what it deletes, and then deletes 20 a second: many of those pods are
    claimed meanwhile."""
    c.deploy(120)
    c.serve("a")
    denied = guard.denied("waggle-claimed-pods")
    with plane.controllers_paused():
        c.scale(20)
        with c.callers(10, at_once=4) as early:
            pass
    # A quick machine would have made all claims before the controller has made up its mind.
    eventually(lambda: len(c.list("Pod")) < 120, "the scale-down has begun")
    with c.callers(100, at_once=4) as calls:  # the first ten ask again for what they have
        pass
    told = calls.claimed()
    assert early.claimed().items() <= told.items()
    eventually(lambda: c.ready() == 20 and len(c.idle_pods()) == 20, "the scale-down is over", seconds=40)
    assert c.alive(told) == told
    assert len(told) == 100
    c.rest()
    denied = guard.denied("waggle-claimed-pods") - denied
    record_property("measured", f"{denied} of 100 pods were claimed when the ReplicaSet controller was to delete them")
    assert denied


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deployment_that_is_deleted_takes_no_claimed_pod_with_it(c: ClaimCluster, propagation: str) -> None:
    """Its ReplicaSet is garbage, and so are the pods that it has; claimed ones it has no more."""
    c.deploy(60)
    c.serve("a")
    with c.callers(80, wait_seconds=1, patience=1) as calls:
        c.middle(calls, 15)
        c.delete_deployment(propagation=propagation)
        eventually(lambda: not c.idle_pods(), "the garbage is collected", seconds=40)
    told = calls.claimed()
    assert c.alive(told) == told == c.claimed()
    assert len(told) >= 15
    c.rest()


def test_a_claimed_pod_that_gets_its_labels_back_is_adopted_and_outlives_a_scale_down(c: ClaimCluster) -> None:
    c.deploy(3)
    c.serve("a")
    with c.callers(2) as calls:
        pass
    told = calls.claimed()
    eventually(lambda: c.ready() == 3, "as many are made")
    for pod in c.list("Pod"):
        if pod["metadata"]["uid"] in told:
            c.patch(pod["metadata"]["name"], {"metadata": {"labels": {"pool": "warm"}}})
    eventually(lambda: all("ownerReferences" in pod["metadata"] for pod in c.list("Pod")), "both are adopted")
    c.scale(0)
    eventually(lambda: not c.idle_pods(), "the others are deleted")
    assert c.alive(told) == told
    assert c.pool()["idle"] == 0
    c.rest()
    c.release(told.values())
    eventually(lambda: not c.list("Pod"), "both are deleted")


@pytest.mark.usefixtures("guard")
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


@pytest.mark.usefixtures("guard")
def test_pods_that_are_recycled_live_as_long_as_they_are_held_whatever_fails(plane: ControlPlane) -> None:
    """In the middle of the claims a server is killed and comes back, the Deployment rolls out, and the API server is
    restarted. Pods of the old ReplicaSet go when they are released."""
    with claim_cluster(plane, "recycle") as c:
        c.deploy(20)
        c.serve("a")
        c.serve("b")
        c.idle(20)
        before = {pod["metadata"]["uid"] for pod in c.list("Pod")}
        c.churn(
            CLAIMS,
            faults=(
                c.servers["b"].kill,
                lambda: c.serve("b", wait=False),
                c.roll_out,
                plane.restart_api_server,
            ),
        )
        eventually(lambda: not c.claimed(), "all are released, or their leases are over", seconds=40)
        eventually(lambda: not before & {pod["metadata"]["uid"] for pod in c.list("Pod")}, "the roll-out is over")
        c.idle(20)
        c.rest()
        assert {pod["metadata"]["labels"][PHASE_LABEL] for pod in c.idle_pods()} == {"idle"}
