"""Lists of names come back exactly, and those that were written before cost next to nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import SuggestedNodes
from extender.recording import names as module
from extender.recording.names import NamesReader, NamesWriter
from extender.web.verbs.plain_names import plain_names

NAMES = [f"node-{number:04}" for number in range(5000)]


def size(written: object) -> int:
    return len(msgspec.json.encode(written))


@settings(max_examples=100, deadline=None)
@given(
    lists=st.lists(st.lists(st.sampled_from(NAMES[:12]) | st.text(max_size=3), max_size=15), max_size=40),
    most=st.sampled_from([5, 200_000]),
)
def test_any_lists_come_back_in_their_order(lists: list[list[str]], most: int) -> None:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(module, "MOST_NAMES", most)
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
    body = msgspec.json.encode({"Pod": {}, "NodeNames": NAMES})
    one, other = plain_names(body), plain_names(bytes(bytearray(body)))
    assert one is not None
    assert other is not None
    writer = NamesWriter()
    writer.encode(one.names)
    assert writer.encode(other.names) == {"same": 1}
    assert other.names._listed is None


def test_a_rotated_list_and_a_sample_are_a_few_runs() -> None:
    writer = NamesWriter()
    writer.encode(SuggestedNodes(NAMES))
    assert writer.encode(SuggestedNodes(NAMES[700:] + NAMES[:700])) == {"runs": [700, 4300, 0, 700]}
    assert writer.encode(SuggestedNodes(NAMES[100:600])) == {"runs": [100, 500]}
    one_less = writer.encode(SuggestedNodes(NAMES[:9] + NAMES[10:]))
    assert one_less == {"runs": [0, 9, 10, 4990]}
    assert size(writer.encode(SuggestedNodes([*NAMES, "new"]))) < 50


def test_a_list_in_no_order_takes_a_few_bytes_a_name() -> None:
    writer = NamesWriter()
    writer.encode(SuggestedNodes(NAMES))
    mixed = [NAMES[number * 7 % 5000] for number in range(5000)]
    assert size(writer.encode(SuggestedNodes(mixed))) < 5000 * 3


def test_a_reader_of_format_1_gets_plain_lists() -> None:
    assert list(NamesReader().decode(["b", "a"])) == ["b", "a"]
