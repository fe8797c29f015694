"""`waggle lint ordering`: every rule finds its example; what is well is left alone; what it says of a cycle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli import app
from extender.operate.lint_ordering import as_json, as_text, lint
from extender.operate.ordering_rules import ORDERING
from extender.operate.ordering_scene import OrderingScene, from_sources
from extender.plan.reading.documents import Source
from tests.support.manifests import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "lint-ordering"
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.yaml"))}


def scene(text: str) -> OrderingScene:
    return from_sources([Source("x.yaml", text)], "default")


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_finds_its_example(code: str) -> None:
    found = {each.rule.code for each in lint(scene(EXAMPLES[code]))}
    assert found == ({"WL902", "WL903"} if code == "WL903" else {code})


def test_every_rule_has_an_example() -> None:
    assert set(EXAMPLES) == set(ORDERING.rules)


def test_a_cycle_is_told_with_its_path_and_its_files() -> None:
    found = scene(EXAMPLES["WL903"])
    text = as_text(found, lint(found))
    path = "Pod/default/chicken -> Pod/default/egg -> Pod/default/chicken"
    assert f"Pod/default/chicken (x.yaml, document 1): error WL902 cycle: dependencies form a cycle: {path}" in text
    assert "Pod/default/breakfast (x.yaml, document 3): error WL903" in text
    assert "3 dependants: 3 errors" in text
    assert json.loads(as_json(found, lint(found)))["findings"][0]["code"] == "WL902"


def test_a_job_set_whose_parts_wait_in_a_circle() -> None:
    part = """
    - name: {name}
      dependsOn: [{{name: {other}, status: Ready}}]
      template:
        spec:
          template:
            spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}
"""
    head = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  replicatedJobs:"
    found = scene(head + part.format(name="a", other="b") + part.format(name="b", other="a"))
    cycles = [each for each in lint(found) if each.rule.code == "WL902"]
    assert [each.detail for each in cycles] == [
        "dependencies form a cycle: ReplicatedJob/default/s/a -> ReplicatedJob/default/s/b -> ReplicatedJob/default/s/a"
    ]


def test_a_healthy_order_has_no_findings() -> None:
    healthy = EXAMPLES["WL902"].replace("[pod/chicken]", "[{kind: Job, name: x, optional: true}]")
    assert lint(scene(healthy)) == []


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(EXAMPLES["WL902"], encoding="utf-8")
    result = CliRunner().invoke(app, ["lint", "ordering", "-f", str(file)])
    assert result.exit_code == 1
    assert "WL902" in result.output
    assert CliRunner().invoke(app, ["lint", "ordering", "-f", str(file), "--ignore", "WL902"]).exit_code == 0
    assert CliRunner().invoke(app, ["lint", "ordering", "-f", str(tmp_path / "none.yaml")]).exit_code == 2
    assert CliRunner().invoke(app, ["lint", "ordering"]).exit_code == 2
    assert "### WL901" in CliRunner().invoke(app, ["lint", "ordering", "--rules"]).output


def test_the_page_has_every_rule_with_its_example() -> None:
    page = (ROOT / "docs" / "ordering.md").read_text(encoding="utf-8")
    for section in ORDERING.as_markdown(EXAMPLES).split("\n### "):
        assert section.strip() in page, "paste ORDERING.as_markdown(EXAMPLES) into the page"


def test_all_that_is_missing_is_named() -> None:
    """The reason of a pod names one of them, but an author wants to mend the manifest once."""
    after = "[pod/a, {kind: Job, name: b, state: Complete}, {kind: Job, name: c, optional: true}]"
    text = f'apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{waggle.dev/after: "{after}"}}}}\n'
    found = scene(text + "spec: {schedulingGates: [{name: waggle.dev/after}], containers: [{name: c, image: x}]}\n")
    assert [each.detail for each in lint(found)] == ["waits for Job/default/b, Pod/default/a, which do not exist"]
