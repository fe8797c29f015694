"""One answer, however it is cut into pieces, and whatever the server sends in its place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.client import bounds
from extender.kube.client.answer import Answer, AnswerError
from extender.kube.client.bounds import Bound

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: <x>; rel=preload\r\nContent-Length: 7\r\n\r\n"
MOST = 1000


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"


def read(*pieces: bytes, ended: bool = False) -> Answer:
    answer = Answer()
    for piece in pieces:
        answer.collect(piece, MOST)
    if ended:
        answer.end()
    return answer


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(1, 30), max_size=60))
def test_it_does_not_matter_how_it_is_cut(chunks: list[bytes], cuts: list[int]) -> None:
    data, answer = EARLY + CHUNKED + chunked(*chunks, trailers=b"Retry-After: 9\r\n"), Answer()
    for size in (*cuts, len(data)):
        if data:
            answer.collect(data[:size], MOST)
        data = data[size:]
    assert (answer.status, bytes(answer.body), answer.complete, answer.reusable) == (200, b"".join(chunks), True, True)
    assert answer.headers == {"transfer-encoding": "chunked"}


def test_what_has_come_of_a_chunk_is_not_kept_back() -> None:
    answer = Answer()
    assert answer.feed(CHUNKED + b"a;name=value\r\n12345") == b"12345"
    assert answer.feed(b"6789a") == b"6789a"
    assert not answer.complete


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", EARLY, EARLY * 3])
def test_an_interim_answer_is_not_the_answer(interim: bytes) -> None:
    answer = read(interim)
    assert (answer.status, answer.complete) == (0, False)
    answer.collect(OK, MOST)
    assert (answer.status, bytes(answer.body), answer.complete) == (201, b"{}", True)
    assert "link" not in answer.headers


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + OK,
        b"HTTP/1.1 099 What\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"0x5\r\n",
        CHUNKED + b"fffffffffffffffff\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    ],
)
def test_what_is_not_one_answer_is_refused(data: bytes) -> None:
    with pytest.raises(AnswerError) as caught:
        read(data)
    assert caught.value.bound is Bound.FRAMING


ENDLESS: dict[str, tuple[Bound, bytes, bytes]] = {
    "interim answers": (Bound.HEAD, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "early hints": (Bound.HEAD, b"", EARLY * 100),
    "header lines": (Bound.HEAD, b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 100),
    "one header": (Bound.HEAD, b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1000),
    "reason": (Bound.HEAD, b"HTTP/1.1 200 ", b"b" * 1000),
    "lines before the answer": (Bound.HEAD, b"", b"\r\n" * 500),
    "extension of a chunk": (Bound.FRAMING, CHUNKED + b"5;a=", b"b" * 1000),
    "trailers": (Bound.FRAMING, CHUNKED + b"0\r\n", b"A: b\r\n" * 100),
    "one trailer": (Bound.FRAMING, CHUNKED + b"0\r\nA: ", b"b" * 1000),
    "chunks that are mostly framing": (Bound.FRAMING, CHUNKED, b"1;%s\r\nx\r\n" % (b"a" * 1000)),
}


def bytes_until_refused(pieces: Iterator[bytes], bound: Bound) -> int:
    answer, taken = Answer(), 0
    for piece in pieces:
        taken += len(piece)
        try:
            answer.feed(piece)
        except AnswerError as error:
            assert error.bound is bound
            return taken
    raise AssertionError("it ended")


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_refused_after_bounded_bytes(name: str) -> None:
    bound, first, more = ENDLESS[name]
    assert bytes_until_refused(iter([first]) if not more else _then(first, more), bound) < 200 * bounds.KIB


def _then(first: bytes, more: bytes) -> Iterator[bytes]:
    yield from filter(None, [first])
    yield from repeat(more)


def test_a_stream_may_be_endless_if_there_is_a_body_in_it() -> None:
    answer = Answer()
    answer.feed(CHUNKED)
    line = chunked(b"x" * 100)[:-5]
    assert sum(len(answer.feed(line * 100)) for _ in range(100)) == 1_000_000
    assert len(answer.body) == 0


def test_a_body_that_is_promised_to_be_too_large_is_not_waited_for() -> None:
    with pytest.raises(AnswerError, match="more than 1000 bytes") as caught:
        read(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n")
    assert caught.value.bound is Bound.SIZE


@pytest.mark.parametrize("head", [CHUNKED, b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_body_is_kept_up_to_its_bound(head: bytes) -> None:
    answer = read(head)
    piece = b"64\r\n%s\r\n" % (b"x" * 100) if head is CHUNKED else b"x" * 100
    for _ in range(MOST // 100):
        answer.collect(piece, MOST)
    with pytest.raises(AnswerError) as caught:
        answer.collect(piece, MOST)
    assert caught.value.bound is Bound.SIZE
    assert len(answer.body) == MOST + 100


def test_a_body_in_crumbs_is_kept_as_one() -> None:
    """Two million pieces of two bytes would be 100 MB."""
    answer = read(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", *[b"ab"] * 450)
    assert answer.complete
    assert answer.body == bytearray(b"ab" * 450)


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (OK, True),
        (OK + OK, False),
        (OK + b"x", False),
        (OK.replace(b"Created", b"Created\r\nConnection: close"), False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100000\r\n\r\n", True),
    ],
)
def test_a_connection_is_used_again_after_an_answer_that_came_alone(data: bytes, reusable: bool) -> None:
    answer = read(data)
    assert (answer.complete, answer.reusable) == (True, reusable)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    answer = read(b"HTTP/1.1 200 OK\r\n\r\n{}", ended=True)
    assert (bytes(answer.body), answer.complete, answer.reusable) == (b"{}", True, False)


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", EARLY, OK[:-1], CHUNKED + b"5\r\nabc", CHUNKED + b"0\r\nA: b\r\n"]
)
def test_an_answer_that_is_cut_is_none(data: bytes) -> None:
    with pytest.raises(AnswerError) as caught:
        read(*filter(None, [data]), ended=True)
    assert caught.value.bound is None


def test_what_was_read_is_gone_when_it_is_closed_and_waits_for_no_collector() -> None:
    """Parser and answer hold each other: ninety answers of 4 MiB were 220 MiB until somebody looked."""
    answer = read(CHUNKED + chunked(b"x" * 100))
    left = weakref.ref(answer)
    gc.disable()
    try:
        answer.close()
        del answer
        assert left() is None
    finally:
        gc.enable()
