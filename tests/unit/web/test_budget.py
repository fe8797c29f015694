"""Memory that waits for peers: what has to go when it is too much."""

from __future__ import annotations

import pytest

from extender.web.budget import Budget, Budgets, budgets_of

KIB = 1024


class Body:
    def __init__(self) -> None:
        self.held = 0
        self.has_given_up = False

    def give_up(self) -> None:
        self.has_given_up = True


def hold(budget: Budget, *sizes: int) -> list[Body]:
    bodies = [Body() for _ in sizes]
    for body, size in zip(bodies, sizes, strict=True):
        budget.hold(body, size)
    return bodies


def gone(bodies: list[Body]) -> list[bool]:
    return [body.has_given_up for body in bodies]


def test_up_to_the_limit_nothing_has_to_go() -> None:
    budget = Budget(1000 * KIB)
    bodies = hold(budget, 300 * KIB, 700 * KIB)
    assert gone(bodies) == [False, False]
    assert budget.used == 1000 * KIB


def test_the_largest_goes_first_so_that_small_ones_pass() -> None:
    budget = Budget(1000 * KIB)
    bodies = hold(budget, 100 * KIB, 500 * KIB, 300 * KIB, 200 * KIB)
    assert gone(bodies) == [False, True, False, False]
    assert budget.used == 600 * KIB


def test_the_newest_goes_if_it_is_the_largest() -> None:
    bodies = hold(Budget(1000 * KIB), 300 * KIB, 600 * KIB, 900 * KIB)
    assert gone(bodies) == [False, False, True]


def test_where_all_are_small_the_oldest_goes() -> None:
    bodies = hold(Budget(100 * KIB), *[10 * KIB] * 12)
    assert gone(bodies) == [True] * 2 + [False] * 10


def test_what_ended_gives_room_back() -> None:
    budget = Budget(100 * KIB)
    (body,) = hold(budget, 90 * KIB)
    budget.hold(body, 0)
    assert gone([body, *hold(budget, 90 * KIB)]) == [False, False]
    assert budget.used == 90 * KIB


def test_a_holder_that_shrinks_is_no_longer_the_largest() -> None:
    budget = Budget(1000 * KIB)
    first, second = hold(budget, 600 * KIB, 300 * KIB)
    budget.hold(first, 10 * KIB)
    assert gone([first, second, *hold(budget, 200 * KIB, 600 * KIB)]) == [False, False, False, True]


@pytest.mark.parametrize("size", [10, 100 * KIB])
def test_what_is_looked_at_does_not_grow_with_all_that_hold(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are few, because each takes its part; of small ones only the oldest is looked at."""
    looked: list[Body] = []
    monkeypatch.setattr("extender.web.budget._held", lambda body: looked.append(body) or body.held)
    budget = Budget(1000 * size)
    hold(budget, *[size] * 2000)
    assert budget.given_up == 1000
    assert len(looked) <= budget.given_up * (1000 * size // (64 * KIB) + 1)


def test_a_server_has_room_for_three_of_its_largest_bodies() -> None:
    assert Budgets.for_bodies_of(1 << 30).bodies.limit == 3 << 30
    assert Budgets.for_bodies_of(1 << 20).answers.limit == 96 << 20


def test_an_app_without_a_budget_gets_one() -> None:
    assert budgets_of(object()).bodies.limit == 96 << 20


def test_what_waits_and_what_was_dropped_is_shown() -> None:
    budgets = Budgets(Budget(100 * KIB), Budget(100 * KIB))
    hold(budgets.bodies, 60 * KIB, 50 * KIB)
    waiting, given_up = budgets.metrics()
    assert waiting.samples == [({"what": "bodies"}, 50.0 * KIB), ({"what": "answers"}, 0.0)]
    assert given_up.samples == [({"what": "bodies"}, 1.0), ({"what": "answers"}, 0.0)]
