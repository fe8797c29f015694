"""CustomResourceDefinition: what is filled in, what must hold, and what may not change any more.

Rules and texts follow k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from extender.embedded.apiserver.custom.columns import TYPES
from extender.embedded.apiserver.custom.paths import JsonPath, names_of
from extender.embedded.apiserver.custom.structural import check_schema
from extender.embedded.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)
from extender.embedded.apiserver.objects import Object, items, section, text, wrong_type

_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL}')"
)
_STORED_TEXT = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
    "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)
_PATH_TEXT = "must be a simple json path starting with ."
_COLUMN_TYPES = ",".join(TYPES)


def set_definition_defaults(obj: Object) -> None:
    """Fill in `obj` in place. Raises 400 naming the field if something cannot be read."""
    spec = section(obj, "spec")
    names = section(spec, "names", "spec")
    kind = text(names, "kind", "spec.names")
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    section(spec, "conversion", "spec").setdefault("strategy", "None")
    for index, version in enumerate(items(spec, "versions", "spec")):
        where = f"spec.versions[{index}]"
        for name in ("served", "storage"):
            if not isinstance(version.setdefault(name, False), bool):
                raise wrong_type(f"{where}.{name}", "a boolean", version[name])
        if "schema" in version:
            section(version, "schema", where)
        for part in section(version, "subresources", where) if "subresources" in version else ():
            section(version["subresources"], part, f"{where}.subresources")
    for name in ("shortNames", "categories"):
        if not all(isinstance(each, str) for each in names.get(name, [])):
            raise wrong_type(f"spec.names.{name}", "a list of strings", names[name])


def first_status(obj: Object) -> Object:
    """The status with which a definition is created: nothing is accepted yet."""
    stored = [each.get("name", "") for each in obj["spec"].get("versions", []) if each["storage"]]
    return {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored[:1]}


def definition_faults(obj: Object) -> Iterator[FieldError]:
    """Every fault of a definition with its defaults."""
    spec = obj["spec"]
    names, group = spec["names"], text(spec, "group", "spec")
    # An update has the uid of what is there, and cannot change the name.
    name = obj["metadata"].get("name", "")
    if "uid" not in obj["metadata"] and name != f"{text(names, 'plural', 'spec.names')}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    scope = text(spec, "scope", "spec")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield unsupported_value("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec["conversion"]["strategy"] != "None":
        yield forbidden_field("spec.conversion.strategy", "the embedded API server converts nothing: expected None")
    yield from _names(names)
    yield from _versions(spec.get("versions", []))


def definition_changes(new: Object, old: Object) -> Iterator[FieldError]:
    """Every change that a definition that is served does not allow."""
    for name in ("group", "scope"):
        if new["spec"].get(name) != old["spec"].get(name):
            yield invalid_value(f"spec.{name}", new["spec"].get(name), "field is immutable")
    for name in ("plural", "kind"):
        if new["spec"]["names"].get(name) != old["spec"]["names"].get(name):
            yield invalid_value(f"spec.names.{name}", new["spec"]["names"].get(name), "field is immutable")
    there = {each["name"] for each in new["spec"]["versions"]}
    for index, name in enumerate(old["status"]["storedVersions"]):
        if name not in there:
            yield invalid_value(f"status.storedVersions[{index}]", name, _STORED_TEXT.format(name))


def _names(names: Object) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        value = text(names, name, "spec.names")
        mixed = "may have mixed case, but should otherwise match: " if name in ("kind", "listKind") else ""
        if not value:
            yield required(f"spec.names.{name}")
        elif not _is_label(value.lower() if mixed else value):
            yield invalid_value(f"spec.names.{name}", value, mixed + _LABEL_TEXT)
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name, [])):
            if not _is_label(value):
                yield invalid_value(f"spec.names.{name}[{index}]", value, _LABEL_TEXT)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _is_label(value: str) -> bool:
    return len(value) <= 63 and bool(re.fullmatch(_LABEL, value, re.ASCII))


def _versions(versions: list[Object]) -> Iterator[FieldError]:
    names = [text(each, "name", f"spec.versions[{index}]") for index, each in enumerate(versions)]
    for index, name in enumerate(names):
        if not _is_label(name):
            yield invalid_value(f"spec.versions[{index}].name", name, _LABEL_TEXT)
    if len(set(names)) < len(names):
        yield invalid_value("spec.versions", names, "must contain unique version names")
    if sum(each["storage"] for each in versions) != 1:
        yield invalid_value("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        if "openAPIV3Schema" not in version.get("schema", {}):
            yield required(f"{where}.schema.openAPIV3Schema")
    yield from _of_all(versions, "schema", _schema, "spec.validation.openAPIV3Schema")
    yield from _of_all(versions, "subresources", _subresources, "spec.subresources")
    yield from _of_all(versions, "additionalPrinterColumns", _columns, "spec.additionalPrinterColumns")
    yield from _of_all(versions, "selectableFields", _selectable, "spec.selectableFields")


def _of_all(versions: list[Object], field: str, check: Any, path_if_same: str) -> Iterator[FieldError]:
    """The faults of a part of each version. What all versions say alike has one place, as in the real server."""
    parts = [each.get(field) for each in versions]
    if parts and all(each == parts[0] for each in parts):
        yield from check(parts[0], path_if_same) if parts[0] is not None else ()
        return
    for index, part in enumerate(parts):
        if part is not None:
            suffix = ".openAPIV3Schema" if field == "schema" else ""
            yield from check(part, f"spec.versions[{index}].{field}{suffix}")


def _schema(part: Object, path: str) -> Iterator[FieldError]:
    if "openAPIV3Schema" in part:
        yield from check_schema(part["openAPIV3Schema"], path)


def _subresources(part: Object, path: str) -> Iterator[FieldError]:
    scale = part.get("scale")
    if scale is None:
        return
    for name, root, needed in (
        ("specReplicasPath", "spec", True),
        ("statusReplicasPath", "status", True),
        ("labelSelectorPath", "status", False),
    ):
        value, where = text(scale, name, f"{path}.scale"), f"{path}.scale.{name}"
        if not value:
            if needed:
                yield required(where)
            continue
        try:
            found = names_of(value)
        except ValueError:
            yield invalid_value(where, value, _PATH_TEXT)
            continue
        if found[0] != root and not (name == "labelSelectorPath" and found[0] == "spec"):
            under = ".spec" if root == "spec" else ".status or .spec" if not needed else ".status"
            yield invalid_value(where, value, f"should be a json path under {under}")


def _columns(part: Any, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(items({"columns": part}, "columns")):
        where = f"{path}[{index}]"
        if not text(column, "name", where):
            yield required(f"{where}.name")
        kind = text(column, "type", where)
        if not kind:
            yield required(f"{where}.type", f"must be one of {_COLUMN_TYPES}")
        elif kind not in TYPES:
            yield invalid_value(f"{where}.type", kind, f"must be one of {_COLUMN_TYPES}")
        value = text(column, "jsonPath", where)
        if not value:
            yield required(f"{where}.JSONPath")
            continue
        try:
            JsonPath(value)
        except ValueError:
            yield invalid_value(f"{where}.JSONPath", value, _PATH_TEXT)


def _selectable(part: Any, path: str) -> Iterator[FieldError]:
    for index, field in enumerate(items({"fields": part}, "fields")):
        value, where = text(field, "jsonPath", f"{path}[{index}]"), f"{path}[{index}].jsonPath"
        try:
            names_of(value)
        except ValueError:
            yield invalid_value(where, value, "is an invalid path")
