"""Vpods as they are shipped: the rights are those that are used, and the pieces fit together.

Beside the extender (components/vpods) and as a Deployment of their own (vpods, overlays/vpods).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.core import scale
from extender.core.commands import Moment
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request
from extender.core.scale import ScaleWorkload
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.api import ApiServer, Exchange
from extender.kube.client.kubeconfig import connect
from extender.server.vpods import set_objects
from extender.server.vpods.notices import RecordNotice, events
from extender.server.vpods.service import KINDS, VPodService
from extender.server.vpods.set_objects import WriteSetStatus
from extender.settings import ClusterSettings, Settings
from extender.vpods.records import VPOD_OBJECTS, ObjectKey, VPodKey
from extender.vpods.writes import placements, read
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.cluster_objects import node
from tests.support.apiserver.rbac import Access, access, grants, rules_for
from tests.support.kubectl import CRDS
from tests.support.manifests import (
    MANIFESTS,
    Object,
    chart,
    dangling,
    documents,
    helm,
    insecure,
    kubectl,
    kustomized,
    ports_without_container,
    render,
    unmatched,
)
from tests.unit.vpods.knative import DEFINITION, KIND_LABEL, SOURCES, consumer_group

RBAC = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "vpods" / "rbac.yaml")}
BESIDE = documents(MANIFESTS / "components" / "vpods" / "rbac.yaml")
CLUSTER = RBAC["ClusterRole", "waggle-vpods"]["rules"]
OBJECTS = RBAC["ClusterRole", "waggle-vpods-objects"]["rules"]
HOSTS = RBAC["ClusterRole", "waggle-vpods-hosts"]["rules"]
AUTOSCALER = RBAC["ClusterRole", "waggle-vpods-autoscaler"]["rules"]
OWN_NAMESPACE = RBAC["Role", "waggle-vpods"]["rules"]
GROUPS = documents(MANIFESTS / "vpods" / "consumergroups.yaml")[0]["rules"]
EVENTS = {("create", "", "events"), ("patch", "", "events")}

needs_kubectl = pytest.mark.skipif(not kubectl(), reason="needs kubectl 1.21 or newer (or its path in WAGGLE_KUBECTL)")
needs_helm = pytest.mark.skipif(not helm(), reason="needs helm (or its path in WAGGLE_HELM); `make e2e` builds it")


class RecordingApi(ApiServer):
    """An API server that keeps what it was asked."""

    def __init__(self, url: str, asked: set[Access]) -> None:
        super().__init__(connect(ClusterSettings(server=url)).endpoint)
        self._asked = asked

    def exchange(self, request: Request, **more: Any) -> Exchange:
        self._asked.add(access(request.method, request.path, request.query))
        return super().exchange(request, **more)


def settings(url: str) -> Settings:
    resource = {"name": "sources", "group": SOURCES.group, "version": "v1alpha1", "resource": "consumergroups"}
    election = {"lease_seconds": 2, "renew_deadline_seconds": 1.5, "retry_seconds": 0.3}
    where = {f".metadata.labels['{KIND_LABEL}']": "kafkasource"}
    return Settings.model_validate(
        {
            "cluster": {"server": url},
            "extender": {"enabled": False},
            "leader_election": {**election, "enabled": True, "namespace": "own"},
            "vpods": {
                "enabled": True,
                "custom_resources": True,
                "sets": [{"namespace": "sets", "name": "s", "stateful_set": "s", "capacity": 2, "namespaces": ["*"]}],
                "resources": [{**resource, "set": "sets/s", "where": where}],
            },
        }
    )


def prepared(api: Api) -> None:
    """A StatefulSet that must grow, a VPod, a VPodSet and a consumer group that need places."""
    for name in ("vpods", "vpodsets"):
        definition = yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))
        assert api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).status_code == 201
    assert api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).status_code == 201
    labels = {"app": "s"}
    spec = {
        "replicas": 1,
        "serviceName": "s",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "host:1"}]}},
    }
    api.post("/apis/apps/v1/namespaces/sets/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    head = {"apiVersion": "waggle.dev/v1alpha1"}
    vpod = {**head, "kind": "VPod", "metadata": {"name": "v"}, "spec": {"set": "sets/s", "vreplicas": 2}}
    vpod_set = {**head, "kind": "VPodSet", "metadata": {"name": "o"}, "spec": {"statefulSet": "o", "capacity": 1}}
    for place, each in (("user/vpods", vpod), ("sets/vpodsets", vpod_set)):
        made = api.post(f"/apis/waggle.dev/v1alpha1/namespaces/{place}", each)
        assert made.status_code == 201, made.text
    group = consumer_group("g", replicas=2)
    group["metadata"].pop("resourceVersion")
    made = api.post(f"/apis/{SOURCES.group}/v1alpha1/namespaces/user/consumergroups", group)
    assert made.status_code == 201, made.text


@pytest.fixture(scope="module")
def asked() -> set[Access]:
    """Everything that a server of vpods asks of the API server."""
    found = {access(each.method, each.path) for each in every_request()}
    with serve_in_thread(binds=True) as cluster:
        cluster.create(node("n1"))
        cluster.create(node("n2"))
        http = Api(cluster.url)
        prepared(http)
        api = RecordingApi(cluster.url, found)
        service = VPodService(settings(cluster.url), api)
        try:
            service.start()
            group = f"/apis/{SOURCES.group}/v1alpha1/namespaces/user/consumergroups/g"
            eventually(lambda: http.get(group).json().get("status", {}).get("placements"))
            scale_up = "/apis/apps/v1/namespaces/sets/statefulsets/s"
            eventually(lambda: http.get(scale_up).json()["spec"]["replicas"] == 2)
            eventually(lambda: {"update", "create"} <= {call.verb for call in found if call.resource == "leases"})
            sets = "/apis/waggle.dev/v1alpha1/namespaces/sets/vpodsets/o"
            eventually(lambda: http.get(sets).json().get("status"))
        finally:
            service.stop()
            api.close()
            http.close()
    return found


def every_request() -> Iterator[Request]:
    """One of each kind of the engine's writes and reads."""
    key = VPodKey("user", "v")
    source = placements.WritePlacements(
        token=1,
        key=key,
        source=SOURCES,
        uid="u",
        version="1",
        placements=(),
        scheduled=0,
        reason="",
        message="",
        condition="True",
        since="",
    )
    yield placements.request(source)
    yield read.request(read.ReadVPod(token=1, key=key, source=SOURCES, uid="u"))
    yield read.request(read.ReadVPod(token=1, key=key, source=VPOD_OBJECTS, uid="u"))
    status = WriteSetStatus(token=1, key=ObjectKey("sets", "o"), uid="u", status={})
    yield set_objects.KIND.request(status)
    yield from event_requests()
    yield scale.request(
        ScaleWorkload(token=1, namespace="sets", name="s", replicas=1, resource_version="1", resource="statefulsets")
    )


