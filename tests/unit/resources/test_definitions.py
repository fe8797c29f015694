"""The definitions in manifests/crds are those of the models, and both judge objects alike."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from extender.claims.records import Mode, OnEmpty, Order
from extender.conversions.pools import custom_pool
from extender.embedded.apiserver.custom.definitions import definition_faults, set_definition_defaults
from extender.embedded.apiserver.custom.schema import prune, set_defaults, validate
from extender.operate.crds import files, main
from extender.resources import Claim, Pool, ResourceError, VPod, VPodSet, read
from extender.resources.definitions import definitions, schema_of
from extender.vpods.records import VPOD_OBJECTS, VPodKey
from extender.vpods.writes.placements import WritePlacements, request

Object = dict[str, Any]
MANIFESTS = Path(__file__).parents[3] / "manifests"
MODELS: dict[str, type[BaseModel]] = {"pools": Pool, "claims": Claim, "vpodsets": VPodSet, "vpods": VPod}
SCHEMAS = {plural: schema_of(model) for plural, model in MODELS.items()}
POOL: Object = {"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}}
CLAIM: Object = {"metadata": {"name": "c"}, "spec": {"poolRef": {"name": "p"}}}
SET: Object = {"metadata": {"name": "s"}, "spec": {"statefulSet": "s", "capacity": 10}}
VPOD: Object = {"metadata": {"name": "v"}, "spec": {"set": "s"}}
MINIMAL = {"pools": POOL, "claims": CLAIM, "vpodsets": SET, "vpods": VPOD}


def test_the_manifests_are_generated_from_the_models() -> None:
    made = {path.name: path.read_text(encoding="utf-8") for path in (MANIFESTS / "crds").glob("*s.yaml")}
    assert made == files(), "run python -m extender.operate.crds"


def test_the_generator_writes_where_it_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{plural}.yaml" for plural in MODELS}


def test_kustomize_and_helm_have_every_definition() -> None:
    listed = yaml.safe_load((MANIFESTS / "crds" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(files())
    for name in files():
        assert (MANIFESTS / "chart" / "crds" / name).resolve() == MANIFESTS / "crds" / name


@pytest.mark.parametrize("plural", MODELS)
def test_a_definition_is_structural_and_complete(plural: str) -> None:
    definition = copy.deepcopy(definitions()[plural])
    set_definition_defaults(definition)
    assert [each.message for each in definition_faults(definition)] == []


@pytest.mark.parametrize("plural", MODELS)
def test_every_field_of_a_spec_is_described(plural: str) -> None:
    fields = SCHEMAS[plural]["properties"]["spec"]["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_the_scale_of_a_vpod_is_its_vreplicas() -> None:
    """So that `kubectl scale` and autoscalers, which need a selector, work on it."""
    (version,) = definitions()["vpods"]["spec"]["versions"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.vreplicas",
            "statusReplicasPath": ".status.scheduled",
            "labelSelectorPath": ".status.selector",
        },
    }


def test_the_settings_of_a_policy_are_kept_as_they_are() -> None:
    settings = {"predicates": [{"name": "PodFitsResources", "arguments": None}]}
    stored = admitted("vpodsets", {**SET, "spec": {**SET["spec"], "policySettings": settings}})
    assert stored is not None
    assert stored["spec"]["policySettings"] == settings


def test_what_the_engine_writes_of_a_vpod_is_kept_by_the_api_server() -> None:
    """A field that the schema does not have would be lost without an error."""
    write = WritePlacements(
        token=1,
        key=VPodKey("n", "v"),
        source=VPOD_OBJECTS,
        uid="4c0ad9ae-1b3c-4f60-8ee0-6a1d2b0d7a5b",
        version="1",
        placements=(("s-0", 2), ("s-1", 1)),
        generation=3,
        reason="Placed",
        message="as wanted",
        scheduled=3,
        condition="True",
        since="2026-11-23T15:00:00Z",
    )
    status = json.loads(request(write).body or b"")["status"]
    stored = admitted("vpods", {**VPOD, "status": status})
    assert stored is not None
    assert stored["status"] == status
    found = read(VPod, stored).status
    assert [(each.pod_name, each.vreplicas) for each in found.placements] == [("s-0", 2), ("s-1", 1)]
    assert (found.scheduled, found.reason, found.conditions[0].type) == (3, "Placed", "Scheduled")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"vreplicas": -1}, "spec.vreplicas"),
        ({"vreplicas": 2**31}, "spec.vreplicas"),
        ({"vreplicas": "3"}, "spec.vreplicas"),
        ({"vreplicas": 1.5}, "spec.vreplicas"),
        ({"set": "a/b/c"}, "spec.set"),
        ({"set": ""}, "spec.set"),
        ({"spread": -1}, "spec.spread"),
        ({"maxPerPod": True}, "spec.maxPerPod"),
    ],
)
def test_a_bad_vpod_is_refused_by_both(change: Object, field: str) -> None:
    obj = {**VPOD, "spec": {**VPOD["spec"], **change}}
    assert admitted("vpods", obj) is None
    with pytest.raises(ResourceError, match=field):
        read(VPod, obj)


def test_the_choices_are_those_of_the_engine() -> None:
    spec, claim = (SCHEMAS[plural]["properties"]["spec"]["properties"] for plural in ("pools", "claims"))
    assert set(spec["mode"]["enum"]) == set(Mode)
    assert set(spec["order"]["enum"]) == set(Order)
    assert set(claim["onEmpty"]["enum"]) == set(OnEmpty)


def admitted(plural: str, obj: Object) -> Object | None:
    """The object as the API server stores it; None if it refuses it."""
    stored = copy.deepcopy(obj)
    prune(SCHEMAS[plural], stored)
    set_defaults(SCHEMAS[plural], stored)
    return None if list(validate(SCHEMAS[plural], stored)) else stored


@pytest.mark.parametrize("plural", MODELS)
def test_what_the_api_server_fills_in_the_model_would(plural: str) -> None:
    model = MODELS[plural]
    stored = admitted(plural, MINIMAL[plural])
    assert read(model, stored) == read(model, MINIMAL[plural])


SCALARS = st.sampled_from([None, True, -1, 0, 1, 5, 10**6, "", "a", "x" * 64, "x" * 2000, "detach", "cold", "1/2"])
VALUES = (
    SCALARS
    | st.dictionaries(st.sampled_from(["a", "name", "app"]), SCALARS, max_size=2)
    | st.lists(SCALARS, max_size=2)
)


def places(schema: Object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every field of a spec, at any depth."""
    found = []
    for name, inner in schema.get("properties", {}).items():
        found += [(*path, name), *places(inner, (*path, name))]
    return found


