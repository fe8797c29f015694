"""CustomResourceDefinitions from the models: structural schemas, printer columns, status and scale.

pydantic writes JSON Schema 2020-12; Kubernetes accepts a subset of OpenAPI 3.0. Rules that this subset cannot express,
such as the names that a map may have, are left out here, and checked by the models only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from extender.resources.claim import Claim
from extender.resources.pool import Pool
from extender.resources.shared import GROUP, VERSION
from extender.resources.vpod import VPod
from extender.resources.vpod_set import VPodSet

Object = dict[str, Any]

#: The keywords of pydantic's schemas that a structural schema may have, in their order of output.
_KEPT = (
    *("type", "format", "description", "default", "enum", "pattern", "minLength", "maxLength"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    "x-kubernetes-preserve-unknown-fields",
)
#: The API server itself defines these fields of every object.
_HEAD: Mapping[str, Object] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def definitions() -> dict[str, Object]:
    """Return the definitions by their plural names."""
    return {"pools": _pools(), "claims": _claims(), "vpodsets": _vpod_sets(), "vpods": _vpods()}


def _pools() -> Object:
    return _definition(
        Pool,
        "pools",
        columns=(
            ("Mode", "string", ".spec.mode", 0),
            ("Idle", "integer", ".status.idle", 0),
            ("Claimed", "integer", ".status.claimed", 0),
            ("Starting", "integer", ".status.starting", 0),
            ("Pending", "integer", ".status.pending", 0),
            ("Ready", "string", _condition("Ready"), 0),
            ("Order", "string", ".spec.order", 1),
            ("Selector", "string", ".status.selector", 1),
        ),
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def _claims() -> Object:
    return _definition(
        Claim,
        "claims",
        columns=(
            ("Pool", "string", ".spec.poolRef.name", 0),
            ("Phase", "string", ".status.phase", 0),
            ("Pod", "string", ".status.pods[0].name", 0),
            ("Ready", "string", _condition("Ready"), 0),
            ("Reason", "string", ".status.reason", 0),
            ("Node", "string", ".status.pods[0].node", 1),
            ("Expires", "string", ".status.leaseExpires", 1),
        ),
    )


def _vpod_sets() -> Object:
    return _definition(
        VPodSet,
        "vpodsets",
        columns=(
            ("StatefulSet", "string", ".spec.statefulSet", 0),
            ("Replicas", "integer", ".status.replicas", 0),
            ("Usable", "integer", ".status.usable", 0),
            ("Placed", "integer", ".status.placed", 0),
            ("Pending", "integer", ".status.pending", 0),
            ("Free", "integer", ".status.free", 0),
            ("Ready", "string", _condition("Ready"), 0),
            ("Capacity", "integer", ".status.capacity", 1),
            ("Draining", "integer", ".status.draining", 1),
            ("Policy", "string", ".spec.policy", 1),
        ),
    )


def _vpods() -> Object:
    return _definition(
        VPod,
        "vpods",
        columns=(
            ("Set", "string", ".spec.set", 0),
            ("Wanted", "integer", ".spec.vreplicas", 0),
            ("Scheduled", "integer", ".status.scheduled", 0),
            ("Reason", "string", ".status.reason", 0),
            ("Spread", "integer", ".spec.spread", 1),
            ("Message", "string", ".status.message", 1),
        ),
        scale={
            "specReplicasPath": ".spec.vreplicas",
            "statusReplicasPath": ".status.scheduled",
            "labelSelectorPath": ".status.selector",
        },
    )


def _condition(type_: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].status'


def _definition(
    model: type[BaseModel],
    plural: str,
    *,
    columns: tuple[tuple[str, str, str, int], ...],
    scale: Object | None = None,
) -> Object:
    kind = model.__name__
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    shown = [
        {"name": name, "type": type_, "jsonPath": path, **({"priority": priority} if priority else {})}
        for name, type_, path, priority in (*columns, ("Age", "date", ".metadata.creationTimestamp", 0))
    ]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": shown,
        "subresources": {"status": {}, **({"scale": scale} if scale else {})},
        "schema": {"openAPIV3Schema": schema_of(model)},
    }
    spec = {
        "group": GROUP,
        "names": {**names, "categories": ["waggle"]},
        "scope": "Namespaced",
        "versions": [version],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "waggle"}},
        "spec": spec,
    }


def schema_of(model: type[BaseModel]) -> Object:
    """Return the structural schema of an object of this model."""
    whole = model.model_json_schema(by_alias=True)
    parts = whole.get("$defs", {})
    fields = {name: _schema(whole["properties"][name], parts) for name in ("spec", "status")}
    # The server writes the whole status: the API server must not fill in defaults.
    fields["status"].pop("default", None)
    _without_defaults(fields["status"])
    return {
        "type": "object",
        "description": whole["description"],
        "required": ["spec"],
        "properties": {**_HEAD, **fields},
    }


def _schema(given: Object, parts: Mapping[str, Object]) -> Object:
    given = _resolved(given, parts)
    schema: Object = {name: given[name] for name in _KEPT if given.get(name) is not None}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    for bound, open_end in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if open_end in given:
            schema |= {bound: given[open_end], open_end: True}
    if "properties" in given:
        schema["properties"] = {name: _schema(each, parts) for name, each in given["properties"].items()}
        if given.get("required"):
            schema["required"] = given["required"]
        else:
            # The API server fills in the defaults of a part only if the part itself has a default.
            schema["default"] = {}
    elif isinstance(given.get("additionalProperties"), dict):
        schema["additionalProperties"] = _schema(given["additionalProperties"], parts)
    if "items" in given:
        schema["items"] = _schema(given["items"], parts)
    return schema


def _resolved(given: Object, parts: Mapping[str, Object]) -> Object:
    """Return `given` with its reference replaced by the part, and without the type null, which means "absent"."""
    beside = {key: value for key, value in given.items() if key not in ("anyOf", "allOf", "$ref")}
    if "anyOf" in given:
        (one,) = [each for each in given["anyOf"] if each.get("type") != "null"]
        return {**_resolved(one, parts), **beside}
    if "$ref" in given:
        return {**_resolved(parts[given["$ref"].rpartition("/")[2]], parts), **beside}
    return given


def _without_defaults(schema: Object) -> None:
    schema.pop("default", None)
    for each in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(each, dict):
            _without_defaults(each)
