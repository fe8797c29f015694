"""Lists of names come back exactly, and those that were written before cost next to nothing.

A list that is like none before is written as it came, since to number names stops the threads that decide.
"""

from __future__ import annotations

import random
import tracemalloc
import zlib
from base64 import b64encode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import SuggestedNodes
from extender.recording import names as module
from extender.recording.names import EVERY, NamesError, NamesReader, NamesWriter
from extender.web.verbs.plain_names import plain_names

NAMES = [f"node-{number:04}" for number in range(5000)]


def size(written: object) -> int:
    return len(msgspec.json.encode(written))


def unread(names: list[str]) -> SuggestedNodes:
    """The names as a request brings them."""
    plain = plain_names(msgspec.json.encode({"Pod": {}, "NodeNames": names}))
    assert plain is not None
    return plain.names


def plainly(nodes: SuggestedNodes) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(list(nodes)))


@settings(max_examples=100, deadline=None)
@given(
    lists=st.lists(
        st.lists(st.sampled_from(NAMES[:12]) | st.text(max_size=3), max_size=15)
        | st.integers(0, 40).map(lambda first: NAMES[first:40] + NAMES[:first]),
        max_size=40,
    ),
    most=st.sampled_from([5, 60, 200_000]),
    every=st.sampled_from([0, 2, EVERY]),
)
def test_any_lists_come_back_in_their_order(lists: list[list[str]], most: int, every: int) -> None:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(module, "MOST_NAMES", most)
        small.setattr(module, "EVERY", every)
        writer, reader = NamesWriter(), NamesReader()
        for names in lists:
            written = msgspec.json.decode(msgspec.json.encode(writer.encode(SuggestedNodes(names))))
            assert list(reader.decode(written)) == names


def test_the_same_list_is_a_number_whatever_object_it_is() -> None:
    writer, first = NamesWriter(), SuggestedNodes(NAMES)
    assert size(writer.encode(first)) > 50_000
    assert writer.encode(first) == {"same": 1}
    assert writer.encode(SuggestedNodes(NAMES)) == {"same": 1}


def test_names_that_nobody_has_read_are_not_read_for_the_log() -> None:
    writer = NamesWriter()
    writer.encode(unread(NAMES))
    for other in (NAMES, NAMES[700:] + NAMES[:700], NAMES[:9] + NAMES[10:]):
        nodes = unread(other)
        writer.encode(nodes)
        assert nodes._listed is None


def test_a_rotated_list_is_two_runs() -> None:
    writer, rotated = NamesWriter(), NAMES[700:] + NAMES[:700]
    writer.encode(unread(NAMES))
    assert writer.encode(unread(rotated)) == {"runs": [700, 4300, 0, 700]}
    assert writer.encode(unread(rotated)) == {"same": 2}
    assert writer.encode(SuggestedNodes(NAMES[701:] + NAMES[:701])) == {"runs": [701, 4299, 0, 701]}


def test_a_list_that_is_like_none_before_is_written_as_it_came() -> None:
    writer, other = NamesWriter(), unread(NAMES[:9] + NAMES[10:])
    writer.encode(unread(NAMES))
    assert writer.encode(other) == plainly(other)
    assert writer.encode(SuggestedNodes(["b", "a"])) == msgspec.Raw(b'["b","a"]')


def test_a_list_that_comes_again_gets_a_number() -> None:
    writer = NamesWriter()
    writer.encode(unread(NAMES))
    for _ in range(2):
        written = [writer.encode(unread(NAMES[:9] + NAMES[10:]))]
    assert written == [{"runs": [0, 9, 10, 4990]}]
    assert writer.encode(unread(NAMES[:9] + NAMES[10:])) == {"same": 2}


def test_one_of_many_other_lists_gets_numbers_as_the_names_may_be_others() -> None:
    """Then rotated lists are runs again, though a node is gone."""
    writer, names = NamesWriter(), NAMES[:300] + NAMES[301:]
    writer.encode(unread(NAMES))
    rotated = [unread(names[first:] + names[:first]) for first in range(EVERY + 2)]
    written = [writer.encode(nodes) for nodes in rotated]
    assert written[:EVERY] == [*map(plainly, rotated[:EVERY])]
    assert written[EVERY:] == [{"runs": [200, 100, 301, 4699, 0, 200]}, {"runs": [201, 99, 301, 4699, 0, 200, 200, 1]}]


def test_a_list_in_no_order_takes_a_few_bytes_a_name() -> None:
    """So much of a recording's bound is used for each; docs/performance.md says how much for others."""
    writer, order = NamesWriter(), random.Random(7)
    writer.encode(unread(NAMES))
    deflate = zlib.compressobj(3, zlib.DEFLATED, 31)
    written = b"".join(
        deflate.compress(msgspec.json.encode(writer.encode(unread(order.sample(NAMES, 500))))) for _ in range(20)
    )
    assert len(written + deflate.flush()) < 20 * 500 * 3.5


def test_a_reader_of_format_1_gets_plain_lists() -> None:
    assert list(NamesReader().decode(["b", "a"])) == ["b", "a"]


@pytest.mark.parametrize(
    "written",
    [
        ["n"] * 11,
        {"new": ["n"], "runs": [0, 1] * 11},
        {"new": ["n"], "at": b64encode(bytes(2 * 11)).decode()},
        {"new": ["n"], "at": b64encode(bytes(4 * 11)).decode(), "wide": True},
    ],
    ids=["plain", "runs", "at", "wide"],
)
def test_a_list_of_too_many_names_is_refused_in_every_form(written: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_LIST", 10)
    with pytest.raises(NamesError, match="nodes: "):
        NamesReader().decode(written)


def test_plain_lists_of_somebody_else_do_not_stay_in_memory() -> None:
    """Nothing refers to them, so the reader keeps none, however many there are."""
    reader = NamesReader()
    tracemalloc.start()
    try:
        for number in range(50):
            reader.decode([f"{number}-{each}" for each in range(1000)])
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
