"""`waggle lint pool`: every rule finds its example, and no other rule does; a pool that is well is left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.kubeconfig import connect
from extender.operate.doctor import needed_rights
from extender.operate.lint_pools import as_json, as_text, lint, missing_rights, rights_of_claims
from extender.operate.pool_rules import POOLS
from extender.operate.pool_scene import LintedPool, Scene, configured, from_cluster, from_text
from extender.operate.rules import REGISTRY, Severity
from extender.operate.scene import SceneError
from extender.operate.scene_rules import to_mend
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.rbac import grants
from tests.support.manifests import MANIFESTS, ROOT, documents

FIXTURES = ROOT / "tests" / "fixtures" / "lint-pools"
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.yaml"))}
#: Examples show one trap, without all that a good workload has.
LEFT_OUT = {"WL723", "WL733"}
#: Some traps cannot be shown without another one.
ALSO = {"WL703": {"WL711", "WL722"}}


def settings_of(text: str) -> Settings | None:
    """Waggle's configuration is the document that has no kind."""
    found = [each for each in yaml.safe_load_all(text) if each and "kind" not in each]
    return Settings.model_validate(found[0]) if found else None


def scene(text: str) -> Scene:
    settings = settings_of(text)
    return (
        from_text(text, settings)
        if "kind:" in text or settings is None
        else Scene(configured(settings.claims), settings)
    )


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_finds_its_example_and_no_other_rule_does(code: str) -> None:
    found = {each.rule.code for each in lint(scene(EXAMPLES[code]), ignore=LEFT_OUT - {code})}
    assert code in found
    assert found - {code} <= ALSO.get(code, set())


def test_every_rule_has_an_example_but_the_one_that_asks_the_api_server() -> None:
    asked = {code for code, rule in POOLS.rules.items() if rule.needs == "cluster"}
    assert asked == {"WL741"}
    assert set(EXAMPLES) == set(POOLS.rules) - asked
    assert not set(POOLS.rules) & set(REGISTRY)


@pytest.mark.parametrize("code", POOLS.rules)
def test_a_rule_says_what_will_happen_and_what_to_do(code: str) -> None:
    rule = POOLS.rules[code]
    assert re.fullmatch(r"WL7\d\d", code)
    assert re.fullmatch(r"[a-z][a-z-]+", rule.name)
    assert rule.happens.endswith(".")
    assert rule.mend.endswith(".")
    assert (rule.check is None) != (rule.check_all is None)


GOOD = """
claims:
  enabled: true
  pools: [{namespace: sandboxes, name: python, selector: {pool: python}, mode: MODE}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: python, namespace: sandboxes}
spec:
  replicas: 20
  selector: {matchLabels: {pool: python}}
  template:
    metadata: {labels: {pool: python, waggle.dev/phase: idle}}
    spec: {containers: [{name: main, image: python:3.13, readinessProbe: {tcpSocket: {port: 80}}}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: python-5d8f, namespace: sandboxes, ownerReferences: [{kind: Deployment, controller: true}]}
spec:
  selector: {matchLabels: {pool: python, pod-template-hash: 5d8f}}
  template: {metadata: {labels: {pool: python}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: python, namespace: elsewhere}
spec: {selector: {matchLabels: {pool: python}}, template: {metadata: {labels: {pool: python}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: python, namespace: sandboxes}
spec: {maxUnavailable: 1, selector: {matchLabels: {pool: python}}}
---
"""
GUARD = (MANIFESTS / "components" / "claims-guard" / "replicasets.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["detach", "recycle"])
def test_a_pool_that_is_well_is_left_alone(mode: str) -> None:
    assert lint(scene(GOOD.replace("MODE", mode) + GUARD)) == []


def test_a_policy_that_is_not_bound_or_only_audits_protects_nobody() -> None:
    for text in (GUARD.split("---")[0], GUARD.replace("[Deny]", "[Audit]")):
        assert [each.rule.code for each in lint(scene(GOOD.replace("MODE", "detach") + text))] == ["WL723"]


def test_an_autoscaler_by_the_pools_own_metrics_is_fine() -> None:
    by_queue = EXAMPLES["WL726"].replace("{type: Resource, resource: {", "{type: External, external: {")
    assert lint(scene(by_queue), ignore=LEFT_OUT) == []


def test_without_objects_only_the_configuration_is_looked_at_and_that_is_said() -> None:
    settings = settings_of(EXAMPLES["WL711"])
    assert settings is not None
    alone = Scene(configured(settings.claims), settings)
    assert lint(alone) == []
    assert "--objects" in as_text(alone, [])


@pytest.mark.parametrize("kind", ["DaemonSet", "Job", "StatefulSet"])
def test_only_replicasets_replace_what_is_taken_out(kind: str) -> None:
    text = EXAMPLES["WL722"].replace("StatefulSet", kind)
    assert {each.rule.code for each in lint(scene(text), ignore=LEFT_OUT)} == {"WL722"}
    recycled = text.replace("selector: {pool: python}}]", "selector: {pool: python}, mode: recycle}]")
    assert "WL722" not in {each.rule.code for each in lint(scene(recycled))}


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "metadata",
                        "spec",
                        "selector",
                        "matchLabels",
                        "matchExpressions",
                        "template",
                        "labels",
                        "items",
                        "kind",
                        "name",
                        "replicas",
                        "status",
                    ]
                ),
                x,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_stands_in_an_object_no_rule_fails(item: Any) -> None:
    settings = settings_of(EXAMPLES["WL711"])
    assert settings is not None
    objects = {kind: list(_sections(item)) for kind in ("Deployment", "Pod", "PodDisruptionBudget", "Service")}
    lint(Scene(configured(settings.claims), settings, objects, {}))


