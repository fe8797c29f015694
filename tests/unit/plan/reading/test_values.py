"""YAML and JSON texts as values: what kubectl reads, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.plan.reading import values
from extender.plan.reading.values import ValueFault, read_values


def _only(text: str) -> Any:
    (document,) = read_values(text)
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("off", False),
        ("~", None),
        ("''", ""),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("1_000", 1000),
        ("0x1F", 31),
        ("010", 8),
        ("0o17", 15),
        ("09", "09"),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("2026-11-23", "2026-11-23"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("99999999999999999999", 1e20),
        ("|\n a\n b\n", "a\nb\n"),
    ],
)
def test_scalars_are_read_as_kubectl_reads_them(text: str, value: object) -> None:
    assert _only(f"a: {text}") == {"a": value}


_texts = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), max_size=8)
_leaves = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | _texts
_trees = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4))


@settings(max_examples=25)
@given(st.dictionaries(_texts, _trees, max_size=4), st.booleans())
def test_what_yaml_writes_is_read_back(value: dict[str, Any], flow: bool) -> None:
    # Texts in quotes: PyYAML leaves 0E0 plain, which kubectl reads as a number.
    assert _only(yaml.safe_dump(value, default_flow_style=flow, default_style='"')) == value


def test_documents_have_numbers_and_lines() -> None:
    found = list(read_values("# a comment\na: 1\n---\n---\nb: 2\n"))
    assert [(each.number, each.line, each.value) for each in found] == [
        (1, 2, {"a": 1}),
        (2, 4, None),
        (3, 5, {"b": 2}),
    ]


def test_aliases_and_merge_keys_are_followed() -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {x: 9, z: 3}\none: {<<: *b, y: 5}\ntwo: {<<: [*b, *o]}\nlist: [*b]\n"
    found = _only(text)
    assert found["one"] == {"x": 1, "y": 5}
    assert found["two"] == {"x": 1, "y": 2, "z": 3}
    assert found["list"] == [{"x": 1, "y": 2}]


def _bomb(levels: int = 9) -> str:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_bomb(), "line 6: more than 1000000 values in one document, aliases followed"),
        ("[" * 1_000_000, "line 1: nested more than 100 levels deep"),
        ('{"a":' * 1_000_000, "line 1: nested more than 100 levels deep"),
        ("- " * 100_000, "line 1: nested more than 100 levels deep"),
        ("a: &a {b: *a}", "line 1: *a is inside of itself"),
        ("a: &a\n  <<: *a", "line 2: *a is inside of itself"),
        ("a: *b", "line 1: there is no anchor &b above"),
        ("a: 1\nb: 2\na: 3", "line 3: a: appears twice"),
        ("? [a]\n: b", "line 1: the name of a field must be a text"),
        ("a: .inf", "line 1: .inf is not a finite number"),
        ("a: 1e999", "line 1: 1e999 is not a finite number"),
        ("a: !!binary aGk=", "line 1: the tag tag:yaml.org,2002:binary has no meaning in a manifest"),
        ("a: !!python/object:os.system x", "line 1: the tag tag:yaml.org,2002:python/object:os.system has no meaning"),
        ("a: <<: b", "line 1, column 6: mapping values are not allowed in this context"),
        ("<<: 1", "line 1: <<: expected a mapping, or a list of mappings"),
        ("a: 'b", "line 1, column 6: found unexpected end of stream"),
        ("a: \x00", "character 4 (#x0000) may not stand in YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ValueFault) as caught:
        list(read_values(text))
    assert str(caught.value).startswith(why)


def test_merge_keys_copy_a_bounded_number_of_values() -> None:
    base = "a: &a {" + ",".join(f"k{n}: 1" for n in range(1000)) + "}\n"
    with pytest.raises(ValueFault, match="merge keys"):
        list(read_values(base + "b: {<<: [" + ",".join(["*a"] * 500) + "]}"))


def test_documents_before_a_fault_are_read() -> None:
    found = read_values("a: 1\n---\nb: ]\n")
    assert next(found).value == {"a": 1}
    with pytest.raises(ValueFault, match="line 3"):
        next(found)


def test_json_is_read_as_json() -> None:
    assert _only('\ufeff{"a": [1, "\\u00e9\\n"], "b": {"c": null}}') == {"a": [1, "é\n"], "b": {"c": None}}


def test_the_pure_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {b: [1, 2]}\nc: *x\n---\nd: 'e'\n"
    fast = list(read_values(text))
    monkeypatch.setattr(values, "_Loader", yaml.SafeLoader)
    assert list(read_values(text)) == fast


def test_all_documents_of_a_text_together_have_a_bound() -> None:
    """Each of them expands to 111,111 values; 36 of them are too many."""
    text = "\n---\n".join([_bomb(5)] * 40)
    with pytest.raises(ValueFault, match="more than 4000000 values, aliases followed"):
        list(read_values(text))
    assert len(list(read_values("\n---\n".join([_bomb(5)] * 30)))) == 30
