"""Pool and Claim objects, by kubectl, against an API server with its controllers."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which

import pytest

from extender.claims.records import PoolKey
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from tests.e2e.build import find
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_objects import (
    CLAIMS,
    HEAD,
    POOLS,
    Object,
    add_claim,
    add_pool,
    claim,
    condition,
    define,
    is_deleted,
    is_in,
    object_world,
    pool_status,
    status,
)
from tests.support.cluster.claim_world import ClaimWorld, claim_world
from tests.support.kubectl import Kubectl

_KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl") or find("kubectl")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not _KUBECTL:
        if os.environ.get("CI") == "true":
            pytest.fail("kubectl is not installed")
        pytest.skip("kubectl is not installed")
    return tmp_path_factory.mktemp("kubectl")


def kubectl_for(w: ClaimWorld, home: Path) -> Kubectl:
    assert _KUBECTL
    return Kubectl(_KUBECTL, write_kubeconfig(home / "kubeconfig", w.cluster.url), home)


def test_kubectl_waits_for_a_claim_and_gives_it_back(home: Path) -> None:
    with object_world() as w:
        kubectl = kubectl_for(w, home)
        kubectl("apply -f -", given={**HEAD, "kind": "Claim", **_named("mine"), "spec": {"poolRef": {"name": "warm"}}})
        assert "condition met" in kubectl("wait --for=condition=Ready --timeout=20s claim/mine")
        found = kubectl.json("get claim mine")["status"]
        (pod,) = found["pods"]
        assert {found["claim"]: [pod["name"]]} == w.claimed()
        assert (found["phase"], found["reason"]) == ("Claimed", "Claimed")
        row = kubectl("get claims --no-headers").split()
        assert row[:5] == ["mine", "warm", "Claimed", pod["name"], "True"]
        kubectl("delete claim mine --timeout=20s")
        eventually(lambda: not w.claimed())
        w.idle(3)


def _named(name: str) -> Object:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize("mode", ["detach", "recycle"])
def test_a_claim_gets_its_pods_and_they_are_given_back_before_it_is_deleted(mode: str) -> None:
    with object_world(mode=mode) as w:
        add_claim(w, count=2, labels={"team": "a"}, annotations={"why": "tests"}, leaseSeconds=600)
        eventually(lambda: is_in(w, "Claimed"))
        found = status(w)
        assert sorted(pod["uid"] for pod in found["pods"]) == sorted(w.claimed_uids()[found["claim"]])
        assert all(pod["node"] == "n1" and pod["addresses"] for pod in found["pods"])
        assert claim(w)["metadata"]["finalizers"] == ["waggle.dev/claim"]
        pods = w.pods(team="a")
        assert len(pods) == 2
        assert {pod["metadata"]["annotations"]["why"] for pod in pods} == {"tests"}
        w.api.delete(f"{CLAIMS}/mine")
        eventually(lambda: is_deleted(w))
        assert not w.claimed()
        w.idle(3)


def test_a_claim_that_waits_says_so_and_gets_the_next_pod() -> None:
    with object_world(pods=1) as w:
        add_claim(w, "first")
        eventually(lambda: is_in(w, "Claimed", "first"))
        w.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
        w.idle(0)
        add_claim(w)
        eventually(lambda: is_in(w, "Waiting"))
        assert condition(status(w), "Ready")[0] == "False"
        assert status(w)["position"] == 1
        w.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 1}})
        eventually(lambda: is_in(w, "Claimed"))


def test_a_claim_that_cannot_be_served_fails_with_a_reason() -> None:
    with object_world(pods=1) as w:
        add_claim(w, "many", count=100)
        add_claim(w, "long", waitSeconds=3000)
        add_claim(w, "label", labels={"waggle.dev/claim": "x"})
        add_claim(w, "elsewhere", pool="cold", waitSeconds=0)
        add_claim(w, "both", count=2, onEmpty="fail")
        expected = {
            "many": ("TooManyPods", "count: expected 1 to 64, got 100"),
            "long": ("NotPossible", "spec.waitSeconds: expected at most 600, got 3000"),
            "label": ("InvalidMetadata", "waggle.dev/claim"),
            "elsewhere": ("UnknownPool", "there is no pool cold in default"),
            "both": ("NoIdlePod", "1 of 1 idle pods fit, it lacks 2"),
        }
        for name, (reason, message) in expected.items():
            eventually(lambda name=name: is_in(w, "Failed", name))
            assert status(w, name)["reason"] == reason
            assert message in status(w, name)["message"]
            assert condition(status(w, name), "Ready")[:2] == ("False", reason)
        for name in expected:
            eventually(lambda name=name: "finalizers" not in claim(w, name)["metadata"])
            w.api.delete(f"{CLAIMS}/{name}")
            assert is_deleted(w, name)


def test_a_claim_may_come_before_its_pool() -> None:
    with object_world() as w:
        w.deploy("next", 1, {"pool": "next"})
        add_claim(w, pool="next")
        eventually(lambda: is_in(w, "Waiting"))
        assert condition(status(w), "Ready")[1] == "UnknownPool"
        add_pool(w, "next")
        eventually(lambda: is_in(w, "Claimed"))


def test_a_lease_is_renewed_by_an_annotation_or_its_length_and_ends() -> None:
    with object_world() as w:
        add_claim(w, leaseSeconds=600)
        eventually(lambda: is_in(w, "Claimed"))
        first = status(w)["leaseExpires"]
        w.api.patch(f"{CLAIMS}/mine", {"spec": {"leaseSeconds": 1200}})
        eventually(lambda: status(w)["leaseExpires"] > first and status(w)["observedGeneration"] == 2)
        second = status(w)["leaseExpires"]
        w.api.patch(f"{CLAIMS}/mine", {"metadata": {"annotations": {"waggle.dev/renew": "1"}}})
        eventually(lambda: status(w)["renewal"] == "1")
        assert status(w)["leaseExpires"] >= second
        w.api.patch(f"{CLAIMS}/mine", {"spec": {"leaseSeconds": 1}})
        eventually(lambda: is_in(w, "Ended"))
        assert status(w)["reason"] == "ClaimEnded"
        assert condition(status(w), "Ready") == ("False", "ClaimEnded", "its lease has expired")
        eventually(lambda: "finalizers" not in claim(w)["metadata"])
        w.idle(3)


def test_a_claim_that_is_released_over_http_says_so() -> None:
    with object_world() as w:
        add_claim(w)
        eventually(lambda: is_in(w, "Claimed"))
        assert w.server.http.delete(f"/v1/claims/{status(w)['claim']}").status_code == 200
        eventually(lambda: is_in(w, "Released"))
        assert status(w)["pods"] == []


def test_a_claim_whose_finalizer_was_removed_by_force_leaves_nothing_claimed() -> None:
    with object_world() as w:
        add_claim(w)
        eventually(lambda: is_in(w, "Claimed"))
        w.api.patch(f"{CLAIMS}/mine", {"metadata": {"finalizers": None}})
        w.api.delete(f"{CLAIMS}/mine")
        assert is_deleted(w)
        eventually(lambda: not w.claimed(), seconds=30)


def test_a_restart_keeps_claims_and_ends_those_that_were_deleted_meanwhile() -> None:
    with object_world() as w:
        for name in ("kept", "dropped"):
            add_claim(w, name)
            eventually(lambda name=name: is_in(w, "Claimed", name))
        before = status(w, "kept")
        w.servers.pop().stop()
        w.api.delete(f"{CLAIMS}/dropped")
        add_claim(w, "new")
        assert not is_deleted(w, "dropped")
        w.serve(pools=[], custom_resources=True)
        eventually(lambda: is_deleted(w, "dropped"))
        eventually(lambda: is_in(w, "Claimed", "new"))
        assert status(w, "kept") == before
        assert set(w.claimed()) == {before["claim"], status(w, "new")["claim"]}


@pytest.mark.parametrize("share", [True, False])
def test_two_servers_give_each_claim_one_pod(share: bool) -> None:
    """Also if they do not know of each other: what the object's status does not name is given back."""
    with object_world(pods=12, servers=2, share_pools=share) as w:
        names = [f"c{number}" for number in range(8)]
        for name in names:
            add_claim(w, name)
        for name in names:
            eventually(lambda name=name: is_in(w, "Claimed", name))
        shown = {status(w, name)["claim"]: [pod["name"] for pod in status(w, name)["pods"]] for name in names}
        assert len(shown) == len(names)
        eventually(lambda: w.claimed() == shown)
        for name in names:
            w.api.delete(f"{CLAIMS}/{name}")
        for name in names:
            eventually(lambda name=name: is_deleted(w, name), seconds=30)
        assert not w.claimed()


