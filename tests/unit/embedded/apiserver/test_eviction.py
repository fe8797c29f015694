from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.apiserver.api import Api, reason

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


def run(api: Api, *names: str, ready: str = "True") -> None:
    for name in names:
        api.create_pod(name, labels={"app": "x"})
        api.bind(name, "n1")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        api.patch(f"pods/{name}/status", {"status": status})


def budget(api: Api, name: str = "b", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    assert api.post(BUDGETS.format(api.namespace), body).status_code == 201


def evict(api: Api, name: str, **options: Any) -> httpx.Response:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}
    return api.post(f"pods/{name}/eviction", body)


def test_an_eviction_is_a_graceful_deletion(api: Api) -> None:
    run(api, "a")
    assert evict(api, "a").status_code == 201
    assert api.get("pods/a").json()["metadata"]["deletionGracePeriodSeconds"] == 30


def test_an_eviction_may_bring_delete_options(api: Api) -> None:
    run(api, "a", "b")
    refused = evict(api, "a", deleteOptions={"preconditions": {"uid": "another"}})
    assert reason(refused) == (409, "Conflict")
    assert evict(api, "b", deleteOptions={"gracePeriodSeconds": 0}).status_code == 201
    assert api.names("pods") == ["a"]


@pytest.mark.parametrize("spec", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
def test_a_budget_allows_so_many_evictions_and_no_more(api: Api, spec: dict[str, Any]) -> None:
    run(api, "a", "b", "c")
    budget(api, **spec)
    assert evict(api, "a").status_code == 201
    refused = evict(api, "b")
    assert reason(refused) == (429, "TooManyRequests")
    assert refused.json()["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.json()["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }
    ]
    assert "deletionTimestamp" not in api.get("pods/b").json()["metadata"]


def test_a_pending_pod_may_always_be_evicted(api: Api) -> None:
    api.create_pod("a", labels={"app": "x"})
    budget(api, minAvailable=5)
    assert evict(api, "a").status_code == 201
    assert api.names("pods") == []


def test_a_pod_that_is_not_ready_may_go_when_the_healthy_ones_suffice(api: Api) -> None:
    run(api, "a")
    run(api, "sick", ready="False")
    budget(api, minAvailable=1)
    assert evict(api, "sick").status_code == 201
    assert evict(api, "a").status_code == 429


def test_two_budgets_for_one_pod_are_an_error(api: Api) -> None:
    run(api, "a")
    budget(api, "b1", minAvailable=0)
    budget(api, "b2", minAvailable=0)
    assert reason(evict(api, "a")) == (500, "InternalError")


def test_evicting_what_is_not_there_is_not_found(api: Api) -> None:
    assert reason(evict(api, "a")) == (404, "NotFound")


@pytest.mark.parametrize(
    "spec", [{"minAvailable": 1, "maxUnavailable": 1}, {"minAvailable": "half"}, {"minAvailable": -1}]
)
def test_malformed_budgets_are_refused(api: Api, spec: dict[str, Any]) -> None:
    refused = api.post(BUDGETS.format(api.namespace), {"metadata": {"name": "b"}, "spec": spec})
    assert reason(refused) == (422, "Invalid")


def test_a_dry_run_says_what_would_happen_and_evicts_nobody(api: Api) -> None:
    run(api, "a", "b")
    dry = {"dryRun": ["All"]}
    assert evict(api, "a", deleteOptions=dry).status_code == 201
    assert reason(evict(api, "a", deleteOptions={**dry, "preconditions": {"uid": "another"}})) == (409, "Conflict")
    budget(api, minAvailable=2)
    assert reason(evict(api, "a", deleteOptions=dry)) == (429, "TooManyRequests")
    assert "deletionTimestamp" not in api.get("pods/a").json()["metadata"]
