"""What kustomize makes of every overlay, and helm of the chart: it fits together, and is as safe as promised."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from extender.server.leader_label import LABEL
from extender.settings import Settings
from tests.support.manifests import (
    CHART_VALUES,
    EXTENDER_VALUES,
    MANIFESTS,
    OVERLAYS,
    Object,
    chart,
    dangling,
    documents,
    helm,
    insecure,
    kubectl,
    pod_templates,
    ports_without_container,
    render,
    unmatched,
)

#: Kinds of ours that are in no namespace.
OF_THE_CLUSTER = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}

pytestmark = pytest.mark.skipif(
    not kubectl(), reason="needs kubectl 1.21 or newer (or its path in WAGGLE_KUBECTL); `make e2e` has its own"
)


#: Those with the extender. `claims` has claims only, `vpods` has vpods only: test_claims.py, test_vpods.py
EXTENDER_OVERLAYS = [overlay for overlay in OVERLAYS if overlay not in ("claims", "vpods")]


def made_by(name: str) -> list[Object]:
    if name in OVERLAYS:
        return render(name)
    if not helm():
        pytest.skip("needs helm (or its path in WAGGLE_HELM); `make e2e` builds it")
    return chart(*CHART_VALUES[name])


@pytest.fixture(params=[*OVERLAYS, *CHART_VALUES])
def shipped(request: pytest.FixtureRequest) -> list[Object]:
    """Everything that can be applied."""
    return made_by(request.param)


@pytest.fixture(params=[*EXTENDER_OVERLAYS, *EXTENDER_VALUES])
def objects(request: pytest.FixtureRequest) -> list[Object]:
    """Everything with an extender in it."""
    return made_by(request.param)


def one(objects: list[Object], kind: str, name: str) -> Any:
    """The only object of this kind and name; a ConfigMap's may end with the hash of what is in it."""
    (found,) = (
        item
        for item in objects
        if item["kind"] == kind
        if re.fullmatch(name + (r"(-[a-z0-9]{10})?" if kind == "ConfigMap" else ""), item["metadata"]["name"])
    )
    return found


def settings(objects: list[Object]) -> Settings:
    return Settings.model_validate(yaml.safe_load(one(objects, "ConfigMap", "waggle-config")["data"]["waggle.yaml"]))


def test_every_reference_leads_somewhere(shipped: list[Object]) -> None:
    assert dangling(shipped) == []


def test_every_selector_selects_something(shipped: list[Object]) -> None:
    assert unmatched(shipped) == []


def test_every_port_that_is_named_exists(shipped: list[Object]) -> None:
    assert ports_without_container(shipped) == []


def test_every_pod_is_restricted(shipped: list[Object]) -> None:
    assert insecure(shipped) == []


def test_everything_is_in_one_namespace(shipped: list[Object]) -> None:
    elsewhere = {item["metadata"].get("namespace") for item in shipped} - {None, "waggle-system"}
    assert elsewhere <= {"kube-system"}
    # What has none would be created in the namespace that kubectl happens to be in.
    nowhere = {item["kind"] for item in shipped if "namespace" not in item["metadata"]}
    assert nowhere <= OF_THE_CLUSTER
    assert [item["kind"] for item in shipped if item["metadata"].get("namespace") == "kube-system"] in (
        [],
        ["RoleBinding"],
    )


def test_no_image_is_left_without_a_version(shipped: list[Object]) -> None:
    for _, template in pod_templates(shipped):
        for container in template["spec"]["containers"]:
            _, _, tag = container["image"].rpartition(":")
            assert tag not in ("", "latest", container["image"])


def test_the_ports_are_those_of_the_configuration(objects: list[Object]) -> None:
    server = settings(objects).server
    (container,) = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"https": server.port, "health": server.health_port}


