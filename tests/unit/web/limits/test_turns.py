"""Turns: one after the other, a little in each iteration of the loop, and deadlines that are looked at."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from extender.web.limits import turns
from extender.web.limits.turns import Turns


class Busy:
    """Has so much to do."""

    def __init__(
        self, name: str, work: int, done: list[str], *, address: str = "10.0.0.1", has_call: bool = False
    ) -> None:
        self.name = name
        self.address = address
        self.has_call = has_call
        self.work = work
        self.done = done
        self.checked: list[float] = []

    def turn(self) -> bool:
        self.work -= 1
        self.done.append(self.name)
        return self.work > 0

    def check(self, now: float) -> None:
        self.checked.append(now)


async def settle(*busy: Busy) -> int:
    """Iterations of the loop until nobody has anything to do."""
    iterations = 0
    while any(each.work for each in busy):
        await asyncio.sleep(0)
        iterations += 1
        assert iterations < 10_000
    return iterations


async def in_turns(*work: int) -> tuple[str, int]:
    done: list[str] = []
    busy = [Busy(chr(ord("a") + number), each, done) for number, each in enumerate(work)]
    for each in busy:
        Turns.of_running_loop().add(each)
    return "".join(done), await settle(*busy)


def test_each_has_its_turn_after_the_others() -> None:
    async def run() -> str:
        done: list[str] = []
        busy = [Busy(name, work, done) for name, work in (("a", 3), ("b", 1), ("c", 2))]
        for each in busy:
            Turns.of_running_loop().add(each)
        await settle(*busy)
        return "".join(done)

    assert asyncio.run(run()) == "abcaca"


def test_when_the_slice_is_over_the_loop_goes_on_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 0.0)
    _, iterations = asyncio.run(in_turns(10, 10))
    assert iterations >= 20


def test_work_that_goes_on_elsewhere_ends_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 3600.0)
    monkeypatch.setattr(Busy, "turn", lambda self: (Turns.of_running_loop().end_slice(), _turn(self))[1])
    _, iterations = asyncio.run(in_turns(10, 10))
    assert iterations >= 20


_turn = Busy.turn


def test_who_is_added_twice_has_one_turn() -> None:
    async def run() -> list[str]:
        done: list[str] = []
        one = Busy("a", 1, done)
        for _ in range(3):
            Turns.of_running_loop().add(one)
        for _ in range(3):
            await asyncio.sleep(0)
        return done

    assert asyncio.run(run()) == ["a"]


def test_a_turn_that_fails_takes_nobody_else_its_turn() -> None:
    class Broken(Busy):
        def turn(self) -> bool:
            raise RuntimeError

    async def run() -> list[str]:
        done: list[str] = []
        other = Busy("b", 2, done)
        for each in (Broken("a", 0, done), other):
            Turns.of_running_loop().add(each)
        await settle(other)
        return done

    assert asyncio.run(run()) == ["b", "b"]


def test_who_has_left_has_no_turn_and_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.0)

    async def run() -> tuple[list[str], int, int]:
        done: list[str] = []
        left, stays = Busy("a", 1, done), Busy("b", 1, done)
        taken = Turns.of_running_loop()
        for each in (left, stays):
            taken.watch(each)
            taken.add(each)
        taken.unwatch(left)
        while not stays.checked:
            await asyncio.sleep(0)
        return done, len(left.checked), len(stays.checked)

    assert asyncio.run(run()) == (["b"], 0, 1)


def in_one_slice(*busy: Busy) -> None:
    async def run() -> None:
        for each in busy:
            Turns.of_running_loop().add(each)
        await settle(*busy)

    asyncio.run(run())


def test_addresses_take_turns_however_many_connections_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 3600.0)
    done: list[str] = []
    in_one_slice(*(Busy("a", 1, done) for _ in range(4)), Busy("b", 2, done, address="10.0.0.2"))
    assert "".join(done) == "ababaa"


def test_calls_have_their_turns_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 3600.0)
    done: list[str] = []
    in_one_slice(*(Busy("a", 2, done) for _ in range(2)), Busy("c", 2, done, has_call=True))
    assert "".join(done) == "ccaaaa"


def test_calls_that_fill_the_slice_leave_one_turn_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 0.0)
    done: list[str] = []
    in_one_slice(*(Busy("a", 2, done) for _ in range(2)), Busy("c", 3, done, has_call=True))
    assert "".join(done) == "cacacaa"


def test_a_connection_on_which_a_call_arrives_has_one_turn_among_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", 3600.0)
    done: list[str] = []

    async def run() -> None:
        late, other = Busy("c", 1, done), Busy("a", 1, done)
        for each in (other, late):
            Turns.of_running_loop().add(each)
        late.has_call = True
        Turns.of_running_loop().add(late)
        await settle(late, other)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert "".join(done) == "ca"


def test_one_slice_of_an_iteration_is_for_what_comes_and_a_second_one_for_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(turns, "perf_counter", lambda: now)

    async def scenario() -> list[tuple[bool, bool]]:
        nonlocal now
        taken, found = Turns.of_running_loop(), list[tuple[bool, bool]]()
        for _ in range(2):
            for _ in range(3):
                found.append((taken.admits(call=False), taken.admits(call=True)))
                now += turns.SLICE * 1.1
            await asyncio.sleep(0.003)
        return found

    assert uvloop.run(scenario()) == [(True, True), (False, True), (False, False)] * 2
