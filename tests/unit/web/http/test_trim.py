"""Memory goes back to the system once much of it is no longer held."""

from __future__ import annotations

import pytest

from extender.web.http.trim import MUCH, Trimmer
from extender.web.limits.budget import Budget, Budgets


class Holder:
    client = "10.0.0.1"

    def __init__(self) -> None:
        self.held = 0

    def give_up(self) -> None:
        pass


@pytest.fixture
def budgets() -> Budgets:
    return Budgets(Budget(4 * MUCH), Budget(4 * MUCH))


def looks(trimmer: Trimmer, times: int = 3) -> None:
    for _ in range(times):
        trimmer.look()
        if trimmer._thread is not None:
            trimmer._thread.join()


def test_it_is_trimmed_once_after_much_was_held(budgets: Budgets) -> None:
    trims: list[int] = []
    trimmer, body = Trimmer(budgets, lambda: trims.append(1)), Holder()
    budgets.bodies.hold(body, 2 * MUCH)
    looks(trimmer)
    assert trims == []
    budgets.bodies.hold(body, 0)
    looks(trimmer)
    assert trims == [1]


def test_what_came_and_went_between_two_looks_counts(budgets: Budgets) -> None:
    trims: list[int] = []
    body = Holder()
    budgets.answers.hold(body, MUCH)
    budgets.answers.hold(body, 0)
    looks(Trimmer(budgets, lambda: trims.append(1)))
    assert trims == [1]


def test_little_is_not_worth_it(budgets: Budgets) -> None:
    trims: list[int] = []
    body = Holder()
    budgets.bodies.hold(body, MUCH - 1)
    budgets.bodies.hold(body, 0)
    looks(Trimmer(budgets, lambda: trims.append(1)))
    assert trims == []


def test_the_real_one_runs(budgets: Budgets) -> None:
    body = Holder()
    trimmer = Trimmer(budgets)
    budgets.bodies.hold(body, MUCH)
    budgets.bodies.hold(body, 0)
    looks(trimmer)
    assert trimmer._thread is not None
