"""Claims over HTTP, against an API server with its controllers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import claim_world


def test_a_claim_is_answered_with_a_pod_that_has_left_its_replica_set() -> None:
    with claim_world(pods=2) as world:
        answer = world.claim()
        assert answer.status_code == 201, answer.text
        claim = answer.json()
        assert answer.headers["location"] == f"/v1/claims/{claim['id']}"
        (pod,) = claim["pods"]
        real = world.api.get(f"pods/{pod['name']}").json()
        assert real["metadata"]["uid"] == pod["uid"]
        assert real["status"]["podIP"] in pod["addresses"]
        assert "ownerReferences" not in real["metadata"]
        assert real["metadata"]["labels"] == {
            "waggle.dev/claim": claim["id"],
            "pod-template-hash": real["metadata"]["labels"]["pod-template-hash"],
        }
        world.idle(2)  # the ReplicaSet has made another one
        assert world.server.http.get(f"/v1/claims/{claim['id']}").json() == claim
        released = world.server.http.delete(f"/v1/claims/{claim['id']}")
        assert (released.status_code, released.json()["state"]) == (200, "released")
        eventually(lambda: world.api.get(f"pods/{pod['name']}").status_code == 404)
        # Waggle's watch may show the deletion later than the API server does.
        eventually(lambda: world.server.http.delete(f"/v1/claims/{claim['id']}").status_code == 404)


def test_an_empty_pool_says_so_to_those_who_do_not_wait_and_queues_those_who_do() -> None:
    with claim_world(pods=1) as world:
        world.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
        world.idle(0)
        refused = world.claim(wait_seconds=0)
        assert refused.status_code == 429, refused.text
        assert refused.json()["code"] == "NoIdlePod"
        assert int(refused.headers["retry-after"]) >= 1
        late = world.claim(wait_seconds=0.05)
        assert (late.status_code, late.json()["code"]) == (504, "DeadlineExceeded")
        queued = world.claim(headers={"Prefer": "respond-async"})
        assert queued.status_code == 202, queued.text
        assert (queued.json()["state"], queued.json()["position"]) == ("waiting", 1)
        world.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 1}})
        found = world.server.http.get(queued.headers["location"], params={"wait": 20}).json()
        assert found["state"] == "claimed", found
        assert len(found["pods"]) == 1


def test_the_same_key_is_the_same_claim() -> None:
    with claim_world(pods=2) as world:
        first, second = world.claim(key="k"), world.claim(key="k")
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json() == second.json()
        other = world.claim(key="k", count=2)
        assert (other.status_code, other.json()["code"]) == (409, "KeyReused")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"count": 0}, 400, "count"),
        ({"count": -1}, 400, "count"),
        ({"count": 10**9}, 400, "count"),
        ({"count": 100}, 400, "count"),
        ({"wait_seconds": -1}, 400, "wait_seconds"),
        ({"wait_seconds": 1e300}, 400, "wait_seconds"),
        ({"lease_seconds": 1e12}, 400, "lease_seconds"),
        ({"annotations": {"x": "y" * 1_000_000}}, 413, "body"),
        ({"annotations": {"x": "y" * 100_000}}, 400, "annotations.x"),
        ({"wait": 3}, 400, "wait"),
        ({"labels": {"x": "not a label"}}, 400, "labels.x"),
        ({"labels": {"waggle.dev/claim": "mine"}}, 400, "labels"),
        ({"images": {"main": "x:1"}}, 400, "images"),
        ({"on_empty": "cold"}, 400, "on_empty"),
        ({"on_empty": "never"}, 400, "on_empty"),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(body: dict[str, object], status: int, field: str) -> None:
    with claim_world(pods=1) as world:
        answer = world.claim(**body)
        assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text
        assert world.claimed() == {}
        assert world.pool()["accepted"] == 0


def test_an_unknown_pool_names_those_that_there_are() -> None:
    with claim_world() as world:
        answer = world.claim(pool="wram")
        assert answer.status_code == 404
        assert answer.json()["code"] == "UnknownPool"
        assert "warm" in answer.json()["error"]


def test_a_request_is_ended_by_its_key_whether_it_waits_or_has_its_pod() -> None:
    with claim_world(pods=1) as world:
        by_key = world.server.http.build_request("DELETE", "/v1/pools/default/warm/claims", params={"key": "k"}).url
        assert world.server.http.delete(by_key).status_code == 404
        claim = world.claim(key="k").json()
        with ThreadPoolExecutor() as pool:
            world.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
            world.idle(0)
            waits = pool.submit(world.claim, key="other")
            eventually(lambda: world.pool()["pending"] == 1)
            cancelled = world.server.http.delete(by_key.copy_set_param("key", "other"))
            assert (cancelled.status_code, cancelled.json()["state"]) == (200, "released"), cancelled.text
            assert (waits.result().status_code, waits.result().json()["code"]) == (499, "Cancelled")
        released = world.server.http.delete(by_key)
        assert (released.status_code, released.json()["id"]) == (200, claim["id"])
        assert world.claimed() == {}


def test_a_claim_that_has_ended_is_gone_for_those_who_renew_it_and_one_that_never_was_is_not_found() -> None:
    with claim_world(pods=1, mode="recycle") as world:
        claim = world.claim(lease_seconds=0.3).json()["id"]
        eventually(lambda: world.claimed() == {})
        gone = world.server.http.post(f"/v1/claims/{claim}/renew")
        assert (gone.status_code, gone.json()["code"]) == (410, "ClaimEnded")
        assert world.server.http.post("/v1/claims/c-nobody/renew").status_code == 404
        world.idle(1)


def test_a_gang_gets_all_its_pods_or_none() -> None:
    with claim_world(pods=3) as world:
        assert world.claim(count=4, wait_seconds=0).json()["code"] == "NoIdlePod"
        assert world.claimed() == {}
        answer = world.claim(count=3)
        assert answer.status_code == 201, answer.text
        assert {pod["name"] for pod in answer.json()["pods"]} == set(world.claimed()[answer.json()["id"]])


def test_a_lease_is_renewed_and_ends_if_it_is_not() -> None:
    with claim_world(pods=2) as world:
        kept, left = world.claim(lease_seconds=1.5).json(), world.claim(lease_seconds=1.5).json()
        renewed = world.server.http.post(f"/v1/claims/{kept['id']}/renew", json={"lease_seconds": 60})
        assert renewed.status_code == 200, renewed.text
        assert renewed.json()["expires"] > kept["expires"]
        eventually(lambda: set(world.claimed()) == {kept["id"]})
        assert world.server.http.post(f"/v1/claims/{left['id']}/renew").status_code in (404, 410)


def test_a_caller_that_goes_away_leaves_nothing_claimed() -> None:
    with claim_world(pods=1) as world:
        world.cluster.faults.inject("delay", method="PATCH", path="/pods/", seconds=0.5)
        with pytest.raises(httpx.ReadTimeout):
            world.server.http.post("/v1/pools/default/warm/claims", timeout=0.2)
        eventually(lambda: world.pool()["failed"] == {"Cancelled": 1})
        eventually(lambda: world.claimed() == {})
        world.idle(1)


def test_claims_outlive_the_server_and_are_found_again_by_key() -> None:
    with claim_world(pods=2) as world:
        first = world.claim(key="mine", lease_seconds=60).json()
        world.servers.pop().stop()
        world.serve()
        assert world.server.http.get(f"/v1/claims/{first['id']}").json()["state"] == "claimed"
        assert world.claim(key="mine", lease_seconds=60).json()["id"] == first["id"]
        assert world.server.http.delete(f"/v1/claims/{first['id']}").status_code == 200


def test_whoever_waits_is_answered_when_the_server_goes_down() -> None:
    with claim_world(pods=1) as world, ThreadPoolExecutor() as pool:
        assert world.claim().status_code == 201
        world.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
        world.idle(0)
        waiting = pool.submit(world.claim, wait_seconds=25)
        eventually(lambda: world.pool()["pending"] == 1)
        server = world.servers.pop()
        server.process.end_calls()
        answer = waiting.result(timeout=5)
        assert (answer.status_code, answer.json()["code"]) == (503, "ShuttingDown")
        server.stop()


@pytest.mark.parametrize("mode", ["detach", "recycle"])
def test_a_write_that_is_in_flight_when_the_server_stops_leaves_nothing_claimed(mode: str) -> None:
    with claim_world(pods=1, mode=mode) as world:
        slow = world.cluster.faults.inject("delay", method="PATCH", path="/pods/", agent="waggle", seconds=0.5)
        with ThreadPoolExecutor() as pool:
            server = world.servers.pop()
            answer = pool.submit(httpx.post, f"{server.handle.url}/v1/pools/default/warm/claims", timeout=30)
            eventually(lambda: world.cluster.faults.fired(slow))
            server.stop()
            assert answer.result().json()["code"] == "ShuttingDown"
        assert world.claimed() == {}


def test_a_pod_is_created_for_a_claim_that_will_not_wait_for_a_warm_one() -> None:
    workload = {"name": "warm", "selector": {"pool": "warm"}, "workload": {"name": "warm"}}
    with claim_world(pods=1, pools=[workload]) as world:
        world.api.patch("/apis/apps/v1/namespaces/default/deployments/warm/scale", {"spec": {"replicas": 0}})
        world.idle(0)
        answer = world.claim(on_empty="cold", wait_seconds=20)
        assert answer.status_code == 201, answer.text
        (pod,) = answer.json()["pods"]
        assert pod["node"] == "n1"
        assert world.api.get(f"pods/{pod['name']}").json()["status"]["phase"] == "Running"
        assert world.server.http.delete(f"/v1/claims/{answer.json()['id']}").status_code == 200
        eventually(lambda: world.api.get(f"pods/{pod['name']}").status_code == 404)


def test_a_recycled_pod_runs_the_image_of_its_claim_and_then_its_own_again() -> None:
    with claim_world(pods=1, mode="recycle") as world:
        answer = world.claim(images={"main": "mine:2"}, labels={"run": "7"}, annotations={"who": "me"})
        assert answer.status_code == 201, answer.text
        (name,) = world.claimed()[answer.json()["id"]]
        pod = world.api.get(f"pods/{name}").json()
        assert pod["status"]["containerStatuses"][0]["image"] == "mine:2"
        assert (pod["metadata"]["labels"]["run"], pod["metadata"]["annotations"]["who"]) == ("7", "me")
        assert pod["metadata"]["labels"]["waggle.dev/phase"] == "running"
        assert world.claim(wait_seconds=0).json()["code"] == "NoIdlePod"
        assert world.server.http.delete(f"/v1/claims/{answer.json()['id']}").status_code == 200
        world.idle(1)
        pod = world.api.get(f"pods/{name}").json()
        assert pod["spec"]["containers"][0]["image"] == "warm:1"
        assert "run" not in pod["metadata"]["labels"]
        assert "who" not in pod["metadata"].get("annotations", {})


def test_one_process_serves_claims_and_the_verbs_of_kube_scheduler() -> None:
    with claim_world(sections={"extender": {"enabled": True}}) as world:
        assert world.server.process.service is not None
        eventually(lambda: world.server.http.get("/readyz").status_code == 200)
        assert world.claim().status_code == 201
        assert world.server.http.get("/").json()["verbs"]
        for path in ("/readyz/informed", "/readyz/claims"):
            assert world.server.http.get(path).status_code == 200
