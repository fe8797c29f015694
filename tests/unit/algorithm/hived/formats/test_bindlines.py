"""Places are read line by line as YAML would read them; what has another form is YAML's, and has to be short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.hived.formats import bindinfo, bindlines
from algorithm.hived.formats.allocation import Allocation, Place
from algorithm.hived.formats.plainyaml import Plain, load
from algorithm.hived.formats.podspec import UserError
from tests.support.effort import effort

NAMES = st.sampled_from(
    ["m1", "10.0.0.1", "true", "0x1F", "007", "a b", "2001-01-01", "null", "x/y_z", 'quo"te', "\u00fc"]
)
TYPES = st.sampled_from(["", "host", "rack", "1e3", "no"])


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True))
    places = []
    for size in sorted(sizes):
        pods = [
            Place(draw(NAMES), tuple(draw(st.permutations(range(size)))), tuple(draw(TYPES) for _ in range(size)))
            for _ in range(draw(st.integers(1, 3)))
        ]
        places.append((size, tuple(pods)))
    own = places[0][1][0]
    return Allocation(own.node, own.indices, draw(NAMES), tuple(places))


def written(allocation: Allocation) -> str:
    return dict(bindinfo.write(allocation))[bindinfo.BIND_INFO]


def group_of(text: str) -> str:
    return text[text.index("affinityGroupBindInfo:") :]


@given(allocations())
def test_lines_say_what_yaml_says(allocation: Allocation) -> None:
    text = group_of(written(allocation))
    lines = bindlines.read(text)
    if lines is not None:
        loaded = load(text)["affinityGroupBindInfo"]
        assert bindinfo._places(bindlines.as_loaded(lines, Plain)) == bindinfo._places(loaded)


@given(allocations())
def test_what_was_written_is_read_again(allocation: Allocation) -> None:
    assert bindinfo._read(written(allocation)) == allocation


def large(pods: int) -> Allocation:
    place = Place("machine-with-a-long-name-1", tuple(range(8)), ("rack",) * 8)
    others = tuple(Place(f"machine-{index}", tuple(range(8)), ("rack",) * 8) for index in range(pods))
    return Allocation(place.node, place.indices, "rack", ((8, (place, *others)),))


def test_a_large_group_is_read_line_by_line() -> None:
    assert bindlines.read(group_of(written(large(1000)))) is not None


def test_reading_costs_in_proportion_to_the_places() -> None:
    some, more = (written(large(number)) for number in (200, 400))
    assert effort(lambda: bindinfo._read(more)) < 2.2 * effort(lambda: bindinfo._read(some))


@pytest.mark.parametrize(
    "text",
    [
        "affinityGroupBindInfo: [" + "[]," * 80_000 + "]",
        "node: m1\nleafCellIsolation:\n" + "- 0\n" * 60_000 + "affinityGroupBindInfo:\n- podPlacements:\n",
        "node: m1\nx: " + "y" * 250_000,
        "x" * 300_000,
    ],
    ids=["one line", "head", "one value", "longer than any"],
)
def test_a_long_text_of_another_form_is_not_read(text: str) -> None:
    with pytest.raises(UserError, match=r"longer than|more than|expected a list"):
        bindinfo.read(text)
