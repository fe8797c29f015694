"""A VPodSet object and a set of the configuration have the same fields, with the same defaults, choices and bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from extender.conversions.vpod_sets import configured_sets, custom_set
from extender.resources import VPodSet, read
from extender.resources.definitions import schema_of
from extender.vpod_settings import VPodSetSettings, VPodSettings
from tests.support.fields import in_whole_numbers, leaves, put

Object = dict[str, Any]

#: Fields that an object has in its metadata.
IN_METADATA = {"namespace", "name"}
WHOLE = VPodSetSettings.model_json_schema()
CONFIGURED = dict(leaves(WHOLE, WHOLE.get("$defs", {})))
OBJECT = dict(leaves(schema_of(VPodSet)["properties"]["spec"], {}))
#: A value for each field that is not its default.
UNUSUAL: Object = {
    "stateful_set": "w",
    "policy": "head",
    "policy_settings": {"a": {"b": [1]}},
    "max_replicas": 99,
    "autoscale": False,
    "zones": False,
    "namespaces": ["a", "*"],
}


def test_both_have_the_same_fields() -> None:
    assert {to_camel(field) for field in CONFIGURED if field not in IN_METADATA} == set(OBJECT)


@pytest.mark.parametrize("field", sorted(set(CONFIGURED) - IN_METADATA))
def test_both_say_the_same_of_a_field(field: str) -> None:
    ours, theirs = CONFIGURED[field], OBJECT[to_camel(field)]
    assert in_whole_numbers(ours) == in_whole_numbers(theirs)
    assert in_whole_numbers(ours.get("items", {})) == in_whole_numbers(theirs.get("items", {}))


def test_both_become_the_same_set() -> None:
    """Every field has an unusual value of its own, so one that is lost, or mixed up with another, is seen."""
    given: Object = {"namespace": "n", "name": "p"}
    spec: Object = {}
    for number, field in enumerate(sorted(set(CONFIGURED) - IN_METADATA), 11):
        value = UNUSUAL.get(field, number)
        put(given, field, value)
        put(spec, to_camel(field), value)
    (made,) = configured_sets(VPodSettings.model_validate({"sets": [given]}))
    assert made == custom_set(read(VPodSet, {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
    plain = {"namespace": "n", "name": "p", "stateful_set": "s", "capacity": 1}
    (defaults,) = configured_sets(VPodSettings.model_validate({"sets": [plain]}))
    assert [name for name in made.__struct_fields__ if getattr(made, name) == getattr(defaults, name)] == ["key"]