@pytest.mark.parametrize("plural", MODELS)
@given(data=st.data())
def test_model_and_schema_agree_about_any_value_of_any_field(plural: str, data: st.DataObject) -> None:
    schema = SCHEMAS[plural]["properties"]["spec"]
    obj = copy.deepcopy(MINIMAL[plural])
    *way, last = data.draw(st.sampled_from(places(schema)))
    inner = obj["spec"]
    for name in way:
        inner = inner.setdefault(name, {})
    inner[last] = data.draw(VALUES)
    stored = admitted(plural, obj)
    try:
        read(MODELS[plural], stored if stored is not None else obj)
    except ResourceError as error:
        # A schema cannot say which names labels may have, what needs a workload, and that one field bounds another.
        beyond = ("label", "`workload`", "expected at least minReplicas")
        assert stored is None or any(each in str(error) for each in beyond), (obj, str(error))
    else:
        # null counts as absent to the API server only; what else it refuses, the model must refuse.
        assert stored is not None or inner[last] is None, obj


# -- what the models say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"selector": {"matchLabels": {"waggle.dev/phase": "idle"}}}, "spec.selector.matchLabels: waggle.dev/phase"),
        ({"selector": {"matchLabels": {"not a name": "x"}}}, "'not a name': expected the name of a label"),
        ({"selector": {"matchLabels": {}}}, "spec.selector.matchLabels"),
        ({"limitz": {}}, "spec.limitz"),
        ({"limits": {"maxPending": 0, "maxPodsPerClaim": 0}}, "spec.limits.maxPodsPerClaim"),
        ({"weights": {"a": 0}}, "spec.weights.a"),
        ({f"x{number}": 1 for number in range(20)}, "and 15 more"),
    ],
)
def test_a_fault_names_its_field_as_it_is_written(change: Object, text: str) -> None:
    with pytest.raises(ResourceError) as refused:
        read(Pool, {**POOL, "spec": {**POOL["spec"], **change}})
    assert text in str(refused.value)


def test_fields_of_a_status_that_a_newer_server_wrote_are_ignored() -> None:
    found = read(
        Claim, {**CLAIM, "status": {"phase": "Claimed", "newer": 1, "pods": [{"name": "p", "uid": "u", "x": 1}]}}
    )
    assert found.status.pods[0].name == "p"


def test_a_pool_object_becomes_the_engines_pool() -> None:
    spec = {
        "selector": {"matchLabels": {"app": "a"}},
        "mode": "recycle",
        "order": "pack",
        "limits": {"maxPending": 5, "maxPendingPerTenant": 4, "maxPodsPerTenant": 3, "maxPodsPerClaim": 2},
        "defaults": {"leaseSeconds": 60},
        "startSeconds": 7,
        "images": {"main": "idle:1"},
        "weights": {"blue": 2},
    }
    pool = custom_pool(read(Pool, {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
    assert str(pool.key) == "n/p"
    assert (pool.mode, pool.order) == (Mode.RECYCLE, Order.PACK)
    assert (pool.max_pending, pool.max_pending_per_tenant) == (5, 4)
    assert (pool.max_pods_per_tenant, pool.max_pods_per_claim) == (3, 2)
    assert (pool.lease_seconds, pool.start_seconds) == (60.0, 7.0)
    assert (pool.selector, pool.images, pool.weights) == ({"app": "a"}, {"main": "idle:1"}, {"blue": 2.0})