def event_requests() -> Iterator[Request]:
    """An Event that is there already is made, and then counted."""
    notice = RecordNotice(
        api_version="v1", kind="VPod", namespace="user", name="v", uid="u", code="Placed", text="", warning=False
    )
    requests = events().requests(notice, 1, Moment(0.0, 0.0, "1970-01-01T00:00:00+00:00", "waggle-host"))
    yield next(requests)
    yield requests.send(OutcomeKind.LOST)


def allowed(call: Access) -> bool:
    return bool(
        rules_for(call, [*CLUSTER, *OBJECTS, *GROUPS])
        or (call.namespace == "sets" and rules_for(call, [*HOSTS, *AUTOSCALER]))
        or (call.namespace == "own" and rules_for(call, OWN_NAMESPACE))
    )


def test_everything_that_is_asked_is_allowed(asked: set[Access]) -> None:
    assert [call for call in sorted(asked) if not allowed(call)] == []


def test_nothing_is_allowed_that_is_never_asked(asked: set[Access]) -> None:
    granted = grants([*CLUSTER, *OBJECTS, *HOSTS, *AUTOSCALER, *OWN_NAMESPACE, *GROUPS])
    assert granted == {(call.verb, call.group, call.resource) for call in asked}


def test_the_list_of_rights() -> None:
    """Once more in full, so that nobody extends it by the way."""
    assert grants(CLUSTER) == {("list", "", "nodes"), ("watch", "", "nodes")} | EVENTS
    assert sorted(grants(HOSTS)) == [
        ("list", "", "pods"),
        ("list", "apps", "statefulsets"),
        ("watch", "", "pods"),
        ("watch", "apps", "statefulsets"),
    ]
    assert grants(AUTOSCALER) == {("patch", "apps", "statefulsets/scale")}
    assert sorted(grants(OBJECTS)) == [
        ("get", "waggle.dev", "vpods"),
        ("list", "waggle.dev", "vpods"),
        ("list", "waggle.dev", "vpodsets"),
        ("patch", "waggle.dev", "vpods/status"),
        ("patch", "waggle.dev", "vpodsets/status"),
        ("watch", "waggle.dev", "vpods"),
        ("watch", "waggle.dev", "vpodsets"),
    ]
    leases = [(verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "update")]
    assert sorted(grants(OWN_NAMESPACE)) == leases


def test_every_kind_of_write_is_known_here() -> None:
    assert {kind.command.__name__ for kind in KINDS} == {
        "WritePlacements",
        "ReadVPod",
        "ScaleWorkload",
        "WriteSetStatus",
    }, "a new kind of write: add it here, and its right to manifests/vpods/rbac.yaml"


