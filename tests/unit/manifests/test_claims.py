"""Claims as they are shipped: the rights are those that are used, the policies know the names, the pieces fit together.

Beside the extender (components/claims) and as a Deployment of their own (claims, overlays/claims).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.claims import podreader
from extender.claims.records import ClaimMark, Phase, PoolKey
from extender.claims.writes import names, surplus
from extender.claims.writes.advance import AdvancePod
from extender.claims.writes.create import CreatePod
from extender.claims.writes.give import GivePodBack
from extender.claims.writes.kinds import kinds
from extender.claims.writes.look import LookAtPod
from extender.claims.writes.renew import RenewPod
from extender.claims.writes.surplus import MarkSurplus
from extender.claims.writes.take import TakePod
from extender.core import scale
from extender.core.requests import Request
from extender.core.scale import ScaleWorkload
from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.access_review import Reviewer
from extender.kube.client.api import ApiServer, Exchange
from extender.kube.client.kubeconfig import connect
from extender.server.claims.objects.records import CLAIMS as CLAIM_OBJECTS
from extender.server.claims.objects.records import POOLS as POOL_OBJECTS
from extender.server.claims.objects.writes import KINDS as OBJECT_KINDS
from extender.server.claims.objects.writes import ReadClaim, WriteClaimStatus, WriteFinalizer, WritePoolStatus
from extender.server.claims.service import ClaimService
from extender.server.claims.workloads import PLURALS
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.cluster_objects import node
from tests.support.apiserver.rbac import Access, access, grants, rules_for
from tests.support.manifests import (
    MANIFESTS,
    Object,
    dangling,
    documents,
    insecure,
    kubectl,
    kustomized,
    ports_without_container,
    render,
    unmatched,
)

RBAC = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "claims" / "rbac.yaml")}
BESIDE = documents(MANIFESTS / "components" / "claims" / "rbac.yaml")
POLICIES = {
    item["metadata"]["name"]: item["spec"]
    for path in sorted((MANIFESTS / "components" / "claims-guard").glob("*.yaml"))
    for item in documents(path)
    if item["kind"] == "ValidatingAdmissionPolicy"
}
CLUSTER = RBAC["ClusterRole", "waggle-claims"]["rules"]
OWN_NAMESPACE = RBAC["Role", "waggle-claims"]["rules"]
POOLS = RBAC["ClusterRole", "waggle-claims-pods"]["rules"]
OBJECTS = RBAC["ClusterRole", "waggle-claims-objects"]["rules"]
COLD = RBAC["ClusterRole", "waggle-claims-cold"]["rules"]
MARK = ClaimMark(claim="c", pool="p")
POD: Object = {"token": 1, "namespace": "pools", "name": "n", "uid": "u"}
EVERY_COMMAND = [
    TakePod(**POD, mark=MARK),
    LookAtPod(1, "pools", "n"),
    RenewPod(**POD, before="", mark=MARK),
    AdvancePod(**POD, phase=Phase.RUNNING, before="", mark=MARK),
    GivePodBack(**POD, claim="c"),
    GivePodBack(**POD, claim="c", recycle=True),
]
COLD_START = CreatePod(token=1, namespace="pools", name="n", template={}, mark=MARK)
needs_kubectl = pytest.mark.skipif(not kubectl(), reason="needs kubectl 1.21 or newer (or its path in WAGGLE_KUBECTL)")


class RecordingApi(ApiServer):
    """An API server that keeps what it was asked."""

    def __init__(self, url: str, asked: set[Access]) -> None:
        super().__init__(connect(ClusterSettings(server=url)).endpoint)
        self._asked = asked

    def exchange(self, request: Request, **more: Any) -> Exchange:
        self._asked.add(access(request.method, request.path, request.query))
        return super().exchange(request, **more)


def writes(*commands: Any) -> Iterator[Access]:
    """What the committer sends for these commands."""
    by_command = {kind.command: kind for kind in kinds(podreader.decode)}
    for command in commands:
        request = by_command[type(command)].request(command)
        yield access(request.method, request.path)


@contextmanager
def serving(found: set[Access], *prepared: Object, **claims: Any) -> Iterator[EmbeddedCluster]:
    """A server of claims alone, of which `found` gets what it asks of an API server that has these objects."""
    with serve_in_thread() as cluster:
        for each in (node("n1"), *prepared):
            cluster.create(each)
        settings = Settings.model_validate(
            {
                "cluster": {"server": cluster.url},
                "extender": {"enabled": False},
                "leader_election": {"namespace": "own"},
                "claims": {"enabled": True, "share_pools": True, **claims},
            }
        )
        api = RecordingApi(cluster.url, found)
        service = ClaimService(settings, api)
        try:
            service.start()
            eventually(lambda: service.readiness().ready)
            eventually(lambda: {call.resource for call in found if call.verb == "watch"} >= {"nodes", "pods"})
            eventually(lambda: {"create", "list"} <= {call.verb for call in found if call.resource == "leases"})
            yield cluster
        finally:
            service.stop()
            api.close()


@pytest.fixture(scope="module")
def asked() -> set[Access]:
    """Everything that a server of claims asks of the API server."""
    found: set[Access] = set(writes(*EVERY_COMMAND))
    with serving(found, pools=[{"namespace": "pools", "name": "p", "selector": {"pool": "p"}}]):
        pass
    return found


def workload(kind: str) -> Object:
    """A workload of this kind without replicas."""
    labels = {"pool": kind.lower()}
    containers = [{"name": "main", "image": "warm:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "pools"},
        "spec": {
            "replicas": 0,
            "serviceName": "w",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def pools_with_workloads(**more: Any) -> list[Object]:
    """A pool for each kind of workload."""
    return [
        {"namespace": "pools", "name": kind.lower(), "selector": {"pool": kind.lower()}, **more}
        | {"workload": {"kind": kind, "name": "w"}}
        for kind in PLURALS
    ]


def refused(asked: set[Access], *in_pools: Object) -> list[Access]:
    """What is asked and not allowed, if these rules hold in the pools' namespace beside those that always do."""
    return [
        call
        for call in sorted(asked)
        if not rules_for(call, CLUSTER)
        and not (call.namespace == "pools" and rules_for(call, [*POOLS, *in_pools]))
        and not (call.namespace == "own" and rules_for(call, OWN_NAMESPACE))
    ]


