"""What waits to be written comes out as it was heard, and keeps no memory of the requests in which it came."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from extender.recording import texts, waiting
from extender.recording.waiting import Waiting
from extender.scheduling.events import Event, FilterRequested, PodGone, PodSeen
from extender.web.verbs.plain_names import plain_names

NAMES = [f"gpu-node-{number:05}" for number in range(5000)]
POD = Pod(namespace="default", name="p", uid="u")


def asked(names: Sequence[str]) -> FilterRequested:
    """The event of a request."""
    plain = plain_names(msgspec.json.encode({"Pod": {}, "NodeNames": list(names)}))
    assert plain is not None
    return FilterRequested(POD, plain.names)


def taken(queue: Waiting) -> list[str] | None:
    """The names of the first event, which is taken; None if it has none."""
    entry = queue.first()
    assert entry is not None
    assert queue.first() is entry
    event = entry.event
    queue.take()
    return list(event.nodes) if isinstance(event, FilterRequested) else None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), ring=st.sampled_from([2000, 20_000, texts.SIZE]))
def test_offers_come_out_as_they_were_heard(seed: int, ring: int) -> None:
    """Some again, some in another order, more than the ring has room for, and events without offers between them."""
    queue, draws = Waiting(), random.Random(seed)
    queue._texts = texts.TextRing(ring)
    heard: list[list[str] | None] = []
    offers = [draws.sample(NAMES, draws.choice([3, 30, 500, 600])) for _ in range(4)]
    with pytest.MonkeyPatch.context() as small:
        small.setattr(waiting, "_MANY_NAMES", 20)
        for number in range(40):
            match draws.random():
                case chance if chance < 0.2:
                    queue.heard(PodGone("default", "p", "u"), 1.0, number)
                    heard.append(None)
                case chance if chance < 0.8:
                    names = draws.choice(offers) if chance < 0.6 else draws.sample(NAMES, 500)
                    queue.heard(
                        asked(names) if chance < 0.7 else FilterRequested(POD, SuggestedNodes(names)), 1.0, number
                    )
                    heard.append(names)
                case _ if heard:
                    assert taken(queue) == heard.pop(0)
        while heard:
            assert taken(queue) == heard.pop(0)
        assert queue.first() is None


def test_an_offer_that_waits_keeps_nothing_of_its_request() -> None:
    queue, draws = Waiting(), random.Random(3)
    for number in range(100):
        event = asked(draws.sample(NAMES, 500))
        queue.heard(event, 1.0, number)
        waits = queue._queue[-1].event
        assert isinstance(waits, FilterRequested)
        assert waits.nodes.text == b""
    assert len(queue._queue) == 100


def test_an_offer_that_comes_again_is_kept_once() -> None:
    queue = Waiting()
    for number in range(4):
        queue.heard(asked(NAMES[:500]), 1.0, number)
    waiting_offers = [entry.event.nodes for entry in queue._queue if isinstance(entry.event, FilterRequested)]
    assert waiting_offers[1] is waiting_offers[2] is waiting_offers[3]
    assert [taken(queue) for _ in range(4)] == [NAMES[:500]] * 4


def test_events_that_are_left_out_take_no_room_in_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST_EVENTS", 10)
    queue, draws = Waiting(), random.Random(4)
    for number in range(1000):
        queue.heard(asked(draws.sample(NAMES, 500)), 1.0, number)
    assert queue.lost == 990
    assert queue._texts._head < 15 * 500 * len('"gpu-node-00000",')


@pytest.mark.parametrize("event", [PodSeen, lambda pod: FilterRequested(pod, SuggestedNodes(["n"]))])
def test_pods_with_long_annotations_fill_the_queue_by_their_bytes(event: Callable[[Pod], Event]) -> None:
    queue = Waiting()
    pod = Pod(namespace="default", name="p", uid="u", annotations=(("note", "x" * 250_000),))
    for number in range(1000):
        queue.heard(event(pod), 1.0, number)
    assert 500 < len(queue) < 550
    assert queue.is_losing
