"""Texts come back from the ring as they were put, in order, whatever is put and freed in between; it is bounded."""

from __future__ import annotations

from collections import deque

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.recording import texts as module
from extender.recording.texts import LONGEST, TextRing, offer_of

SIZE = 40


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.binary(min_size=1, max_size=SIZE + 2) | st.integers(1, 3), max_size=60))
def test_texts_are_read_as_they_were_put(steps: list[bytes | int]) -> None:
    ring = TextRing(SIZE)
    kept: deque[tuple[int, bytes]] = deque()
    last = b""
    for step in steps:
        if isinstance(step, int):
            for _ in range(min(step, len(kept))):
                place, text = kept.popleft()
                ring.free(place, len(text))
        elif (place := ring.put(step)) >= 0:
            assert step != last
            kept.append((place, step))
            last = step
        else:
            assert len(step) > SIZE or kept or step == last, "an empty ring takes what is not too long"
        for place, text in kept:
            assert ring.read(place, len(text)) == text
        assert sum(len(text) for _, text in kept) <= SIZE


def test_a_ring_that_was_emptied_takes_any_text_of_its_size() -> None:
    ring = TextRing(10)
    for number, length in enumerate((7, 10, 1, 10, 9, 2, 10)):
        place = ring.put(b"%d" % number * length)
        assert place >= 0
        assert ring.put(b"y" * 10) == -1
        ring.free(place, length)


def test_the_text_that_was_put_last_is_not_put_again() -> None:
    ring = TextRing()
    first = ring.put(b"one")
    assert (first, ring.put(b"one")) == (0, -1)
    assert ring.put(b"on") == 3
    assert ring.put(b"one") == 5


def test_a_long_text_is_not_copied() -> None:
    ring = TextRing()
    assert ring.put(b"x" * (LONGEST + 1)) == -1
    assert ring.put(b"x" * LONGEST) == 0
    assert module.SIZE > 8 * LONGEST


def test_an_offer_of_a_text_has_its_names_and_its_bytes() -> None:
    names = [f"node-{number}" for number in range(500)]
    text = msgspec.json.encode(names)
    offer = offer_of(text)
    assert (len(offer), list(offer), offer.text) == (500, names, text)
    assert "node-7" in offer
    assert "node-500" not in offer
