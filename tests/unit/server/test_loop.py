"""A second engine needs nothing but the protocol: seats that are asked for, held for a while, written and confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from extender.server.loop import EngineLoop, Kinds
from tests.support.apiserver.api import eventually
from tests.support.engine.logs import Listening


@dataclass(frozen=True)
class Asked:
    who: str


@dataclass(frozen=True)
class Confirmed:
    who: str


@dataclass(frozen=True)
class Ended:
    term: int


@dataclass(frozen=True)
class Due:
    pass


@dataclass(frozen=True)
class Answer:
    seat: int | None


@dataclass(frozen=True)
class Write:
    who: str
    seat: int


SeatEvent = Asked | Confirmed | Ended | Due
SeatInstruction = Answer | Write
KINDS: Kinds[SeatEvent] = Kinds(answers=(Answer,), fenced=(Asked,), term_ended=Ended, tick=Due())
HOLD = 10.0


class Seats:
    """decide, hold, commit, confirm: in some 40 lines."""

    def __init__(self, seats: int) -> None:
        self.term: int | None = 1
        self.sequence = 0
        self.free = list(range(seats, 0, -1))
        self.held: dict[str, tuple[int, float]] = {}
        self.taken: dict[str, int] = {}

    def handle(self, event: SeatEvent, now: float) -> list[SeatInstruction]:
        self.sequence += 1
        match event:
            case Asked(who):
                if self.missing() or not self.free or who in self.held:
                    return [Answer(None)]
                seat = self.free.pop()
                self.held[who] = seat, now + HOLD
                return [Answer(seat), Write(who, seat)]
            case Confirmed(who):
                self.taken[who], _ = self.held.pop(who)
            case Ended():
                self.term = None
            case Due():
                for who in [who for who, (_, until) in self.held.items() if until <= now]:
                    self.free.append(self.held.pop(who)[0])
        return []

    def next_due(self) -> float | None:
        return min((until for _, until in self.held.values()), default=None)

    def missing(self) -> str:
        return "" if self.term else "another replica leads"

    def validate(self) -> None:
        held = [seat for seat, _ in self.held.values()]
        assert len({*self.free, *held, *self.taken.values()}) == len(self.free) + len(held) + len(self.taken)


class Bench:
    def __init__(self) -> None:
        self.now, self.left = 100.0, 5.0
        self.engine = Seats(2)
        self.written: list[SeatInstruction] = []
        self.record = Listening()
        self.recorded, self.numbers = self.record.events, self.record.numbers
        self.refused = 0
        self.loop: EngineLoop[SeatEvent, SeatInstruction] = EngineLoop(
            self.engine,
            self.written.append,
            KINDS,
            broke=self.count,
            clock=lambda: self.now,
            fence=lambda _term: self.left,
            record=self.record,
        )

    def count(self) -> None:
        self.refused += 1


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.stop()


def test_an_answer_is_returned_and_a_command_delivered(bench: Bench) -> None:
    assert bench.loop.ask(Asked("a")) == Answer(1)
    assert bench.written == [Write("a", 1)]
    bench.loop.handle(Confirmed("a"))
    assert bench.engine.taken == {"a": 1}
    bench.engine.validate()


def test_an_event_has_one_number_for_the_log_the_recording_and_the_engine(bench: Bench) -> None:
    with capture_logs() as logs:
        bench.loop.ask(Asked("a"))
        bench.loop.ask(Asked("b"))
    assert [(line["event"], line["number"], line["kind"]) for line in logs] == [
        ("decided", 1, "Asked"),
        ("decided", 2, "Asked"),
    ]
    assert bench.numbers == [1, 2]
    assert bench.engine.sequence == 2


def test_what_is_due_is_handled_by_the_timer(bench: Bench) -> None:
    bench.loop.ask(Asked("a"))
    bench.now += HOLD
    bench.loop.start()
    eventually(lambda: len(bench.engine.free) == 2)
    assert bench.recorded[-1] == (Due(), 110.0)


def test_nothing_is_decided_after_the_end_of_the_term(bench: Bench) -> None:
    bench.left = 0.0
    assert bench.loop.ask(Asked("a")) == Answer(None)
    assert [event for event, _ in bench.recorded] == [Ended(1), Asked("a")]
    assert bench.written == []


def test_a_replay_of_the_recording_gives_the_same_engine(bench: Bench) -> None:
    bench.loop.handle(Asked("a"), Asked("b"), Confirmed("b"), Asked("c"))
    again = Seats(2)
    for event, at in bench.recorded:
        again.handle(event, at)
    assert (again.free, again.held, again.taken) == (bench.engine.free, bench.engine.held, bench.engine.taken)


def test_a_bug_breaks_the_loop_for_good_and_its_owner_is_told(bench: Bench) -> None:
    bench.loop.start()
    bench.loop.handle(Confirmed("nobody"))
    assert bench.loop.broken == "internal error, restart needed: KeyError: 'nobody'"
    assert bench.loop.ask(Asked("a")) is None
    eventually(lambda: bench.refused)
    assert bench.engine.held == {}


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, BaseException])
def test_what_is_no_exception_breaks_the_loop_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """A thread ends silently at SystemExit, and a panic in Rust is a BaseException."""

    def leaves(*_: object) -> list[SeatInstruction]:
        raise kind("left")

    monkeypatch.setattr(bench.engine, "handle", leaves)
    with capture_logs() as logs:
        assert bench.loop.ask(Asked("a")) is None
    assert bench.loop.broken == f"internal error, restart needed: {kind.__name__}: left"
    assert [line["event"] for line in logs] == ["engine failed"]


def test_an_exception_with_a_huge_text_or_none_breaks_the_loop_in_few_words(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoTextError(Exception):
        def __str__(self) -> str:
            raise SystemExit

    def leaves(*_: object) -> list[SeatInstruction]:
        raise errors.pop()

    errors: list[Exception] = [NoTextError(), ValueError("x" * 1_000_000)]
    monkeypatch.setattr(bench.engine, "handle", leaves)
    with capture_logs():  # without configuration, structlog would show a megabyte in colour
        bench.loop.handle(Asked("a"))
        assert len(bench.loop.broken) < 2100
        bench.loop.broken = ""
        bench.loop.handle(Asked("a"))
    assert bench.loop.broken == "internal error, restart needed: NoTextError: (it has no text)"


def test_records_are_read_while_nothing_happens(bench: Bench) -> None:
    bench.loop.ask(Asked("a"))
    with bench.loop.paused() as now:
        assert bench.engine.held == {"a": (1, now + HOLD)}