def _sections(item: Any) -> Iterator[Any]:
    yield from from_text(json.dumps({"kind": "List", "items": [item]}), None).of("")


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(SceneError, match="not readable"):
        from_text("a: [", None)


# -- the API server -----------------------------------------------------------------------------------------------


def test_a_cluster_is_read_as_a_file_is() -> None:
    text = EXAMPLES["WL721"]
    settings = settings_of(text)
    (deployment,) = (each for each in yaml.safe_load_all(text) if "kind" in each)
    with serve_in_thread() as cluster:
        made = httpx.post(f"{cluster.url}/apis/apps/v1/namespaces/sandboxes/deployments", json=deployment)
        assert made.status_code == 201, made.text
        api = connect(ClusterSettings(server=cluster.url))
        try:
            found = from_cluster(api, settings)
        finally:
            api.close()
    assert "WL721" in {each.rule.code for each in lint(found)}


def test_missing_rights_are_named_by_namespace() -> None:
    pool = LintedPool("sandboxes", "python", {"pool": "python"})
    findings = lint(Scene([pool], None, {}, {"sandboxes": ["patch pods"]}), ignore={"WL711"})
    assert [(each.rule.code, each.detail) for each in findings] == [("WL741", "may not patch pods")]
    assert lint(Scene([pool], None, {}, {"sandboxes": []}), ignore={"WL711"}) == []


def test_the_rights_that_are_asked_for_are_those_that_are_shipped() -> None:
    roles = {
        item["metadata"]["name"]: item for item in documents(MANIFESTS / "claims" / "rbac.yaml") if "rules" in item
    }
    assert {(each.verb, each.group, each.resource) for each in rights_of_claims("a")} == grants(
        roles["waggle-claims-pods"]["rules"]
    )
    claims = {"enabled": True, "pools": [{"namespace": "a", "name": "p", "selector": {"x": "y"}}]}
    alone = Settings.model_validate({"extender": {"enabled": False}, "claims": claims})
    assert {(each.verb, each.resource, each.namespace) for each in needed_rights(alone)} == {
        *(("list", "nodes", ""), ("watch", "nodes", "")),
        *((verb, "pods", "a") for verb in ("get", "list", "watch", "patch", "delete")),
    }


def test_an_api_server_that_lets_everybody_do_everything_misses_none() -> None:
    with serve_in_thread() as cluster:
        api = connect(ClusterSettings(server=cluster.url))
        try:
            found = missing_rights(api, [LintedPool("a", "p", {"x": "y"})])
        finally:
            api.close()
    assert found == {"a": []}


# -- the command --------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["lint", "pool", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_the_command_says_what_it_found_and_ends_with_1(tmp_path: Path) -> None:
    config, objects = tmp_path / "waggle.yaml", tmp_path / "objects.yaml"
    first, _, rest = EXAMPLES["WL721"].partition("---\n")
    config.write_text(first)
    objects.write_text(rest)
    status, text = run(config, "--objects", objects)
    assert status == 1
    assert "sandboxes/python: error WL721 adopted-again: Deployment python selects by app" in text
    status, text = run(config, "--objects", objects, "--json", "--ignore", "WL723")
    assert (status, [each["code"] for each in json.loads(text)["findings"]]) == (1, ["WL721", "WL733"])
    assert run(config)[0] == 0


@pytest.mark.parametrize(
    "arguments", [(), ("nowhere.yaml",), ("--objects", "nowhere.yaml"), ("--ignore", "WL1"), ("--namespace", "a")]
)
def test_what_cannot_be_used_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


def test_an_empty_file_of_objects_accuses_no_pool(tmp_path: Path) -> None:
    config, objects = tmp_path / "waggle.yaml", tmp_path / "objects.yaml"
    config.write_text(EXAMPLES["WL721"].partition("---\n")[0])
    objects.write_text("\n")
    status, text = run(config, "--objects", objects)
    assert (status, "WL711" in text) == (2, False)
    assert "--objects" in text
    objects.write_text("{apiVersion: v1, kind: List, items: []}")
    status, text = run(config, "--objects", objects)
    assert (status, "WL711" in text) == (1, True)


def test_a_remark_is_nothing_to_mend() -> None:
    findings = lint(scene(EXAMPLES["WL735"]), ignore=LEFT_OUT)
    assert [each.rule.severity for each in findings] == [Severity.INFO]
    assert not to_mend(findings)
    assert json.loads(as_json(scene(EXAMPLES["WL735"]), findings))["findings"][0]["code"] == "WL735"


def test_the_documentation_has_every_rule_word_for_word_with_its_example() -> None:
    page = (ROOT / "docs" / "pool-lint.md").read_text(encoding="utf-8")
    for section in POOLS.as_markdown(EXAMPLES).split("\n### "):
        assert section.strip() in page
    assert run("--rules")[1].strip() == POOLS.as_markdown().strip()
