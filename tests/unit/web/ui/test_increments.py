"""What a caller has after taking every increment is what there is, whatever was missed in between."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from extender.web.ui.increments import Increments

PIECES = st.lists(st.sampled_from([b"1", b"2", b"[3]", b'{"a":4}']), max_size=6)


class Source:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.now = 0.0
        self.reads = 0
        self.takes = 0.0

    def read(self) -> list[bytes]:
        self.reads += 1
        self.now += self.takes
        return list(self.pieces)

    def increments(self) -> Increments:
        return Increments(self.read, interval=1.0, clock=lambda: self.now)


class Caller:
    def __init__(self) -> None:
        self.version = ""
        self.pieces: dict[int, object] = {}

    def ask(self, increments: Increments) -> dict[str, object]:
        answer = json.loads(increments.since(self.version))
        self.version = answer["version"]
        self.pieces |= {int(number): piece for number, piece in answer["pieces"].items()}
        self.pieces = {number: piece for number, piece in self.pieces.items() if number < answer["size"]}
        return answer["pieces"]


@given(st.lists(st.tuples(PIECES, st.sets(st.integers(0, 2))), max_size=12))
def test_every_caller_has_all_pieces_after_asking(steps: list[tuple[list[bytes], set[int]]]):
    source, callers = Source(), [Caller() for _ in range(3)]
    increments = source.increments()
    for pieces, asking in steps:
        source.pieces, source.now = pieces, source.now + 2
        for index in sorted(asking):
            callers[index].ask(increments)
            there = [callers[index].pieces[number] for number in range(len(callers[index].pieces))]
            assert there == [json.loads(piece) for piece in pieces]


def test_only_what_changed_is_sent():
    source, caller = Source(), Caller()
    increments = source.increments()
    source.pieces = [b"1", b"2", b"3"]
    assert caller.ask(increments) == {"0": 1, "1": 2, "2": 3}

    source.pieces, source.now = [b"1", b"5", b"3"], 2
    assert caller.ask(increments) == {"1": 5}
    source.now = 4
    assert caller.ask(increments) == {}


def test_many_callers_cost_one_reading():
    source = Source()
    increments = source.increments()
    for _ in range(5):
        increments.since("")
    assert source.reads == 1
    source.now = 1.5
    increments.since("")
    assert source.reads == 2


def test_reading_that_takes_long_is_done_seldom():
    source = Source()
    source.takes = 0.5
    increments = source.increments()
    increments.since("")
    source.now = 10.0
    increments.since("")
    assert source.reads == 1
    source.now = 10.6
    increments.since("")
    assert source.reads == 2


def test_a_version_of_another_process_brings_everything():
    source = Source()
    source.pieces = [b"1"]
    known = json.loads(source.increments().since(""))["version"]

    again = json.loads(source.increments().since(known))

    assert again["pieces"] == {"0": 1}
    assert again["version"] != known


def test_a_version_that_is_none_brings_everything():
    source = Source()
    source.pieces = [b"1"]
    increments = source.increments()
    run = json.loads(increments.since(""))["version"].partition(".")[0]
    for version in ("nonsense", ".", run, f"{run}.x", f"{run}.-1", f"{run}.²"):
        assert json.loads(increments.since(version))["pieces"] == {"0": 1}
