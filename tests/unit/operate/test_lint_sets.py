"""`waggle lint vpods`: every rule finds its example, and no other rule does; a set that is well is left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.kubeconfig import connect
from extender.operate.doctor import needed_rights
from extender.operate.lint_sets import as_json, as_text, lint, missing_rights, rights_of_resources, rights_of_set
from extender.operate.pool_rules import POOLS
from extender.operate.rules import REGISTRY, Severity
from extender.operate.scene_rules import to_mend
from extender.operate.set_rules import SETS
from extender.operate.set_scene import SetScene, configured, from_cluster, from_text
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.api import Api
from tests.support.apiserver.rbac import grants
from tests.support.kubectl import CRDS
from tests.support.manifests import MANIFESTS, ROOT, documents

FIXTURES = ROOT / "tests" / "fixtures" / "lint-vpods"
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.yaml"))}
#: Remarks that every short example would get.
LEFT_OUT = {"WL802", "WL826"}


def settings_of(text: str) -> Settings | None:
    """Waggle's configuration is the document that has no kind."""
    found = [each for each in yaml.safe_load_all(text) if each and "kind" not in each]
    return Settings.model_validate(found[0]) if found else None


def scene(text: str) -> SetScene:
    settings = settings_of(text)
    return from_text(text, settings) if "kind:" in text else SetScene(configured(settings), settings)


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_finds_its_example_and_no_other_rule_does(code: str) -> None:
    assert {each.rule.code for each in lint(scene(EXAMPLES[code]), ignore=LEFT_OUT - {code})} == {code}


def test_every_rule_has_an_example_but_the_one_that_asks_the_api_server() -> None:
    asked = {code for code, rule in SETS.rules.items() if rule.needs == "cluster"}
    assert asked == {"WL841"}
    assert set(EXAMPLES) == set(SETS.rules) - asked
    assert not set(SETS.rules) & (set(REGISTRY) | set(POOLS.rules))


@pytest.mark.parametrize("code", SETS.rules)
def test_a_rule_says_what_will_happen_and_what_to_do(code: str) -> None:
    rule = SETS.rules[code]
    assert re.fullmatch(r"WL8\d\d", code)
    assert re.fullmatch(r"[a-z][a-z-]+", rule.name)
    assert rule.happens.endswith(".")
    assert rule.mend.endswith(".")
    assert (rule.check is None) != (rule.check_all is None)


GOOD = """
leader_election: {enabled: true}
vpods:
  enabled: true
  sets: [{namespace: kafka, name: sources, stateful_set: dispatcher, capacity: 20, namespaces: [shop]}]
  resources: [{name: g, group: a.dev, version: v1, resource: groups, set: kafka/sources, spread: 3}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: dispatcher, namespace: kafka}
spec:
  podManagementPolicy: Parallel
  ordinals: {start: 0}
  template:
    metadata: {labels: {app: dispatcher}}
    spec: {containers: [{name: side}, {name: main, readinessProbe: {tcpSocket: {port: 80}}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: dispatcher, namespace: kafka}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: dispatcher}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: orders, namespace: shop}
spec: {scaleTargetRef: {apiVersion: waggle.dev/v1alpha1, kind: VPod, name: orders}, maxReplicas: 10}
---
apiVersion: waggle.dev/v1alpha1
kind: VPod
metadata: {name: orders, namespace: shop}
spec: {set: kafka/sources, vreplicas: 3, spread: 2}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: groups.a.dev}
spec: {versions: [{name: v1, served: true, subresources: {status: {}}}]}
"""


def test_a_set_that_is_well_is_left_alone() -> None:
    assert lint(scene(GOOD)) == []


def test_a_set_that_is_not_scaled_may_have_an_autoscaler() -> None:
    text = EXAMPLES["WL822"].replace("capacity: 20", "capacity: 20, autoscale: false")
    assert lint(scene(text), ignore=LEFT_OUT) == []


def test_kedas_scaler_of_the_stateful_set_is_found_too() -> None:
    text = EXAMPLES["WL822"].replace("HorizontalPodAutoscaler", "ScaledObject")
    assert {each.rule.code for each in lint(scene(text), ignore=LEFT_OUT)} == {"WL822"}


def test_without_objects_only_the_configuration_is_looked_at_and_that_is_said() -> None:
    settings = settings_of(EXAMPLES["WL821"])
    alone = SetScene(configured(settings), settings)
    assert lint(alone, ignore=LEFT_OUT) == []
    assert "--objects" in as_text(alone, [])


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda x: (
        st.lists(x)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "template", "versions", "name", "set", "vreplicas", "items", "kind"]),
            x,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JUNK)
def test_whatever_stands_in_an_object_no_rule_fails(item: Any) -> None:
    settings = settings_of(EXAMPLES["WL832"])
    kinds = ("StatefulSet", "VPod", "VPodSet", "CustomResourceDefinition", "HorizontalPodAutoscaler")
    text = json.dumps({"kind": "List", "items": [{**each, "kind": kind} for kind in kinds for each in objects(item)]})
    lint(from_text(text, settings))


def objects(item: Any) -> Iterator[dict[str, Any]]:
    if isinstance(item, dict):
        yield item


# -- the API server -----------------------------------------------------------------------------------------------


