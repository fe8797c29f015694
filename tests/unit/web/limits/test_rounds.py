"""Clients take turns, however many items one of them has."""

from __future__ import annotations

import pytest

from extender.web.limits.rounds import Rounds


def popped(rounds: Rounds[str, int]) -> list[int]:
    found = []
    while rounds:
        found.append(rounds.pop())
    return found


def test_one_of_each_client_after_the_other_the_oldest_first() -> None:
    rounds: Rounds[str, int] = Rounds()
    for item in (1, 2, 3):
        rounds.add("many", item)
    rounds.add("few", 9)
    assert popped(rounds) == [1, 9, 2, 3]


def test_an_item_that_waits_keeps_its_place_and_waits_once() -> None:
    rounds: Rounds[str, int] = Rounds()
    for item in (1, 2, 1):
        rounds.add("a", item)
    assert list(rounds.of("a")) == [1, 2]
    assert popped(rounds) == [1, 2]


def test_a_client_without_items_leaves_nothing_behind() -> None:
    rounds: Rounds[str, int] = Rounds()
    rounds.add("a", 1)
    rounds.discard("a", 2)
    rounds.discard("b", 1)
    assert rounds
    rounds.discard("a", 1)
    assert not rounds
    assert not rounds.of("a")
    with pytest.raises(KeyError):
        rounds.pop()
