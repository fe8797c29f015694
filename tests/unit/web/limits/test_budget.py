"""Memory that waits for peers: what has to go when it is too much."""

from __future__ import annotations

import pytest

from extender.web.limits.budget import Budget, Budgets, budgets_of

KIB = 1024


class Body:
    def __init__(self, client: str = "") -> None:
        self.client = client
        self.held = 0
        self.has_given_up = False

    def give_up(self) -> None:
        self.has_given_up = True


def hold(budget: Budget, *sizes: int, client: str = "") -> list[Body]:
    bodies = [Body(client) for _ in sizes]
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


def test_the_oldest_of_the_large_ones_goes_first_so_that_small_ones_pass() -> None:
    budget = Budget(1000 * KIB)
    bodies = hold(budget, 10 * KIB, 500 * KIB, 300 * KIB, 200 * KIB)
    assert gone(bodies) == [False, True, False, False]
    assert budget.used == 510 * KIB


def test_the_client_that_holds_the_most_gives_up_though_its_bodies_are_smaller() -> None:
    budget = Budget(1000 * KIB)
    flood = hold(budget, *[100 * KIB] * 8, client="10.0.0.1")
    (large,) = hold(budget, 400 * KIB, client="10.0.0.2")
    assert gone(flood) == [True] * 2 + [False] * 6
    assert not large.has_given_up


def test_many_unfinished_bodies_of_its_own_client_do_not_stop_a_large_one() -> None:
    budget = Budget(1000 * KIB)
    flood = hold(budget, *[100 * KIB] * 10)
    (large,) = hold(budget, 400 * KIB)
    assert gone(flood) == [True] * 4 + [False] * 6
    assert not large.has_given_up


def test_nothing_is_remembered_of_clients_that_hold_nothing() -> None:
    budget = Budget(1000 * KIB)
    for number in range(100):
        (body,) = hold(budget, 100 * KIB, client=f"10.0.0.{number}")
        budget.hold(body, 0)
    assert not budget._shares


def test_where_all_are_small_the_oldest_goes() -> None:
    bodies = hold(Budget(100 * KIB), *[10 * KIB] * 12)
    assert gone(bodies) == [True] * 2 + [False] * 10


def test_what_ended_gives_room_back() -> None:
    budget = Budget(100 * KIB)
    (body,) = hold(budget, 90 * KIB)
    budget.hold(body, 0)
    assert gone([body, *hold(budget, 90 * KIB)]) == [False, False]
    assert budget.used == 90 * KIB


def test_a_holder_that_shrinks_is_no_longer_a_large_one() -> None:
    budget = Budget(1000 * KIB)
    first, second = hold(budget, 600 * KIB, 300 * KIB)
    budget.hold(first, 10 * KIB)
    assert gone([first, second, *hold(budget, 200 * KIB, 600 * KIB)]) == [False, True, False, False]


@pytest.mark.parametrize("clients", [1, 10])
def test_what_is_looked_at_is_each_client_once_whatever_it_holds(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr("extender.web.limits.budget._used", lambda share: looked.append(share) or share.used)
    budget = Budget(1000 * KIB)
    for number in range(2000):
        hold(budget, KIB, client=f"10.0.0.{number % clients}")
    assert budget.given_up == 1000
    assert len(looked) == 1000 * clients


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