def test_a_cluster_is_read_as_a_file_is() -> None:
    with serve_in_thread() as cluster:
        api = Api(cluster.url)
        for name in ("vpods", "vpodsets"):
            cluster.create(yaml.safe_load((CRDS / f"{name}.yaml").read_text()))
        head = {"apiVersion": "waggle.dev/v1alpha1"}
        spec = {"statefulSet": "none", "capacity": 1}
        path = "/apis/waggle.dev/v1alpha1/namespaces"
        api.post(f"{path}/kafka/vpodsets", {**head, "kind": "VPodSet", "metadata": {"name": "s"}, "spec": spec})
        api.post(f"{path}/shop/vpods", {**head, "kind": "VPod", "metadata": {"name": "v"}, "spec": {"set": "kafka/s"}})
        api.close()
        reader = connect(ClusterSettings(server=cluster.url))
        try:
            found = from_cluster(reader, None)
            found.missing_rights = missing_rights(reader, found)
        finally:
            reader.close()
    assert {each.rule.code for each in lint(found)} == {"WL812", "WL821"}
    assert found.missing_rights == {}


def test_a_cluster_without_the_resource_is_told_apart_from_one_that_was_not_read() -> None:
    settings = settings_of(EXAMPLES["WL832"])
    with serve_in_thread() as cluster:
        reader = connect(ClusterSettings(server=cluster.url))
        try:
            found = from_cluster(reader, settings)
        finally:
            reader.close()
    assert "WL831" in {each.rule.code for each in lint(found)}


def test_missing_rights_are_named_by_namespace() -> None:
    findings = lint(SetScene([], None, {}, {"kafka": ["watch pods"], "": ["patch groups/status"]}))
    assert [each.detail for each in findings] == [
        "may not watch pods in namespace kafka",
        "may not patch groups/status",
    ]


def test_the_rights_that_are_asked_for_are_those_that_are_shipped() -> None:
    items = [*documents(MANIFESTS / "vpods" / "rbac.yaml"), *documents(MANIFESTS / "vpods" / "consumergroups.yaml")]
    roles = {item["metadata"]["name"]: grants(item["rules"]) for item in items if item["kind"] == "ClusterRole"}
    group = "internal.kafka.eventing.knative.dev"
    resource = {"name": "g", "group": group, "version": "v1alpha1", "resource": "consumergroups", "set": "a/s"}
    vpods = {
        "enabled": True,
        "custom_resources": True,
        "sets": [{"namespace": "a", "name": "s", "stateful_set": "s", "capacity": 1}],
        "resources": [resource],
    }
    alone = Settings.model_validate(
        {"extender": {"enabled": False}, "leader_election": {"enabled": True}, "vpods": vpods}
    )

    def plain(rights: Any) -> set[tuple[str, str, str]]:
        return {(each.verb, each.group, "/".join(filter(None, (each.resource, each.subresource)))) for each in rights}

    (linted,) = configured(alone)
    assert plain(rights_of_set(linted)) == roles["waggle-vpods-hosts"] | roles["waggle-vpods-autoscaler"]
    assert plain(rights_of_resources(alone)) == roles["waggle-vpods-objects"] | roles["waggle-vpods-consumergroups"]
    leases = {(verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "update")}
    assert plain(needed_rights(alone)) == {
        *plain(rights_of_set(linted)),
        *plain(rights_of_resources(alone)),
        *roles["waggle-vpods"],
        *leases,
    }


# -- the commands -------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["lint", "vpods", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_the_command_says_what_it_found_and_ends_with_1(tmp_path: Path) -> None:
    config, objects = tmp_path / "waggle.yaml", tmp_path / "objects.yaml"
    first, _, rest = EXAMPLES["WL822"].partition("---\n")
    config.write_text(first)
    objects.write_text(rest)
    status, text = run(config, "--objects", objects)
    assert status == 1
    assert "kafka/sources: error WL822 two-autoscalers: HorizontalPodAutoscaler dispatcher" in text
    status, text = run(config, "--objects", objects, "--json", "--ignore", "WL802")
    found = json.loads(text)
    assert (status, [(each["code"], each["set"]) for each in found["findings"]]) == (
        1,
        [("WL822", "kafka/sources"), ("WL826", "kafka/sources")],
    )
    assert found["sets"] == ["kafka/sources"]
    assert run(config)[0] == 0


@pytest.mark.parametrize("arguments", [(), ("nowhere.yaml",), ("--objects", "nowhere.yaml"), ("--ignore", "WL1")])
def test_what_cannot_be_used_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


def test_a_remark_is_nothing_to_mend() -> None:
    findings = lint(scene(EXAMPLES["WL826"]), ignore={"WL802"})
    assert [each.rule.severity for each in findings] == [Severity.INFO]
    assert not to_mend(findings)
    assert json.loads(as_json(scene(EXAMPLES["WL826"]), findings))["findings"][0]["code"] == "WL826"


def test_check_refuses_a_policy_that_cannot_be_used(tmp_path: Path) -> None:
    config = tmp_path / "waggle.yaml"
    config.write_text(EXAMPLES["WL805"])
    done = CliRunner().invoke(app, ["check", "--config", str(config)], env={"COLUMNS": "200"})
    assert done.exit_code != 0
    assert "vpods.sets.0.policy: there is no policy 'ballanced'" in done.output


def test_the_documentation_has_every_rule_word_for_word_with_its_example() -> None:
    page = (ROOT / "docs" / "vpod-lint.md").read_text(encoding="utf-8")
    for section in SETS.as_markdown(EXAMPLES).split("\n### "):
        assert section.strip() in page
    assert run("--rules")[1].strip() == SETS.as_markdown().strip()