def test_every_kind_of_write_is_known_here() -> None:
    assert {type(each) for each in (*EVERY_COMMAND, COLD_START)} == {
        kind.command for kind in kinds(podreader.decode)
    }, "a new kind of write: add it here, and its right to manifests/claims/rbac.yaml"


def test_everything_that_is_asked_is_allowed(asked: set[Access]) -> None:
    assert refused(asked) == []


def test_nothing_is_allowed_that_is_never_asked(asked: set[Access]) -> None:
    assert grants(CLUSTER) | grants(POOLS) | grants(OWN_NAMESPACE) == {
        (call.verb, call.group, call.resource) for call in asked
    }


def test_pods_are_created_from_templates_that_may_be_read_and_nothing_is_scaled() -> None:
    found = set(writes(COLD_START))
    watched = set(PLURALS.values())
    with serving(found, *map(workload, PLURALS), pools=pools_with_workloads()):
        eventually(lambda: {call.resource for call in found if call.verb == "watch"} >= watched)
    assert refused(found, *COLD) == []
    assert refused(found) != []
    own = {(call.verb, call.group, call.resource) for call in found}
    assert grants(COLD) == own - grants(POOLS) - grants(CLUSTER) - grants(OWN_NAMESPACE)


def test_a_server_of_claims_alone_scales_with_the_leases_that_it_has_and_no_other() -> None:
    """Which replica scales follows from the Leases of `share_pools`: there is no leader election beside it."""
    once: dict[str, Any] = {"token": 1, "namespace": "pools", "name": "w", "replicas": 1, "resource_version": "1"}
    requests = [scale.request(ScaleWorkload(**once, resource=each)) for each in PLURALS.values()]
    found = {access(each.method, each.path) for each in requests}
    pools = pools_with_workloads(autoscaler={"min_replicas": 1, "max_replicas": 2})
    with serving(found, *map(workload, PLURALS), pools=pools) as cluster, closing(Api(cluster.url)) as api:
        paths = [f"/apis/apps/v1/namespaces/pools/{each}/w" for each in PLURALS.values()]
        eventually(lambda: all(api.get(path).json()["spec"]["replicas"] == 1 for path in paths))
    rules = RBAC["ClusterRole", "waggle-claims-autoscaler"]["rules"]
    assert refused(found, *rules) == []
    own = {(call.verb, call.group, call.resource) for call in found if call.group == "apps"}
    assert grants(rules) == own


