"""The chunked coding, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.chunked import Chunked, ChunkError


def coded(*chunks: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"


def test_chunks_that_come_together_come_off_together() -> None:
    chunked = Chunked()
    assert chunked.feed(coded(b"one\n", b"two\n")) == b"one\ntwo\n"
    assert chunked.finished


def test_what_has_come_of_a_chunk_is_not_kept_back() -> None:
    chunked = Chunked()
    assert chunked.feed(b"a\r\n12345") == b"12345"
    assert chunked.feed(b"6789a") == b"6789a"
    assert not chunked.finished


@pytest.mark.parametrize("trailers", [b"", b"Expires: never\r\n"])
def test_extensions_trailers_and_large_letters_are_passed_over(trailers: bytes) -> None:
    chunked = Chunked()
    assert chunked.feed(b"A ;name=value\r\n0123456789\r\n0\r\n" + trailers + b"\r\n") == b"0123456789"
    assert chunked.finished


@settings(deadline=None, derandomize=True)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_it_does_not_matter_how_it_is_cut(chunks: list[bytes], cuts: list[int]) -> None:
    data, chunked, got = coded(*chunks, trailers=b"A: b\r\n"), Chunked(), b""
    for size in (*cuts, len(data)):
        assert not chunked.finished or not data
        got, data = got + chunked.feed(data[:size]), data[size:]
    assert (got, chunked.finished) == (b"".join(chunks), True)


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b"1_0\r\n",
        b"fffffffffffffffff\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"f" * 20_000,
    ],
)
def test_what_is_not_in_chunks_is_refused(data: bytes) -> None:
    with pytest.raises(ChunkError):
        Chunked().feed(data)