def test_a_server_goes_on_with_what_another_one_has_begun() -> None:
    with object_world(pods=1, servers=2) as w:
        w.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
        w.idle(0)
        names = [f"c{number}" for number in range(4)]
        for name in names:
            add_claim(w, name, waitSeconds=300)
        for name in names:
            eventually(lambda name=name: is_in(w, "Waiting", name))
        w.servers.pop().stop()
        w.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 4}})
        for name in names:
            eventually(lambda name=name: is_in(w, "Claimed", name), seconds=40)


def test_pools_are_served_side_by_side_and_say_what_is_wrong() -> None:
    pools = [{"name": "warm", "selector": {"pool": "warm"}}]
    with claim_world(pods=2, prepare=define, pools=pools, custom_resources=True) as w:
        w.deploy("other", 1, {"pool": "other"})
        add_pool(w, "warm")
        add_pool(w, "other")
        add_pool(w, "same", selector={"matchLabels": {"pool": "warm", "tier": "x"}})
        add_pool(w, "label", selector={"matchLabels": {"-a": "b"}})
        eventually(lambda: condition(pool_status(w, "other"), "Ready")[0] == "True" and pool_status(w, "other")["idle"])
        assert pool_status(w, "other")["selector"] == "pool=other"
        assert w.claim("other").status_code == 201
        assert w.claim("warm").status_code == 201
        for name, reason in (
            ("warm", "InConfiguration"),
            ("same", "SelectorsOverlap"),
            ("label", "Unreadable"),
        ):
            eventually(lambda name=name: condition(pool_status(w, name), "Ready")[0] == "False")
            assert condition(pool_status(w, name), "Misconfigured")[:2] == ("True", reason)
        assert "-a" in condition(pool_status(w, "label"), "Misconfigured")[2]
        w.api.patch(f"{POOLS}/label", {"spec": {"selector": {"matchLabels": {"-a": None, "pool": "label"}}}})
        eventually(lambda: condition(pool_status(w, "label"), "Ready")[0] == "True")
        eventually(lambda: pool_status(w, "other")["claimed"] == 1)
        w.api.delete(f"{POOLS}/other")
        eventually(lambda: w.claim("other", wait_seconds=0).status_code == 404)


