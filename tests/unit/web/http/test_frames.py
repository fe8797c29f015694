"""Cutting HTTP/2 at the boundaries of frames: what is handed over at once, what is refused, and what is too much."""

from __future__ import annotations

from itertools import pairwise

import pytest
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from extender.web.http.frames import LARGEST, FrameError, FrameSplitter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, CONTINUATION = 0, 1, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, payload: bytes = b"", *, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + (1).to_bytes(4) + payload


def begun() -> FrameSplitter:
    splitter = FrameSplitter()
    splitter.add(PREFACE)
    assert splitter.next_batch() == PREFACE
    return splitter


def batches(splitter: FrameSplitter) -> list[bytes]:
    found = []
    while splitter.has_batch:
        found.append(splitter.next_batch())
    return found


@given(sizes=st.lists(st.integers(0, 40), max_size=200), cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_whatever_the_pieces_all_of_it_comes_out_in_whole_frames(sizes: list[int], cuts: list[int]) -> None:
    frames = [frame(DATA, bytes(size)) for size in sizes]
    sent = PREFACE + b"".join(frames)
    ends = sorted({0, len(sent), *(cut % len(sent) for cut in cuts)})
    splitter, found = FrameSplitter(), []
    for begin, end in pairwise(ends):
        splitter.add(sent[begin:end])
        found += batches(splitter)
    assert b"".join(found) == sent
    boundaries = {len(PREFACE) + sum(map(len, frames[:number])) for number in range(len(frames) + 1)}
    position = 0
    for batch in found:
        position += len(batch)
        assert position in boundaries or position < len(PREFACE)
    assert not splitter.in_frame


def test_a_batch_is_bounded_however_much_has_come() -> None:
    splitter = begun()
    splitter.add(frame(PING, bytes(8)) * 10_000)
    assert len(splitter.next_batch()) == 64 * 17
    splitter = begun()
    splitter.add(frame(HEADERS, b"x", flags=END_HEADERS) * 10_000)
    assert len(splitter.next_batch()) == 8 * 10


def test_a_length_beyond_the_limit_is_refused_at_its_header() -> None:
    splitter = begun()
    splitter.add(frame(DATA, b"before") + b"\xff\xff\xff\0\0\0\0\0\1")
    assert splitter.next_batch() == frame(DATA, b"before")
    with pytest.raises(FrameError) as refused:
        splitter.next_batch()
    assert refused.value.error_code == ErrorCodes.FRAME_SIZE_ERROR


def test_the_largest_frame_is_taken() -> None:
    splitter = begun()
    largest = frame(DATA, bytes(LARGEST))
    splitter.add(largest[:-1])
    assert not splitter.has_batch
    splitter.add(largest[-1:])
    assert splitter.next_batch() == largest


def test_a_header_block_that_does_not_end_is_refused() -> None:
    splitter = begun()
    splitter.add(frame(HEADERS, b"x") + frame(CONTINUATION, b"y" * 1000) * 100)
    with pytest.raises(FrameError, match="header block"):
        batches(splitter)


def test_a_header_block_is_a_head_until_it_ends() -> None:
    splitter = begun()
    splitter.add(frame(HEADERS, b"x"))
    splitter.next_batch()
    assert splitter.in_head
    splitter.add(frame(CONTINUATION, b"y", flags=END_HEADERS))
    splitter.next_batch()
    assert not splitter.in_head


@pytest.mark.parametrize("what", [frame(PING, bytes(8)), frame(DATA), frame(SETTINGS), frame(0x77), frame(DATA, b"x")])
def test_frames_for_nothing_are_too_many_at_some_time(what: bytes) -> None:
    splitter = begun()
    splitter.add(what * 900)
    batches(splitter)
    assert splitter.is_calm(0)
    splitter.add(what * 900)
    batches(splitter)
    assert not splitter.is_calm(0)
    assert splitter.is_calm(3600)


def test_who_asks_and_takes_answers_may_send_the_frames_that_this_needs() -> None:
    splitter = begun()
    request = frame(HEADERS, b"x", flags=END_HEADERS) + frame(DATA, bytes(5_000))
    splitter.add((request + frame(PING, bytes(8)) * 5) * 5_000)
    batches(splitter)
    assert splitter.is_calm(0)
    for _ in range(100):  # Go: two WINDOW_UPDATE for each 4 KiB of an answer
        splitter.answered(1 << 20)
        splitter.add(frame(8, bytes(4)) * 512)
        batches(splitter)
    assert splitter.is_calm(0)


@pytest.mark.parametrize(
    ("sent", "begins"),
    [
        (b"", False),
        (frame(HEADERS, b"x", flags=END_HEADERS), True),
        (frame(HEADERS, b"x", flags=END_HEADERS | END_STREAM), False),
        (frame(DATA, b"x"), False),
    ],
)
def test_a_request_with_a_body_is_seen_before_it_is_handled(sent: bytes, begins: bool) -> None:
    splitter = begun()
    splitter.add(sent)
    assert splitter.begins_post is begins
