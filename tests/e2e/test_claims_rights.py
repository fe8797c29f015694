"""Who may claim, by tokens of real service accounts and the roles that are shipped: over HTTP, and with objects.

And what Waggle's own account for claims may do. A real API server says whose a token is, and what that account may.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.claims import ClaimCluster, claim_cluster
from tests.e2e.cluster import CLAIMS_RIGHTS, WAGGLES_NAMESPACE, ControlPlane, describe
from tests.e2e.guard import guarded
from tests.e2e.hands import eventually
from tests.support.kubectl import CRDS, Kubectl

OBJECTS = "/apis/waggle.dev/v1alpha1/namespaces"


class Accounts:
    """Service accounts in the namespace of the pool, and what they ask for with their tokens."""

    def __init__(self, c: ClaimCluster) -> None:
        self._c = c
        self._tokens: dict[str, str] = {}

    def user(self, name: str) -> str:
        return f"system:serviceaccount:{self._c.namespace}:{name}"

    def token(self, name: str) -> str:
        """Of an account, which is made if it is not there."""
        if name not in self._tokens:
            path = f"/api/v1/namespaces/{self._c.namespace}/serviceaccounts"
            describe(self._c.http.post(path, json={"metadata": {"name": name}}))
            self._tokens[name] = describe(self._c.http.post(f"{path}/{name}/token", json={"spec": {}}))["status"][
                "token"
            ]
        return self._tokens[name]

    def ask(self, name: str, method: str, path: str, **body: Any) -> httpx.Response:
        """Ask Waggle, with the account's token."""
        headers = {"authorization": f"Bearer {self.token(name)}"}
        return self._c.ask("a", path, method, headers=headers, **({"json": body} if method == "POST" else {}))

    def claim(self, name: str, **body: Any) -> httpx.Response:
        return self.ask(name, "POST", f"/v1/pools/{self._c.namespace}/warm/claims", **body)

    def at_the_api_server(self, name: str, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask the API server, with the account's token and no certificate."""
        trust = ssl.create_default_context(cafile=str(self._c.plane.authority.certificate))
        headers = {"authorization": f"Bearer {self.token(name)}", "content-type": "application/json"}
        if method == "PATCH":
            headers["content-type"] = "application/merge-patch+json"
        with httpx.Client(base_url=self._c.plane.url, verify=trust, timeout=30) as http:
            return http.request(method, path, json=body, headers=headers)


@pytest.fixture(scope="module")
def c(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClaimCluster]:
    kubectl = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), tmp_path_factory.mktemp("home"))
    kubectl("apply -k", str(CRDS))
    kubectl("wait --for=condition=Established --timeout=30s crd/pools.waggle.dev crd/claims.waggle.dev")
    with guarded(plane), claim_cluster(plane) as made:
        made.deploy(4)
        made.serve("a", claims={"authorization": "kubernetes", "custom_resources": True, "share_pools": True})
        yield made
    kubectl("delete --ignore-not-found -k", str(CRDS))