def test_the_list_of_rights() -> None:
    """Once more in full, so that nobody extends it by the way."""
    assert sorted(grants(CLUSTER)) == [("list", "", "nodes"), ("watch", "", "nodes")]
    assert sorted(grants(POOLS)) == [(verb, "", "pods") for verb in ("delete", "get", "list", "patch", "watch")]
    templates = [(verb, "apps", each) for each in sorted(PLURALS.values()) for verb in ("list", "watch")]
    assert sorted(grants(COLD)) == sorted([("create", "", "pods"), *templates])
    leases = [(verb, "coordination.k8s.io", "leases") for verb in ("create", "delete", "list", "patch")]
    assert sorted(grants(OWN_NAMESPACE)) == leases
    assert next(item for item in BESIDE if item["kind"] == "Role")["rules"] == OWN_NAMESPACE


def test_the_autoscalers_marks_are_writes_that_pools_and_policies_allow() -> None:
    mark = surplus.request(MarkSurplus(**POD))
    assert rules_for(access(mark.method, mark.path), POOLS)
    for name in (names.SURPLUS_ANNOTATION, surplus.DELETION_COST):
        assert f'"{name}"' in str(POLICIES["waggle-claim-writes"])


def test_objects_are_listed_watched_and_patched_and_nothing_else() -> None:
    at = {"token": 1, "uid": "u"}
    claim: Object = {"namespace": "pools", "name": "n"}
    every_command = [
        WritePoolStatus(**at, key=PoolKey("pools", "n"), status={}),
        WriteClaimStatus(**at, **claim, resource_version="1", status={}),
        WriteFinalizer(**at, **claim, resource_version="1", finalizers=()),
        ReadClaim(token=1, **claim),
    ]
    by_command = {kind.command: kind for kind in OBJECT_KINDS}
    assert {type(each) for each in every_command} == set(by_command)
    used = {
        (call.verb, call.group, call.resource)
        for each in every_command
        for request in [by_command[type(each)].request(each)]
        for call in [access(request.method, request.path)]
    }
    seen = {(verb, "waggle.dev", each.plural) for each in (POOL_OBJECTS, CLAIM_OBJECTS) for verb in ("list", "watch")}
    assert grants(OBJECTS) == used | seen


def test_reviews_of_callers_are_what_the_auth_delegator_may_ask() -> None:
    found: set[Access] = set()
    with serve_in_thread() as cluster:
        api = RecordingApi(cluster.url, found)
        Reviewer(api).may("token", "create", "waggle.dev", "claims", "pools")
        api.close()
    assert {call.resource for call in found} <= {"tokenreviews", "subjectaccessreviews"}
    assert found
    for rbac in (list(RBAC.values()), BESIDE):
        (binding,) = (item for item in rbac if item["metadata"]["name"] == "waggle-claims-auth-delegator")
        assert binding["roleRef"]["name"] == "system:auth-delegator"


def test_both_ways_to_serve_claims_have_the_same_rights_on_pods() -> None:
    roles = {item["metadata"]["name"]: item for item in BESIDE if item["kind"] == "ClusterRole"}
    assert roles == {name: item for (kind, name), item in RBAC.items() if kind == "ClusterRole" and name in roles}
    assert set(roles) == {
        "waggle-claims-pods",
        "waggle-claims-cold",
        "waggle-claims-objects",
        "waggle-claims-autoscaler",
        "waggle-claimant",
    }


