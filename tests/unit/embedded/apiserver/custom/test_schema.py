"""What a schema drops, fills in and refuses, beyond what tests/golden holds against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from extender.embedded.apiserver.custom.schema import prune, set_defaults, validate
from extender.embedded.apiserver.custom.structural import check_schema

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def of_spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    return [each.message for each in validate(schema, value, "spec")]


def test_unknown_fields_go_at_any_depth_and_are_named() -> None:
    inner = {"type": "object", "properties": {"a": TEXT}}
    schema = of_spec({"type": "object", "properties": {"one": inner, "list": {"type": "array", "items": inner}}})
    obj = {"metadata": {"any": 1}, "spec": {"one": {"a": "x", "b": 1}, "list": [{"c": 1}], "two": {}}, "more": 1}
    assert prune(schema, obj) == ["more", "spec.list[0].c", "spec.one.b", "spec.two"]
    assert obj == {"metadata": {"any": 1}, "spec": {"one": {"a": "x"}, "list": [{}]}}


def test_what_is_declared_inside_a_free_object_is_pruned_again() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"strict": {"type": "object"}}}
    obj = {"spec": {"any": {"deep": 1}, "strict": {"a": 1}}}
    assert prune(of_spec(free), obj) == ["spec.strict.a"]
    assert obj == {"spec": {"any": {"deep": 1}, "strict": {}}}


def test_an_embedded_object_keeps_its_own_metadata() -> None:
    schema = of_spec({"type": "object", "x-kubernetes-embedded-resource": True})
    obj = {"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}}
    assert prune(schema, obj) == ["spec.spec"]


def test_a_default_is_a_copy_each_time() -> None:
    schema = of_spec({"type": "object", "properties": {"list": {"type": "array", "items": TEXT, "default": []}}})
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    set_defaults(schema, first)
    set_defaults(schema, second)
    first["spec"]["list"].append("x")
    assert second == {"spec": {"list": []}}
    assert schema["properties"]["spec"]["properties"]["list"]["default"] == []


def test_null_stays_only_where_it_is_allowed() -> None:
    maps = {"type": "object", "additionalProperties": TEXT}
    schema = of_spec({"type": "object", "properties": {"a": {**TEXT, "nullable": True}, "b": TEXT, "m": maps}})
    obj = {"spec": {"a": None, "b": None, "m": {"x": None, "y": "z"}}}
    set_defaults(schema, obj)
    assert obj == {"spec": {"a": None, "m": {"y": "z"}}}
    assert not list(validate(schema, obj))


@pytest.mark.parametrize(
    ("schema", "good", "bad", "text"),
    [
        ({"type": "number", "multipleOf": 3}, 9, 10, "multiple of 3"),
        ({**NUMBER, "maximum": 5, "exclusiveMaximum": True}, 4, 5, "less than 5"),
        ({**NUMBER, "format": "int64"}, 2**62, 2**63, "int64"),
        (NUMBER, 1, True, "boolean"),
        ({"type": "object", "minProperties": 1}, {"a": 1}, {}, "at least 1 properties"),
        ({**TEXT, "format": "date"}, "2026-11-23", "2026-13-23", "date"),
        ({**TEXT, "format": "date-time"}, "2026-11-23T01:02:03.5+01:00", "2026-11-23T01:02:03", "date-time"),
        ({**TEXT, "format": "uuid"}, "00000000-0000-0000-0000-000000000000", "x", "uuid"),
        ({**TEXT, "format": "whatever"}, "x", 1, "string"),
        ({**TEXT, "maxLength": 2}, "éé", "ééé", "Too long"),
        ({"x-kubernetes-int-or-string": True}, "5", None, "null"),
    ],
)
def test_rules(schema: dict[str, Any], good: Any, bad: Any, text: str) -> None:
    assert not faults(schema, good)
    (fault,) = faults(schema, bad)
    assert text in fault
    assert fault.startswith("spec: ")


@pytest.mark.parametrize("name", ["allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"])
def test_what_is_not_checked_here_is_refused_with_its_place(name: str) -> None:
    (fault,) = check_schema(of_spec({**TEXT, name: []}), "schema")
    assert fault.message == (
        f"schema.properties[spec].{name}: Forbidden: the embedded API server does not check it, and so refuses it"
    )


def test_a_schema_may_not_be_deeper_than_a_call_stack() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    (fault,) = check_schema(of_spec(schema), "schema")
    assert "64 levels" in fault.message


def test_a_schema_of_wrong_types_is_refused() -> None:
    (fault,) = check_schema(of_spec({"type": "string", "maxLength": "5"}), "schema")
    assert fault.message == 'schema.properties[spec].maxLength: Invalid value: "str": has the wrong type'