def test_both_ways_to_serve_vpods_have_the_same_rights() -> None:
    roles = {item["metadata"]["name"]: item for item in BESIDE if item["kind"] == "ClusterRole"}
    assert roles == {name: item for (kind, name), item in RBAC.items() if kind == "ClusterRole" and name in roles}
    assert {("ClusterRole", name) for name in roles} | {("ClusterRole", "waggle-vpods")} == {
        key for key in RBAC if key[0] == "ClusterRole"
    }
    extender = next(each for each in documents(MANIFESTS / "base" / "rbac.yaml") if each["kind"] == "ClusterRole")
    assert grants(CLUSTER) <= grants(extender["rules"])


def test_pods_and_stateful_sets_are_granted_by_namespace_only() -> None:
    everywhere = {item["roleRef"]["name"] for item in (*RBAC.values(), *BESIDE) if item["kind"] == "ClusterRoleBinding"}
    assert everywhere == {"waggle-vpods", "waggle-vpods-objects", "system:auth-delegator"}
    bindings = documents(MANIFESTS / "vpods" / "set-namespace.yaml")
    assert {each["roleRef"]["name"] for each in bindings} == {"waggle-vpods-hosts", "waggle-vpods-autoscaler"}
    assert all(each["kind"] == "RoleBinding" and "namespace" not in each["metadata"] for each in bindings)


def test_a_viewer_has_the_verbs_that_the_http_api_asks_for() -> None:
    folder = Path(__file__).parents[3] / "extender" / "web" / "vpods"
    asked = {verb for verb in ("get", "list") if any(f'"{verb}"' in path.read_text() for path in folder.glob("*.py"))}
    viewer = grants(RBAC["ClusterRole", "waggle-vpod-viewer"]["rules"])
    assert {(verb, "waggle.dev", "vpodsets") for verb in asked} <= viewer


def test_an_editor_may_scale_a_vpod_and_writes_no_status() -> None:
    editor = grants(RBAC["ClusterRole", "waggle-vpod-editor"]["rules"])
    assert ("patch", "waggle.dev", "vpods/scale") in editor
    assert [right for right in editor if right[2].endswith("/status")] == []
    assert {verb for verb, _, resource in editor if resource == "vpodsets"} == {"get", "list", "watch"}


# -- kustomize and the chart --------------------------------------------------------------------------------------


@needs_kubectl
def test_vpods_beside_the_extender_fit_together(tmp_path: Path) -> None:
    beside = kustomized(tmp_path, ("pod-guard", "claims", "claims-guard", "vpods"))
    assert dangling(beside) + unmatched(beside) + insecure(beside) + ports_without_container(beside) == []


@needs_kubectl
def test_a_deployment_of_their_own_serves_vpods_only() -> None:
    objects = render("vpods")
    (config,) = (item for item in objects if item["kind"] == "ConfigMap")
    served = Settings.model_validate(yaml.safe_load(config["data"]["waggle.yaml"]))
    assert (served.extender.enabled, served.claims.enabled, served.vpods.enabled) == (False, False, True)
    assert (served.leader_election.enabled, served.server.inspect_authorization) == (True, "kubernetes")
    (rule,) = (rule for rule in OWN_NAMESPACE if "resourceNames" in rule)
    assert rule["resourceNames"] == [f"{served.leader_election.name}-vpods"]
    (deployment,) = (item for item in objects if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"https": served.server.port, "health": served.server.health_port}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz/vpods", "port": "health"}
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "waggle-vpods"
    tls = served.server.tls
    assert tls is not None
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(tls.cert_file.parent), str(tls.key_file.parent), "/etc/waggle/config"} <= mounts
    (budget,) = (item for item in objects if item["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1


@needs_helm
def test_the_chart_binds_rights_in_the_namespaces_of_sets_and_for_resources() -> None:
    resource = "vpods.resources[0].group=g.dev,vpods.resources[0].resource=things"
    objects = chart(f"--set=vpods.enabled=true,vpods.separate=true,vpods.namespaces={{a,b}},{resource}")
    bound = [
        (item["metadata"]["namespace"], item["roleRef"]["name"], item["subjects"][0]["name"])
        for item in objects
        if item["kind"] == "RoleBinding" and item["metadata"]["namespace"] in ("a", "b")
    ]
    roles = ("waggle-vpods-hosts", "waggle-vpods-autoscaler")
    assert bound == [(namespace, role, "waggle-vpods") for namespace in ("a", "b") for role in roles]
    (things,) = (item for item in objects if item["kind"] == "ClusterRole" and item["metadata"]["name"].endswith("gs"))
    expected: list[Object] = [
        {"apiGroups": ["g.dev"], "resources": ["things"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["g.dev"], "resources": ["things/status"], "verbs": ["patch"]},
    ]
    assert things["rules"] == expected


@needs_helm
def test_without_autoscaler_the_chart_grants_no_scale() -> None:
    objects = chart("--set=vpods.enabled=true,vpods.autoscaler=false,vpods.namespaces={a}")
    bound = [item["roleRef"]["name"] for item in objects if item["metadata"].get("namespace") == "a"]
    assert bound == ["waggle-vpods-hosts"]