def test_pods_are_granted_by_namespace_only() -> None:
    everywhere = {item["roleRef"]["name"] for item in (*RBAC.values(), *BESIDE) if item["kind"] == "ClusterRoleBinding"}
    assert everywhere == {"waggle-claims", "waggle-claims-objects", "system:auth-delegator"}
    (binding,) = documents(MANIFESTS / "claims" / "pool-namespace.yaml")
    assert binding["kind"] == "RoleBinding"
    assert "namespace" not in binding["metadata"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "waggle-claims-pods",
    }


def test_a_claimant_has_the_verbs_that_the_http_api_asks_for() -> None:
    """Of claims.waggle.dev; `impersonate`, with which one speaks for others, is nothing for every claimant."""
    callers = (Path(__file__).parents[3] / "extender" / "web" / "claims" / "callers.py").read_text()
    handlers = (Path(__file__).parents[3] / "extender" / "web" / "claims" / "handlers.py").read_text()
    asked = {verb for verb in ("create", "get", "list", "update", "delete") if f'"{verb}"' in callers + handlers}
    assert asked == {"create", "get", "list", "update", "delete"}
    allowed = grants(RBAC["ClusterRole", "waggle-claimant"]["rules"])
    assert asked <= {verb for verb, group, resource in allowed if (group, resource) == ("waggle.dev", "claims")}
    assert "impersonate" not in {verb for verb, _, _ in allowed}


# -- policies -----------------------------------------------------------------------------------------------------


def test_the_policies_know_the_mark_of_a_claim_and_both_accounts() -> None:
    assert set(POLICIES) == {"waggle-claim-marks", "waggle-claimed-pods", "waggle-claim-writes"}
    for spec in POLICIES.values():
        assert f'"{names.CLAIM_ANNOTATION}"' in str(spec)
    for name in ("waggle-claim-marks", "waggle-claim-writes"):
        (condition,) = POLICIES[name]["matchConditions"]
        for account in ("waggle", "waggle-claims"):
            assert f'"system:serviceaccount:waggle-system:{account}"' in condition["expression"]


def test_a_replicaset_is_judged_by_deletions_only() -> None:
    spec = POLICIES["waggle-claimed-pods"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"], spec["failurePolicy"]) == (["DELETE"], ["pods"], "Fail")


# -- kustomize ----------------------------------------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path: Path) -> list[Object]:
    """The extender with claims, as an operator's overlay makes it."""
    return kustomized(tmp_path, ("pod-guard", "claims", "claims-guard"))


@needs_kubectl
def test_claims_beside_the_extender_fit_together(beside: list[Object]) -> None:
    assert dangling(beside) + unmatched(beside) + insecure(beside) + ports_without_container(beside) == []


@needs_kubectl
def test_beside_the_extender_one_policy_judges_claims_and_the_other_the_rest(beside: list[Object]) -> None:
    conditions = {
        item["metadata"]["name"]: [each["expression"] for each in item["spec"]["matchConditions"]]
        for item in beside
        if item["kind"] == "ValidatingAdmissionPolicy"
    }
    by_waggle, no_claim = conditions["waggle-pod-guard"]
    assert by_waggle in conditions["waggle-claim-writes"][0]
    assert no_claim.startswith("!(")
    claim = no_claim.removeprefix("!(").removesuffix(")")
    assert claim in conditions["waggle-claim-writes"][0]


@needs_kubectl
def test_a_deployment_of_their_own_serves_claims_only() -> None:
    objects = render("claims")
    (config,) = (item for item in objects if item["kind"] == "ConfigMap")
    settings = Settings.model_validate(yaml.safe_load(config["data"]["waggle.yaml"]))
    assert (settings.extender.enabled, settings.claims.enabled) == (False, True)
    assert (settings.claims.authorization, settings.claims.share_pools) == ("kubernetes", True)
    (deployment,) = (item for item in objects if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"https": settings.server.port, "health": settings.server.health_port}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz/claims", "port": "health"}
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "waggle-claims"
    tls = settings.server.tls
    assert tls is not None
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(tls.cert_file.parent), str(tls.key_file.parent), "/etc/waggle/config"} <= mounts
    (budget,) = (item for item in objects if item["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert {item["kind"] for item in objects if item["metadata"]["name"] == "waggle-claimed-pods"} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
