"""The chart makes what kustomize makes, under any name; its values have a schema. More rules: test_overlays.py."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from algorithm.packing import PackingSettings
from extender.settings import Settings
from tests.support.manifests import (
    CHART,
    CHART_VALUES,
    MANIFESTS,
    ROOT,
    Object,
    chart,
    dangling,
    documents,
    helm,
    helm_template,
    kubectl,
    kustomized,
    pod_templates,
    render,
    unmatched,
)

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

needs_helm = pytest.mark.skipif(not helm(), reason="needs helm (or its path in WAGGLE_HELM); `make e2e` builds it")
needs_both = pytest.mark.skipif(not (helm() and kubectl()), reason="needs helm and kubectl")


def values_without_schema(values: Any, schema: Any, path: str = "") -> list[str]:
    """Values that the schema does not describe, and descriptions of values that the chart does not have."""
    described = schema.get("properties", {})
    if not (isinstance(values, dict) and described):
        return []
    odd = [f"{path}{name}" for name in values.keys() ^ described.keys()]
    return odd + [
        each
        for name in values.keys() & described.keys()
        for each in values_without_schema(values[name], described[name], f"{path}{name}.")
    ]


def test_the_schema_describes_every_value_and_no_other() -> None:
    # helm gives `global` to every chart.
    assert values_without_schema(VALUES, SCHEMA) == ["global"]


def test_the_schema_refuses_what_it_does_not_know() -> None:
    def closed(schema: Any) -> bool:
        properties = schema.get("properties", {})
        return not properties or (
            schema["additionalProperties"] is False and all(closed(each) for each in properties.values())
        )

    assert closed(SCHEMA)


def test_chart_image_and_program_have_one_version() -> None:
    (about,) = documents(CHART / "Chart.yaml")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert about["version"] == about["appVersion"] == version
    (component,) = documents(MANIFESTS / "components" / "image" / "kustomization.yaml")
    images = {image["name"]: image for image in component["images"]}
    assert images["waggle"]["newTag"] == version
    assert images["waggle"]["newName"] == VALUES["image"]["repository"]
    assert images["registry.k8s.io/kube-scheduler"]["newTag"] == VALUES["scheduler"]["image"]["tag"]


def test_files_that_kustomize_has_too_are_links_to_them() -> None:
    for path in (CHART / "files").iterdir():
        assert path.is_symlink()
        assert path.resolve().is_relative_to(MANIFESTS)
        assert not path.resolve().is_relative_to(CHART)


def plain(item: Any) -> Any:
    """Without the labels, names and annotations that belong to the tool, and with waggle.yaml as it is understood."""
    text = re.sub(r'(-config)-[a-z0-9]{10}"', r'\1"', json.dumps(item))
    return _without(json.loads(text))


def _without(item: Any) -> Any:
    if isinstance(item, list):
        return [_without(each) for each in item]
    if not isinstance(item, dict):
        return item
    kept = {
        key: _without(value)
        for key, value in item.items()
        if not re.match(r"(app\.kubernetes\.io/(part-of|instance|version|managed-by)|helm\.sh/chart|checksum/.*)$", key)
    }
    if "waggle.yaml" in kept:
        settings = Settings.model_validate(yaml.safe_load(kept["waggle.yaml"])).model_dump()
        settings["algorithm"]["settings"] = PackingSettings.model_validate(settings["algorithm"]["settings"])
        kept["waggle.yaml"] = settings
    if kept.get("kind", "").startswith("ValidatingAdmissionPolicy"):
        kept["metadata"].pop("namespace", None)  # kustomize does not know that they are in none; kubectl does
    return {key: value for key, value in kept.items() if key not in ("labels", "annotations") or value}


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    made = {(item["kind"], item["metadata"]["name"]): item for item in map(plain, objects)}
    return {name: item for name, item in made.items() if name[0] != "Namespace"}


@needs_both
def test_it_makes_what_the_overlay_of_the_second_scheduler_makes() -> None:
    ours, theirs = by_name(chart()), by_name(render("second-scheduler"))
    assert ours.keys() == theirs.keys()
    for name, item in ours.items():
        assert item == theirs[name], name


@needs_both
def test_it_makes_what_the_overlay_of_the_static_pod_makes() -> None:
    values = ("scheduler.enabled=false", "certificates.certManager=false", "controlPlane.addresses={192.0.2.0/28}")
    ours = by_name(chart(*(f"--set={value}" for value in values)))
    assert ours == by_name(render("static-pod"))


@needs_both
def test_it_makes_the_claims_that_the_overlay_of_claims_makes() -> None:
    """But for who may reach the port and the CA, which are the release's, and for the pools, which are an example."""
    ours, theirs = by_name(chart(*CHART_VALUES["chart with claims"])), by_name(render("claims"))
    own = {("NetworkPolicy", "waggle-claims"), ("ConfigMap", "waggle-claims-config"), ("Certificate", "waggle-claims")}
    resources = ours["Deployment", "waggle-claims"]["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"] = {"memory": "1Gi"}  # one value for both Deployments
    for name in theirs.keys() - own:
        if "-ca" not in name[1] and "self-signed" not in name[1]:
            assert ours[name] == theirs[name], name
    config = ours["ConfigMap", "waggle-claims-config"]["data"]["waggle.yaml"]
    shipped = theirs["ConfigMap", "waggle-claims-config"]["data"]["waggle.yaml"]
    shipped["claims"]["pools"] = ()
    assert config == shipped


