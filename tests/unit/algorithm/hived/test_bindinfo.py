"""What is written on a pod is what is read from it, whether it is still remembered or has to be parsed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.hived import bindinfo
from algorithm.hived.groups import Allocation, Place

TEXTS = st.sampled_from(["node-1", "n.a/b", "yes", "1e3", "0x1f", "null", "a: b", "'", "~", "ü", "-", "#x"])


def _places(number: int) -> st.SearchStrategy[Place]:
    indices = st.lists(st.integers(0, 20), min_size=number, max_size=number, unique=True).map(tuple)
    types = st.tuples(*[TEXTS | st.just("")] * number)
    return st.builds(Place, TEXTS, indices, types)


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    sizes = sorted(draw(st.sets(st.integers(1, 4), min_size=1, max_size=3)))
    places = tuple((size, tuple(draw(st.lists(_places(size), min_size=1, max_size=3)))) for size in sizes)
    own = draw(st.sampled_from([place for _, pods in places for place in pods]))
    return Allocation(own.node, own.indices, draw(TEXTS), places)


@settings(max_examples=60, derandomize=True)
@given(allocations())
def test_what_was_written_is_read_back(allocation: Allocation):
    text = dict(bindinfo.write(allocation))[bindinfo.BIND_INFO]

    assert bindinfo.read(text) == allocation
    assert bindinfo.read(text + "# by somebody else\n") == allocation


def test_only_so_much_is_remembered_and_the_rest_is_read_all_the_same():
    written = []
    for number in range(400):
        places = ((1, (Place(f"n{number}", (0,), ("t",)),)),)
        allocation = Allocation(f"n{number}", (0,), "chain", places)
        written.append((dict(bindinfo.write(allocation))[bindinfo.BIND_INFO], allocation))

    assert [bindinfo.read(text) for text, _ in written] == [allocation for _, allocation in written]