def test_callers_need_a_certificate_and_probes_need_none(objects: list[Object]) -> None:
    tls = settings(objects).server.tls
    assert tls is not None
    assert tls.client_ca_file is not None
    (container,) = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]["containers"]
    probes = [container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} == {"health"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz/informed"


def test_files_are_mounted_where_the_configuration_looks_for_them(objects: list[Object]) -> None:
    tls = settings(objects).server.tls
    assert tls is not None
    spec = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    for path in (tls.cert_file, tls.key_file, tls.client_ca_file):
        assert mounts[str(path.parent)] == "tls"
        assert path.name in ("tls.crt", "tls.key", "ca.crt")
    assert container["args"][-1] == "/etc/waggle/config/waggle.yaml"
    assert mounts["/etc/waggle/config"] == "config"


def test_the_service_selects_the_leader(objects: list[Object]) -> None:
    election = settings(objects).leader_election
    assert election.enabled
    assert election.label_pod
    assert one(objects, "Service", "waggle")["spec"]["selector"][LABEL] == election.name
    (container,) = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == ["POD_NAME"]


def test_what_waggle_may_change_of_pods_is_guarded(objects: list[Object]) -> None:
    policy = one(objects, "ValidatingAdmissionPolicy", "waggle-pod-guard")["spec"]
    assert one(objects, "ValidatingAdmissionPolicyBinding", "waggle-pod-guard")["spec"]["validationActions"] == ["Deny"]
    deployment = one(objects, "Deployment", "waggle")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    user = f"system:serviceaccount:{deployment['metadata']['namespace']}:{account}"
    assert policy["matchConditions"][0]["expression"] == f'request.userInfo.username == "{user}"'


def test_what_waggle_decides_is_written_by_nobody_else(objects: list[Object]) -> None:
    policy = one(objects, "ValidatingAdmissionPolicy", "waggle-decision-guard")["spec"]
    binding = one(objects, "ValidatingAdmissionPolicyBinding", "waggle-decision-guard")["spec"]
    assert binding == {"policyName": "waggle-decision-guard", "validationActions": ["Deny"]}
    guard = one(objects, "ValidatingAdmissionPolicy", "waggle-pod-guard")["spec"]["matchConditions"][0]["expression"]
    assert policy["matchConditions"][0]["expression"] == guard.replace("==", "!=")


def test_the_lease_may_be_updated_under_its_name_only(objects: list[Object]) -> None:
    names = [rule.get("resourceNames") for rule in one(objects, "Role", "waggle")["rules"]]
    assert names == [None, [settings(objects).leader_election.name]]


def test_prometheus_sees_followers_too(objects: list[Object]) -> None:
    spec = one(objects, "Service", "waggle-metrics")["spec"]
    assert spec["publishNotReadyAddresses"]
    assert spec["clusterIP"] == "None"
    assert LABEL not in spec["selector"]


@pytest.mark.parametrize("overlay", EXTENDER_OVERLAYS)
def test_a_change_of_the_configuration_restarts_the_pods(overlay: str) -> None:
    objects = render(overlay)
    spec = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "config")
    assert (
        volume["configMap"]["name"] == one(objects, "ConfigMap", "waggle-config")["metadata"]["name"] != "waggle-config"
    )


def test_an_orderly_end_has_the_time_that_it_takes(objects: list[Object]) -> None:
    seconds = one(objects, "Deployment", "waggle")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert seconds >= 15 + settings(objects).cluster.request_timeout_seconds + 10


@pytest.mark.parametrize("overlay", ["second-scheduler", "local"])
def test_the_second_scheduler_sends_what_waggle_takes_for_its_own(overlay: str) -> None:
    objects = render(overlay)
    config = yaml.safe_load(one(objects, "ConfigMap", "waggle-scheduler-config")["data"]["kube-scheduler-config.yaml"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == list(settings(objects).pods.scheduler_names)
    assert "managedResources" not in config["extenders"][0]
    assert settings(objects).pods.resource == ""


@pytest.mark.parametrize("overlay", ["second-scheduler", "local"])
def test_the_second_scheduler_finds_waggle_its_lease_and_its_certificates(overlay: str) -> None:
    objects = render(overlay)
    config = yaml.safe_load(one(objects, "ConfigMap", "waggle-scheduler-config")["data"]["kube-scheduler-config.yaml"])
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == f"https://waggle.waggle-system.svc:{settings(objects).server.port}"
    spec = one(objects, "Deployment", "waggle-scheduler")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {file.rsplit("/", 1)[0] for file in extender["tlsConfig"].values()} == {"/etc/waggle/client"}
    assert mounts["/etc/waggle/client"] == "client"
    lease = config["leaderElection"]
    assert lease["resourceNamespace"] == "waggle-system"
    assert one(objects, "Role", "waggle-scheduler")["rules"][1]["resourceNames"] == [lease["resourceName"]]


def test_the_second_scheduler_may_call_through_the_network_policy() -> None:
    policy = one(render("second-scheduler"), "NetworkPolicy", "waggle-from-scheduler")
    ((rule,),) = (policy["spec"]["ingress"],)
    assert rule["ports"] == [{"port": "https", "protocol": "TCP"}]


def test_both_configurations_of_waggle_differ_in_whose_pods_are_ours_only() -> None:
    (base,), (second,) = (
        documents(MANIFESTS / folder / "waggle.yaml") for folder in ("base", "components/second-scheduler")
    )
    assert base.pop("pods") == {"resource": "example.com/gpu"}
    assert second.pop("pods") == {"scheduler_names": ["waggle-scheduler"]}
    assert base == second


def test_a_certificate_of_each_side_has_the_key_usage_and_the_name_that_it_needs() -> None:
    objects = render("second-scheduler")
    server, client = (one(objects, "Certificate", name)["spec"] for name in ("waggle-server", "waggle-kube-scheduler"))
    assert "waggle.waggle-system.svc" in server["dnsNames"]
    assert ("server auth" in server["usages"], "client auth" in server["usages"]) == (True, False)
    assert ("server auth" in client["usages"], "client auth" in client["usages"]) == (False, True)
    assert server["issuerRef"] == client["issuerRef"] == {"kind": "Issuer", "name": "waggle-ca"}
