"""Decoding of a few fields: the same values as in the whole object, whatever the object is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.core.field_paths import MISSING, FieldPath, parse
from extender.vpods.fields import FieldDecoder


def decoded(body: bytes, *paths: str) -> list[Any]:
    found = FieldDecoder(map(parse, paths)).decode(body)
    return [MISSING if raw is None else json.loads(bytes(raw)) for raw in found]


def test_values_and_parts_of_them() -> None:
    body = json.dumps({"spec": {"replicas": 3, "parts": [{"size": 1}]}, "status": {"placements": []}}).encode()
    paths = (".spec.replicas", ".status.placements", ".spec.parts[0].size", ".spec.parts", ".spec", ".status.nothing")
    assert decoded(body, *paths) == [3, [], 1, [{"size": 1}], json.loads(body)["spec"], MISSING]


def test_null_is_a_value() -> None:
    assert decoded(b'{"a":{"b":null}}', ".a.b", ".a.c", ".a.b.c") == [None, MISSING, MISSING]
    assert decoded(b'{"a":null}', ".a.b") == [MISSING]


@pytest.mark.parametrize("body", [b'{"a":"text"}', b'{"a":[]}', b'{"a":1}', b"[]", b"1", b'{"b":{"c":1}}'])
def test_a_path_through_something_else_finds_nothing(body: bytes) -> None:
    assert decoded(body, ".a.b", "[0]") == [MISSING, MISSING]


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":{"b":}}', b'{"a":{"b":1}}x', b"\xff"])
def test_what_is_no_json_is_an_error(body: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        FieldDecoder([parse(".a.b")]).decode(body)


KEYS = st.sampled_from(["a", "b", "c", "é", "a.b"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 2**40) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
PATHS = st.lists(KEYS | st.integers(0, 2), min_size=1, max_size=4).map(lambda steps: FieldPath(tuple(steps)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(PATHS, min_size=1, max_size=5))
def test_the_same_values_as_in_the_whole_object(whole: dict[str, Any], paths: list[FieldPath]) -> None:
    found = FieldDecoder(paths).decode(json.dumps(whole).encode())
    assert [MISSING if raw is None else json.loads(bytes(raw)) for raw in found] == [path.find(whole) for path in paths]
