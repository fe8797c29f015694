"""Paths to one field: strict in what an operator writes, lenient in what an object has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.field_paths import MISSING, MOST_CHARACTERS, MOST_STEPS, FieldPath, parse

OBJECT: dict[str, Any] = {
    "spec": {"replicas": 3, "parts": [{"size": 1}, {"size": None}]},
    "metadata": {"annotations": {"example.com/size": "7"}},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".spec.replicas", 3),
        (".spec.parts[0].size", 1),
        (".spec.parts[1].size", None),
        (".metadata.annotations['example.com/size']", "7"),
        ("['spec']['replicas']", 3),
        (".spec.parts[2]", MISSING),
        (".spec.parts.size", MISSING),
        (".spec[0]", MISSING),
        (".spec.replicas.more", MISSING),
        (".status", MISSING),
    ],
)
def test_a_path_finds_one_value_or_none(text: str, value: Any) -> None:
    assert parse(text).find(OBJECT) is value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a path, such as .spec.replicas"),
        ("spec.replicas", "at character 1, got 'spec.replicas'"),
        (".spec..replicas", "at character 6"),
        (".spec.", "at character 6"),
        (".spec[*]", "at character 6, got '[*]'"),
        (".spec[-1]", "at character 6"),
        (".spec[01]", "at character 6"),
        (".spec[10000]", "at character 6"),
        (".spec[?(@.a=='b')]", "at character 6"),
        (".spec['']", "at character 6"),
        (".spec['a\nb']", "at character 6"),
        ('.spec["a"]', "at character 6"),
        ("$.spec", "at character 1"),
        (".sp€c", "at character 4"),
        (".a" * (MOST_STEPS + 1), f"expected at most {MOST_STEPS} steps"),
        ("." + "a" * MOST_CHARACTERS, f"expected at most {MOST_CHARACTERS} characters"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        parse(text)
    assert said in str(refused.value)


NAMES = st.text(
    st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters="'[]"), min_size=1, max_size=8
)
STEPS = st.lists(NAMES | st.integers(0, 9999), min_size=1, max_size=MOST_STEPS).map(tuple)


@given(STEPS)
def test_a_path_is_written_as_it_is_read(steps: tuple[str | int, ...]) -> None:
    path = FieldPath(steps)
    assert parse(str(path)) == path


@given(st.lists(NAMES, min_size=1, max_size=4).map(tuple), st.integers())
def test_what_a_patch_sets_the_path_finds(steps: tuple[str, ...], value: int) -> None:
    path = FieldPath(steps)
    assert path.find(path.patch(value)) == value


def test_an_item_of_a_list_cannot_be_patched() -> None:
    with pytest.raises(ValueError, match=r"\.status\.parts\[0\]: expected names only"):
        parse(".status.parts[0]").patch(1)