@needs_both
def test_without_the_extender_it_makes_the_overlay_of_claims_and_nothing_else() -> None:
    """But for the CA, which is the release's, and for who may reach the port."""
    alone, beside = (by_name(chart(*CHART_VALUES[f"chart {each}"])) for each in ("of claims alone", "with claims"))
    of_both = {("Issuer", "waggle-self-signed"), ("Certificate", "waggle-ca"), ("Issuer", "waggle-ca")}
    theirs = by_name(render("claims")).keys()
    assert alone.keys() - of_both - {("NetworkPolicy", "waggle-claims-clients")} <= theirs
    assert {name for name in theirs - alone.keys() if "-ca" not in name[1] and "self-signed" not in name[1]} == set()
    for name, item in alone.items():
        assert item == beside[name], name


@needs_both
def test_it_makes_the_vpods_that_the_overlay_of_vpods_makes() -> None:
    """But for who may reach the port and the CA, which are the release's, and for the sets, which are an example."""
    ours, theirs = by_name(chart(*CHART_VALUES["chart with vpods"])), by_name(render("vpods"))
    own = {("NetworkPolicy", "waggle-vpods"), ("ConfigMap", "waggle-vpods-config"), ("Certificate", "waggle-vpods")}
    resources = ours["Deployment", "waggle-vpods"]["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"] = {"memory": "1Gi"}  # one value for both Deployments
    for name in theirs.keys() - own:
        if "-ca" not in name[1] and "self-signed" not in name[1]:
            assert ours[name] == theirs[name], name
    config = ours["ConfigMap", "waggle-vpods-config"]["data"]["waggle.yaml"]
    shipped = theirs["ConfigMap", "waggle-vpods-config"]["data"]["waggle.yaml"]
    shipped["vpods"]["sets"] = ()
    assert config == shipped


@needs_both
def test_vpods_beside_the_extender_are_what_the_component_makes(tmp_path: Path) -> None:
    ours = by_name(chart(*CHART_VALUES["chart with vpods beside"]))
    parts = ("second-scheduler", "cert-manager", "pod-guard", "image", "vpods")
    theirs = by_name(kustomized(tmp_path, parts))
    config = ours["ConfigMap", "waggle-config"]["data"]["waggle.yaml"]
    assert (config["vpods"]["enabled"], config["vpods"]["custom_resources"]) == (True, True)
    assert ours.keys() - theirs.keys() == {("NetworkPolicy", "waggle-vpods-clients")}
    for name in theirs.keys() - {("ConfigMap", "waggle-config")}:
        assert ours[name] == theirs[name], name


