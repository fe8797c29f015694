"""/openapi: the schemas of custom resources, and none of the others.

Clients take an absent schema for "cannot be checked here", and go on: kubectl neither checks fields of built-in kinds
nor needs `--validate=false`, and merges them by the Go types that it has built in. Of custom kinds it finds the schema:
`kubectl explain` works, and `kubectl apply` asks this server for strict checks (fieldValidation).
"""

from __future__ import annotations

from typing import Any

from extender.embedded.apiserver.discovery import VERSION
from extender.embedded.apiserver.objects import Object, encode
from extender.embedded.apiserver.resources import Resource, ResourceTable

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_INFO: Object = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
_METADATA: Object = {
    "type": "object",
    "description": "Standard object's metadata.",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_TEXTS = {
    "apiVersion": "The versioned schema of this representation of an object.",
    "kind": "The REST resource that this object represents, in CamelCase.",
}
_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def openapi(table: ResourceTable, path: str, accept: str) -> tuple[bytes, str] | None:
    """The body at `path` and its media type; None if nothing is there."""
    if path == "/openapi/v2":
        if _V2_PROTOBUF in accept:
            # No bytes at all are a protobuf message whose fields are all unset. Nothing parses a media type with @.
            return b"", _V2_PROTOBUF.replace("@", ".")
        return encode({"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}), "application/json"
    groups = {f"apis/{row.api_version}" for row in table if row.custom}
    if path == "/openapi/v3":
        found = {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in sorted(groups)}
        return encode({"paths": found}), "application/json"
    name = path.removeprefix("/openapi/v3/")
    if path != name and name in groups:
        return encode(_document([row for row in table if f"apis/{row.api_version}" == name])), "application/json"
    return None


def _document(rows: list[Resource]) -> Object:
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {_path(row): _operations(row) for row in rows},
        "components": {"schemas": {_name(row): _schema(row) for row in rows}},
    }


def _name(row: Resource) -> str:
    """As in the real server: the group backwards, then version and kind."""
    return ".".join([*reversed(row.group.split(".")), row.version, row.kind])


def _path(row: Resource) -> str:
    place = "namespaces/{namespace}/" if row.namespaced else ""
    return f"/apis/{row.api_version}/{place}{row.plural}/{{name}}"


def _kind(row: Resource) -> Object:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _operations(row: Resource) -> Object:
    content: Object = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_name(row)}"}}}
    answer = {"responses": {"200": {"description": "OK", "content": content}}}
    strict = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    marks = {"x-kubernetes-group-version-kind": _kind(row)}
    patch = {"content": {kind: {"schema": {"type": "object"}} for kind in _PATCH_TYPES}}
    return {
        "get": {**answer, **marks, "x-kubernetes-action": "get"},
        "put": {**answer, **marks, "x-kubernetes-action": "put", "parameters": [strict]},
        "patch": {**answer, **marks, "x-kubernetes-action": "patch", "parameters": [strict], "requestBody": patch},
    }


def _schema(row: Resource) -> Object:
    given: Object = dict(row.custom.schema) if row.custom else {}
    fields: dict[str, Any] = {name: {"type": "string", "description": text} for name, text in _TEXTS.items()}
    fields = {**fields, "metadata": _METADATA, **given.get("properties", {})}
    fields["metadata"] = {**_METADATA, **fields["metadata"]}
    return {**given, "properties": fields, "x-kubernetes-group-version-kind": [_kind(row)]}
