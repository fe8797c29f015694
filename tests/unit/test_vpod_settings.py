"""The section `vpods`: every fault names its field, and what was expected."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.settings import Settings, SettingsError, load

Object = dict[str, Any]
SET: Object = {"namespace": "kafka", "name": "sources", "stateful_set": "dispatcher", "capacity": 20}
RESOURCE: Object = {
    "name": "groups",
    "group": "internal.kafka.eventing.knative.dev",
    "version": "v1alpha1",
    "resource": "consumergroups",
    "set": "kafka/sources",
}


def settings(tmp_path: Path, **vpods: Any) -> Settings:
    path = tmp_path / "waggle.yaml"
    path.write_text(yaml.safe_dump({"vpods": {"enabled": True, **vpods}}), encoding="utf-8")
    return load(path)


def refused(tmp_path: Path, **vpods: Any) -> str:
    with pytest.raises(SettingsError) as error:
        settings(tmp_path, **vpods)
    return str(error.value)


def test_a_set_and_a_resource_need_little(tmp_path: Path) -> None:
    found = settings(tmp_path, sets=[SET], resources=[RESOURCE]).vpods
    assert (found.sets[0].full_name, found.sets[0].policy, found.sets[0].max_replicas) == (
        "kafka/sources",
        "balanced",
        100,
    )
    (resource,) = found.resources
    assert (resource.wanted, resource.placements, resource.default_wanted) == (
        ".spec.replicas",
        ".status.placements",
        1,
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capacity": 0}, "vpods.sets.0.capacity"),
        ({"capacity": 2**31}, "vpods.sets.0.capacity"),
        ({"stateful_set": "No Name"}, "vpods.sets.0.stateful_set"),
        ({"min_replicas": 5, "max_replicas": 4}, "max_replicas: expected at least min_replicas (5), got 4"),
        ({"namespaces": ["a", "b*"]}, "vpods.sets.0.namespaces.1"),
        ({"max_moves": 0}, "vpods.sets.0.max_moves"),
        ({"unready_seconds": float("inf")}, "vpods.sets.0.unready_seconds"),
        ({"replicas": 1}, "vpods.sets.0.replicas"),
    ],
)
def test_a_fault_of_a_set_names_the_field(tmp_path: Path, change: Object, said: str) -> None:
    assert said in refused(tmp_path, sets=[{**SET, **change}])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wanted": "spec.replicas"}, "vpods.resources.0.wanted: expected .name, ['name'] or [number] at character 1"),
        ({"placements": ".status.parts[0]"}, "vpods.resources.0.placements: expected a field of the status"),
        ({"placements": ".spec.placements"}, "vpods.resources.0.placements: expected a field of the status"),
        ({"placements": ".status"}, "vpods.resources.0.placements: expected a field of the status"),
        ({"where": {".spec[*]": "a"}}, "vpods.resources.0.where: '.spec[*]': expected .name"),
        ({"default_wanted": -1}, "vpods.resources.0.default_wanted"),
        ({"default_wanted": 2**31}, "vpods.resources.0.default_wanted"),
        ({"set": "sources"}, "vpods.resources.0.set"),
        ({"set": "kafka/other"}, "groups: set: expected one of vpods.sets, got kafka/other"),
        ({"group": "a/b"}, "vpods.resources.0.group"),
        ({"group": "waggle.dev"}, "vpods.resources.0.group: expected the group of another resource"),
    ],
)
def test_a_fault_of_a_resource_names_the_field(tmp_path: Path, change: Object, said: str) -> None:
    assert said in refused(tmp_path, sets=[SET], resources=[{**RESOURCE, **change}])


def test_a_set_may_be_an_object(tmp_path: Path) -> None:
    assert settings(tmp_path, custom_resources=True, resources=[RESOURCE]).vpods.resources[0].set == "kafka/sources"


def test_two_sets_need_two_names_and_two_stateful_sets(tmp_path: Path) -> None:
    assert "kafka/sources: there are two sets of this name" in refused(tmp_path, sets=[SET, SET])
    said = refused(tmp_path, sets=[SET, {**SET, "name": "other"}])
    assert "kafka/other and kafka/sources: stateful_set: both name dispatcher" in said
    elsewhere = {**SET, "namespace": "other"}
    assert len(settings(tmp_path, sets=[SET, elsewhere]).vpods.sets) == 2


def test_entries_of_one_resource_select_different_objects(tmp_path: Path) -> None:
    def entry(name: str, **where: str) -> Object:
        return {**RESOURCE, "name": name, "where": {f".spec.{key}": value for key, value in where.items()}}

    assert "there are two resources of this name" in refused(
        tmp_path, sets=[SET], resources=[entry("a", kind="x"), entry("a", kind="y")]
    )
    said = refused(tmp_path, sets=[SET], resources=[entry("a", kind="x"), entry("b", size="1")])
    assert "b and a: an object can match both" in said
    assert "an object can match both" in refused(tmp_path, sets=[SET], resources=[entry("a", kind="x"), entry("b")])
    same_path = {**entry("b"), "where": {"['spec']['kind']": "y"}}
    assert len(settings(tmp_path, sets=[SET], resources=[entry("a", kind="x"), same_path]).vpods.resources) == 2


@pytest.mark.parametrize("section", ["claims", "vpods"])
def test_a_process_may_serve_one_thing_only(section: str) -> None:
    assert not Settings.model_validate({"extender": {"enabled": False}, section: {"enabled": True}}).extender.enabled


@pytest.mark.parametrize("more", [{}, {"claims": {}}, {"claims": {"enabled": False}, "vpods": {"enabled": False}}])
def test_a_process_that_would_serve_nothing_is_refused(more: Object) -> None:
    with pytest.raises(ValueError, match="this process would serve nothing"):
        Settings.model_validate({"extender": {"enabled": False}, **more})


@pytest.mark.parametrize("page", ["configuration.md", "moving-from-knative.md"])
def test_the_configurations_of_the_documentation_are_accepted(page: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    blocks = [textwrap.dedent(each) for each in re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.M | re.S)]
    (found,) = (each for each in blocks if "vpods:" in each)
    path = tmp_path / "waggle.yaml"
    path.write_text(found, encoding="utf-8")
    served = load(path).vpods
    assert {each.set for each in served.resources} == {each.full_name for each in served.sets}