def test_without_definitions_configured_pools_are_served_and_with_them_all() -> None:
    pools = [{"name": "warm", "selector": {"pool": "warm"}}]
    with claim_world(pods=2, pools=pools, custom_resources=True) as w:
        assert w.claim().status_code == 201
        readiness = w.server.claims.readiness()
        assert readiness.ready
        assert "pools.waggle.dev" in readiness.detail
        assert "kubectl apply -k manifests/crds" in readiness.detail
        define(w)
        w.deploy("late", 1, {"pool": "late"})
        add_pool(w, "late")
        add_claim(w, pool="late")
        eventually(lambda: is_in(w, "Claimed"), seconds=20)
        assert w.server.claims.readiness().detail == ""


def test_a_pools_workload_is_scaled_for_those_who_wait_and_has_pods_created_for_those_who_do_not() -> None:
    with object_world(pods=1) as w:
        w.deploy("more", 0, {"pool": "more"})
        rules = {"maxReplicas": 3, "idleSeconds": 0, "cooldownSeconds": 0}
        add_pool(w, "more", workload={"name": "more"}, autoscaler=rules)
        eventually(lambda: condition(pool_status(w, "more"), "Ready")[0] == "True")
        assert w.claim("more", wait_seconds=20).status_code == 201
        eventually(lambda: w.claim("more", count=4, on_empty="cold", wait_seconds=20).status_code == 201)


def test_pods_are_created_for_claims_of_a_pool_that_waggle_does_not_scale() -> None:
    with object_world(pods=1) as w:
        w.deploy("more", 0, {"pool": "more"})
        add_pool(w, "more", workload={"name": "more"})
        eventually(lambda: w.claim("more", on_empty="cold", wait_seconds=20).status_code == 201)


def test_a_pool_with_an_autoscaler_and_no_workload_says_so() -> None:
    with object_world(pods=1) as w:
        add_pool(w, "more", autoscaler={"maxReplicas": 3})
        eventually(lambda: condition(pool_status(w, "more"), "Misconfigured")[:2] == ("True", "Unreadable"))
        assert "spec.autoscaler: expected `workload`" in condition(pool_status(w, "more"), "Misconfigured")[2]


def test_a_request_that_does_not_say_how_long_it_waits_waits_as_its_pool_says() -> None:
    with object_world(pods=1) as w:
        add_pool(w, "short", defaults={"waitSeconds": 0})
        eventually(lambda: w.server.claims.find(PoolKey("default", "short")) is not None)
        assert w.claim("short").json()["code"] == "NoIdlePod"
        assert w.claim("short", wait_seconds=0.05).json()["code"] == "DeadlineExceeded"
        add_claim(w, pool="short")
        eventually(lambda: is_in(w, "Failed"))
        assert status(w)["reason"] == "NoIdlePod"