@needs_helm
def test_without_the_extender_no_alert_is_about_its_verbs() -> None:
    objects = chart(*CHART_VALUES["chart of claims alone"], "--set=prometheus.enabled=true", release="second")
    assert dangling(objects, {("Secret", "second-claims-tls")}) + unmatched(objects) == []
    (rule,) = (item for item in objects if item["kind"] == "PrometheusRule")
    assert [group["name"] for group in rule["spec"]["groups"]] == ["waggle-certificates", "waggle-claims"]
    assert 'job="waggle"' not in json.dumps(rule)
    (monitor,) = (item for item in objects if item["kind"] == "ServiceMonitor")
    assert monitor["metadata"]["name"] == "second-claims"


@needs_helm
def test_something_is_served() -> None:
    done = helm_template("--set=extender.enabled=false")
    assert done.returncode != 0
    assert "expected extender.enabled, claims.enabled or vpods.enabled" in done.stderr


@needs_both
def test_claims_beside_the_extender_are_what_the_component_makes(tmp_path: Path) -> None:
    ours = by_name(chart(*CHART_VALUES["chart with claims beside"]))
    parts = ("second-scheduler", "cert-manager", "pod-guard", "image", "claims", "claims-guard")
    theirs = by_name(kustomized(tmp_path, parts))
    assert ours.keys() - theirs.keys() == {("NetworkPolicy", "waggle-claims-clients")}
    assert theirs.keys() <= ours.keys()
    for name in theirs.keys() - {("ConfigMap", "waggle-config")}:
        assert ours[name] == theirs[name], name


@needs_helm
def test_rights_on_pods_are_bound_in_the_namespaces_of_pools() -> None:
    more = "claims.cold=true,claims.autoscaler=true,claims.namespaces={a,b}"
    options = f"--set=claims.enabled=true,claims.separate=true,{more}"
    bound = [
        (item["metadata"]["namespace"], item["roleRef"]["name"], item["subjects"][0]["name"])
        for item in chart(options)
        if item["kind"] == "RoleBinding" and item["metadata"]["namespace"] in ("a", "b")
    ]
    roles = ("waggle-claims-pods", "waggle-claims-cold", "waggle-claims-autoscaler")
    assert bound == [(namespace, role, "waggle-claims") for namespace in ("a", "b") for role in roles]


@needs_helm
@pytest.mark.parametrize("values", CHART_VALUES)
def test_a_release_of_another_name_shares_nothing_with_the_first(values: str) -> None:
    """What is in no namespace has the release's name, and everything leads to what is of this release."""
    objects = chart(*CHART_VALUES[values], release="second", namespace="elsewhere")
    made_elsewhere = {
        ("Secret", f"second-{whose}-tls") for whose in ("server", "kube-scheduler", "viewer", "claims", "vpods")
    }
    assert dangling(objects, made_elsewhere) == []
    assert unmatched(objects) == []
    assert {item["metadata"].get("namespace") for item in objects} <= {None, "elsewhere", "kube-system"}
    assert [each["metadata"]["name"] for each in objects if not each["metadata"]["name"].startswith("second")] == []
    assert "waggle-system" not in json.dumps(objects)
    for text in (item["data"]["waggle.yaml"] for item in objects if "waggle.yaml" in item.get("data", {})):
        assert Settings.model_validate(yaml.safe_load(text)).leader_election.name == "second"


@needs_helm
def test_a_change_of_the_configuration_restarts_the_pods() -> None:
    def sums(*options: str) -> dict[str, str]:
        return {
            name: each["metadata"]["annotations"]["checksum/config"] for name, each in pod_templates(chart(*options))
        }

    before, after = sums(), sums("--set=config.holds.lease_seconds=30")
    assert before["waggle"] != after["waggle"]
    assert before["waggle-scheduler"] == after["waggle-scheduler"]


