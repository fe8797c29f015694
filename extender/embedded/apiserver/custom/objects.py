"""One custom object on its way into the store: what is dropped, filled in, and refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from extender.embedded.apiserver.custom.schema import (
    LIST_KEYS,
    LIST_TYPE,
    Schema,
    prune,
    set_defaults,
    validate,
)
from extender.embedded.apiserver.errors import ApiError, FieldError, bad_request, invalid_value
from extender.embedded.apiserver.objects import Object, encode, without_nulls
from extender.embedded.apiserver.resources import CustomKind, Resource

_MOST = 2**31
#: The fields of ObjectMeta.
_METADATA = frozenset(
    {
        *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "labels"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "annotations"),
        *("ownerReferences", "finalizers", "managedFields"),
    }
)


@dataclass(slots=True)
class UnknownFields:
    """What becomes of fields that the schema does not know: `mode` is the parameter fieldValidation."""

    mode: str = "Warn"
    #: For the client, as texts.
    warnings: list[str] = field(default_factory=list)

    def found(self, paths: list[str], resource: Resource, patched: bytes | None) -> None:
        """Raises 400 in the mode Strict, or 422 if it is an object that was `patched` (shown as text)."""
        texts = [f'unknown field "{path}"' for path in paths]
        if not texts or self.mode == "Ignore":
            return
        if self.mode != "Strict":
            self.warnings.extend(texts)
            return
        why = "strict decoding error: " + ", ".join(texts)
        if patched is not None:
            fault = invalid_value("patch", patched.decode(), why)
            causes = [{"reason": fault.reason, "message": fault.text, "field": fault.path}]
            raise ApiError(422, "Invalid", f' "" is invalid: {fault.message}', details={"causes": causes})
        kind = resource.kind
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


def admit(
    resource: Resource, custom: CustomKind, obj: Object, unknown: UnknownFields, *, in_patch: bool = False
) -> None:
    """Drop what the schema does not know and fill in what it says, in place; `obj` is in stored form.

    Raises 400 or 422 for unknown fields, if `unknown` is strict.
    """
    patched = encode(obj) if in_patch and unknown.mode == "Strict" else None
    metadata = without_nulls(obj["metadata"])
    odd = [f"metadata.{key}" for key in metadata if key not in _METADATA]
    obj["metadata"] = {key: value for key, value in metadata.items() if key in _METADATA}
    unknown.found(sorted([*odd, *prune(custom.schema, obj)]), resource, patched)
    set_defaults(custom.schema, obj)


def faults(custom: CustomKind, obj: Object) -> Iterator[FieldError]:
    """Every field of `obj` at fault."""
    yield from validate(_without_metadata(custom.schema), obj)
    if custom.scale is None:
        return
    for path in (custom.scale.replicas, custom.scale.status_replicas):
        value = _at(obj, path)
        if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value < _MOST:
            yield invalid_value("." + ".".join(path), value, "should be a non-negative integer")


def _without_metadata(schema: Schema) -> Schema:
    """Metadata has rules of its own; a schema for it can only narrow names, which this server does not do."""
    fields = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
    head = [each for each in schema.get("required", ()) if each not in ("apiVersion", "kind", "metadata")]
    more = {"required": head} if head else {}
    return {**{key: value for key, value in schema.items() if key != "required"}, "properties": fields, **more}


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def apply_merge(schema: Schema, old: Any, applied: Any) -> Any:
    """`applied` merged into `old`: objects by field, lists of type map by their keys, sets by their values."""
    if isinstance(applied, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        result = dict(old) if isinstance(old, dict) else {}
        for key, value in applied.items():
            inner = fields.get(key, others if isinstance(others, dict) else {})
            result[key] = apply_merge(inner, result.get(key), value)
        return result
    if isinstance(applied, list) and isinstance(old, list) and schema.get(LIST_TYPE) in ("map", "set"):
        return _merge_lists(schema, old, applied)
    return applied


def _merge_lists(schema: Schema, old: list[Any], applied: list[Any]) -> list[Any]:
    keys, inner = schema.get(LIST_KEYS, ()), schema.get("items", {})

    def identity(item: Any) -> bytes:
        if schema[LIST_TYPE] == "map" and isinstance(item, dict):
            return encode([item.get(key) for key in keys])
        return encode(item)

    merged = {identity(item): item for item in old}
    for item in applied:
        merged[identity(item)] = apply_merge(inner, merged.get(identity(item)), item)
    return list(merged.values())