@pytest.fixture(scope="module")
def accounts(c: ClaimCluster) -> Accounts:
    """`ann` and `bob` may claim, `boss` may also act for other tenants, `stranger` has no right."""
    found = Accounts(c)
    for name in ("ann", "bob", "boss", "stranger"):
        found.token(name)
        if name != "stranger":
            c.bind("waggle-claimant", name, c.namespace)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{c.namespace}"
    rules = [{"apiGroups": ["waggle.dev"], "resources": ["claims"], "verbs": ["impersonate"]}]
    describe(c.http.post(f"{rbac}/roles", json={"metadata": {"name": "actor"}, "rules": rules}))
    binding = {
        "metadata": {"name": "actor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "actor"},
        "subjects": [{"kind": "ServiceAccount", "name": "boss", "namespace": c.namespace}],
    }
    describe(c.http.post(f"{rbac}/rolebindings", json=binding))
    return found


def test_who_has_no_token_or_no_right_claims_nothing(c: ClaimCluster, accounts: Accounts) -> None:
    path = f"/v1/pools/{c.namespace}/warm/claims"
    assert c.ask("a", path, "POST", json={}).status_code == 401
    assert c.ask("a", path, "POST", json={}, headers={"authorization": "Bearer invented"}).status_code == 401
    refused = accounts.claim("stranger")
    assert refused.status_code == 403
    assert (
        f"{accounts.user('stranger')} may not create claims.waggle.dev in the namespace {c.namespace}" in refused.text
    )
    for at in (path, f"/v1/pools/{c.namespace}/warm", "/v1/pools"):
        assert accounts.ask("stranger", "GET", at).status_code == 403
    assert c.claimed() == {}


def test_a_claimant_claims_in_its_own_name_and_where_it_may(c: ClaimCluster, accounts: Accounts) -> None:
    made = accounts.claim("ann", lease_seconds=60)
    assert (made.status_code, made.json()["tenant"]) == (201, accounts.user("ann"))
    claim = f"/v1/claims/{made.json()['id']}"
    assert accounts.ask("ann", "GET", claim).json()["state"] == "claimed"
    assert accounts.ask("ann", "POST", f"{claim}/renew", lease_seconds=600).status_code == 200
    elsewhere = accounts.ask("ann", "POST", f"/v1/pools/{WAGGLES_NAMESPACE}/warm/claims")
    assert elsewhere.status_code == 403
    assert accounts.ask("ann", "GET", "/v1/pools").status_code == 403  # of all namespaces
    (pool,) = accounts.ask("ann", "GET", f"/v1/pools?namespace={c.namespace}").json()["items"]
    assert pool["name"] == "warm"
    assert accounts.ask("ann", "DELETE", claim).status_code == 200
    eventually(lambda: not c.claimed(), "it is released")


def test_nobody_sees_or_ends_the_claims_of_others(c: ClaimCluster, accounts: Accounts) -> None:
    made = accounts.claim("ann").json()
    claim = f"/v1/claims/{made['id']}"
    listed = f"/v1/pools/{c.namespace}/warm/claims"
    assert accounts.ask("bob", "GET", claim).status_code == 404
    assert accounts.ask("bob", "GET", listed).json()["items"] == []
    for method, path in (("DELETE", claim), ("POST", f"{claim}/release"), ("POST", f"{claim}/renew")):
        refused = accounts.ask("bob", method, path)
        assert (refused.status_code, refused.json().get("code")) == (403, "NotYours"), refused.text
        assert accounts.ask("stranger", method, path).status_code == 403
    assert len(c.claimed()) == 1
    assert accounts.ask("ann", "DELETE", claim).status_code == 200
    eventually(lambda: not c.claimed(), "it is released")


def test_only_who_may_impersonate_claims_acts_for_other_tenants(c: ClaimCluster, accounts: Accounts) -> None:
    refused = accounts.claim("ann", tenant=accounts.user("bob"))
    assert (refused.status_code, refused.json()["field"]) == (403, "tenant")
    assert "may not act for another tenant" in refused.text
    made = accounts.claim("boss", tenant=accounts.user("bob"))
    assert (made.status_code, made.json()["tenant"]) == (201, accounts.user("bob"))
    claim = f"/v1/claims/{made.json()['id']}"
    assert [accounts.ask(name, "GET", claim).status_code for name in ("ann", "bob", "boss")] == [404, 200, 200]
    assert accounts.ask("boss", "DELETE", claim).status_code == 200
    eventually(lambda: not c.claimed(), "it is released")


# -- objects ----------------------------------------------------------------------------------------------------------


def claim_object(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "waggle.dev/v1alpha1", "kind": "Claim"}
    return {**head, "metadata": {"name": name}, "spec": {"poolRef": {"name": "warm"}, **spec}}


def status(c: ClaimCluster, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = describe(c.http.get(f"{OBJECTS}/{c.namespace}/claims/{name}")).get("status", {})
    return found


def test_who_may_claim_may_make_and_delete_claim_objects_and_no_pools(c: ClaimCluster, accounts: Accounts) -> None:
    claims, pools = f"{OBJECTS}/{c.namespace}/claims", f"{OBJECTS}/{c.namespace}/pools"
    assert accounts.at_the_api_server("stranger", "POST", claims, claim_object("theirs")).status_code == 403
    answer = accounts.at_the_api_server("ann", "POST", claims, claim_object("mine"))
    assert answer.status_code == 201, answer.text
    eventually(lambda: status(c, "mine").get("phase") == "Claimed", lambda: str(status(c, "mine")))
    assert len(c.claimed()) == 1
    pool = {"apiVersion": "waggle.dev/v1alpha1", "kind": "Pool", "metadata": {"name": "p"}, "spec": {}}
    assert accounts.at_the_api_server("ann", "POST", pools, pool).status_code == 403
    assert accounts.at_the_api_server("ann", "GET", pools).status_code == 200
    assert accounts.at_the_api_server("ann", "DELETE", f"{claims}/mine").status_code == 200
    eventually(lambda: c.http.get(f"{claims}/mine").status_code == 404, "its finalizer is removed")
    eventually(lambda: not c.claimed(), "its pod is given back")


def test_nobody_but_waggle_says_what_became_of_a_claim_object(c: ClaimCluster, accounts: Accounts) -> None:
    claims = f"{OBJECTS}/{c.namespace}/claims"
    forged = {"status": {"phase": "Claimed", "claim": "c-of-somebody"}}
    body = {**claim_object("forged", onEmpty="fail", count=60), **forged}
    assert accounts.at_the_api_server("ann", "POST", claims, body).status_code == 201
    assert accounts.at_the_api_server("ann", "PATCH", f"{claims}/forged/status", forged).status_code == 403
    assert (
        accounts.at_the_api_server("ann", "PATCH", f"{claims}/forged", forged).status_code == 200
    )  # and has no effect
    eventually(lambda: status(c, "forged").get("phase") == "Failed", lambda: str(status(c, "forged")))
    assert status(c, "forged")["reason"] == "NoIdlePod"
    accounts.at_the_api_server("ann", "DELETE", f"{claims}/forged")


def test_a_claim_object_acts_for_no_other_tenant(c: ClaimCluster, accounts: Accounts) -> None:
    claims = f"{OBJECTS}/{c.namespace}/claims"
    accounts.at_the_api_server("boss", "POST", claims, claim_object("other", tenant=accounts.user("bob")))
    eventually(lambda: status(c, "other").get("phase") == "Failed", lambda: str(status(c, "other")))
    assert "tenant" in status(c, "other")["message"]
    accounts.at_the_api_server("boss", "DELETE", f"{claims}/other")
    assert c.claimed() == {}


# -- Waggle's own -----------------------------------------------------------------------------------------------------


@pytest.fixture
def may(c: ClaimCluster) -> Callable[..., bool]:
    """Whether the account of claims may do something, in the words of a SubjectAccessReview."""

    def asked(verb: str, resource: str, namespace: str = "", group: str = "", name: str = "") -> bool:
        resource, _, part = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": part}
        user = f"system:serviceaccount:{WAGGLES_NAMESPACE}:waggle-claims"
        spec = {"user": user, "resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
        answer = describe(c.http.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json={"spec": spec}))
        return bool(answer["status"]["allowed"])

    return asked


def test_its_rights_on_pods_are_those_of_pools_namespaces(c: ClaimCluster, may: Callable[..., bool]) -> None:
    for verb in ("get", "list", "watch", "patch", "delete"):
        assert may(verb, "pods", c.namespace)
        assert not may(verb, "pods", WAGGLES_NAMESPACE)
        assert not may(verb, "pods")
    for verb, resource in (
        ("create", "pods"),
        ("update", "pods"),
        ("deletecollection", "pods"),
        ("patch", "pods/status"),
        ("create", "pods/exec"),
        ("create", "pods/binding"),
        ("create", "pods/eviction"),
        ("get", "secrets"),
        ("create", "serviceaccounts/token"),
    ):
        assert not may(verb, resource, c.namespace), (verb, resource)


def test_it_writes_what_became_of_objects_and_makes_none(c: ClaimCluster, may: Callable[..., bool]) -> None:
    group = "waggle.dev"
    assert may("patch", "claims/status", c.namespace, group)
    assert may("patch", "pools/status", c.namespace, group)
    for verb in ("create", "update", "delete", "impersonate"):
        for resource in ("pools", "claims", "pools/status"):
            assert not may(verb, resource, c.namespace, group), (verb, resource)
    assert not may("patch", "pools", c.namespace, group)


def test_it_scales_only_where_it_was_told_to(c: ClaimCluster, may: Callable[..., bool]) -> None:
    for resource in ("deployments", "replicasets", "statefulsets"):
        assert not may("patch", f"{resource}/scale", c.namespace, "apps")
    c.bind("waggle-claims-autoscaler")
    for resource in ("deployments", "replicasets", "statefulsets"):
        eventually(lambda resource=resource: may("patch", f"{resource}/scale", c.namespace, "apps"), resource)  # type: ignore[misc]
        assert not may("patch", f"{resource}/scale", WAGGLES_NAMESPACE, "apps")
        for verb in ("patch", "update", "delete", "create"):
            assert not may(verb, resource, c.namespace, "apps")


def test_it_has_no_other_right_than_those_roles(c: ClaimCluster) -> None:
    shipped = {
        item["metadata"]["name"]
        for item in yaml.safe_load_all(CLAIMS_RIGHTS.read_text(encoding="utf-8"))
        if item["kind"].endswith("Binding")
    }
    bound = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for item in describe(c.http.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}"))["items"]:
            here = item["metadata"].get("namespace") == c.namespace
            names = {subject["name"] for subject in item.get("subjects") or ()}
            if "waggle-claims" in names and not here:
                bound.add(item["metadata"]["name"])
    assert bound == shipped