@needs_helm
@pytest.mark.parametrize(
    ("values", "image"),
    [
        (["image.repository=r.example.com/w"], "r.example.com/w:0.1.0"),
        (["image.repository=r.example.com/w", "image.tag=1.2"], "r.example.com/w:1.2"),
        (["image.tag=1.2", f"image.digest=sha256:{'a' * 64}"], f"registry.example.com/waggle@sha256:{'a' * 64}"),
    ],
)
def test_the_image_is_set_in_one_place(values: list[str], image: str) -> None:
    templates = dict(pod_templates(chart(*(f"--set={value}" for value in values))))
    assert [container["image"] for container in templates["waggle"]["spec"]["containers"]] == [image]


@needs_helm
def test_what_the_operator_configures_is_above_what_the_chart_sets() -> None:
    objects = chart("--set=config.algorithm.name=hived,config.server.tls.verb_clients={other}")
    text = next(item for item in objects if item["metadata"]["name"] == "waggle-config")["data"]["waggle.yaml"]
    settings = Settings.model_validate(yaml.safe_load(text))
    assert settings.algorithm.name == "hived"
    assert settings.server.tls is not None
    assert list(settings.server.tls.verb_clients or ()) == ["other"]
    assert settings.server.port == 9096


@needs_helm
def test_decisions_of_other_waggles_may_be_allowed() -> None:
    """Otherwise the guard of one would refuse what the other notes on pods that wait."""
    other = "system:serviceaccount:b:waggle-b"
    objects = chart(f"--set=podGuard.otherWriters={{{other}}}")
    policy = next(item for item in objects if item["metadata"]["name"] == "waggle-decision-guard")
    assert policy["spec"]["matchConditions"][0]["expression"] == (
        'request.userInfo.username != "system:serviceaccount:waggle-system:waggle" && '
        f'request.userInfo.username != "{other}"'
    )


@needs_helm
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("imagge.tag=1", "imagge"),
        ("replicas=0", "/replicas"),
        ("controlPlane.addresses={10.0.0.1}", "/controlPlane/addresses"),
        ("image.digest=latest", "/image/digest"),
        ("scheduler.image.tag=", "/scheduler/image"),
        ("config=3", "config"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(value: str, said: str) -> None:
    done = helm_template(f"--set={value}")
    assert done.returncode != 0
    assert said in done.stderr


@needs_helm
def test_no_right_is_a_wildcard() -> None:
    for item in chart(*CHART_VALUES["chart with all"]):
        for rule in item.get("rules", []):
            assert "*" not in [*rule["verbs"], *rule["apiGroups"], *rule["resources"]], item["metadata"]["name"]
        assert item.get("roleRef", {}).get("name") != "cluster-admin"


@needs_helm
def test_the_pairs_of_the_scaling_guide_share_nothing(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```yaml\n(# \w+\.yaml, for `helm install (\w+) manifests/chart --namespace ([\w-]+) .*?)^```",
        page,
        re.M | re.S,
    )
    assert [release for _, release, _ in blocks] == ["b200", "h100"]
    pairs = {}
    for text, release, namespace in blocks:
        values = tmp_path / f"{release}.yaml"
        values.write_text(text)
        pairs[release] = chart(f"--values={values}", release=release, namespace=namespace)
    names = [{(item["kind"], item["metadata"]["name"]) for item in objects} for objects in pairs.values()]
    assert set.intersection(*names) == set()
    settings = {
        release: Settings.model_validate(
            yaml.safe_load(
                next(item for item in objects if item["metadata"]["name"] == f"{release}-config")["data"]["waggle.yaml"]
            )
        )
        for release, objects in pairs.items()
    }
    assert {each.pods.scheduler_names for each in settings.values()} == {("b200-scheduler",), ("h100-scheduler",)}
    assert {each.leader_election.name for each in settings.values()} == set(pairs)
    for release, other in (("b200", "h100"), ("h100", "b200")):
        (guard,) = (
            each
            for each in pairs[release]
            if each["metadata"]["name"] == f"{release}-decision-guard" and "matchConditions" in each["spec"]
        )
        expression = guard["spec"]["matchConditions"][0]["expression"]
        assert f"system:serviceaccount:waggle-{other}:{other}" in expression
