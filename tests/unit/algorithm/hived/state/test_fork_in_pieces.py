"""A copy in pieces, with random events in between, is the copy of its last moment, and shares nothing that changes.

Events are those of `tests/conformance/hived_machine.py`: groups come and go, preempt each other, are preempted lazily
and promoted, proposals are made and not taken, machines and devices turn bad, and the algorithm is restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.cells.cells import PhysicalCell
from algorithm.hived.state import fork as module
from algorithm.hived.state.groups import Group
from tests.conformance.hived_machine import HivedMachine
from tests.support.hived.audit import audit
from tests.support.hived.dump import dump
from tests.support.hived.sharing import shared

Pieces = Iterator[Callable[[], HivedAlgorithm] | None]


def parts(algorithm: HivedAlgorithm) -> list[Any]:
    """What a hived algorithm consists of, but for its pages and what is read of its settings."""
    accounts = algorithm._start.accounts
    others = (accounts._log, accounts._scopes, accounts.unrecoverable_pods, algorithm._waiting, algorithm._proposed)
    return [accounts.hive, *others, algorithm.devices._bad, algorithm.devices.warnings, algorithm._generation]


def told(algorithm: HivedAlgorithm) -> list[Any]:
    """All of that, object by object."""
    return dump(parts(algorithm), lists=True)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", 9)
    monkeypatch.setattr(module, "GROUPS", 1)
    monkeypatch.setattr(module, "_LAST", 1)


class ForkingMachine(HivedMachine):
    """After each event some pieces are made. `taken` counts the copies that were completed."""

    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.of: HivedAlgorithm | None = None
        self.pieces: Pieces = iter(())
        self.complete: Callable[[], HivedAlgorithm] | None = None
        self.copy: HivedAlgorithm | None = None
        self.expected: list[Any] = []

    def check(self) -> None:
        if self.copy is not None:
            assert told(self.copy) == self.expected, "an event changed the copy"
            self.copy = None
        if self.of is not self.world.algorithm:  # restarted
            self.of, self.pieces, self.complete = self.world.algorithm, self.world.algorithm.forks(), None
        for _ in range(self.random.choice([1, 3, 10, 30])):
            self.step()

    def step(self) -> None:
        """Make one piece. The copy is made when none are left, which may be some events after the last one."""
        for taken in self.pieces:
            if taken is not None:
                self.complete, self.expected = taken, told(self.world.algorithm)
            return
        if self.complete is not None:
            ForkingMachine.taken += 1
            self.copy = self.complete()
            assert told(self.copy) == self.expected
            audit(self.copy.hive)
            assert not shared(parts(self.world.algorithm), parts(self.copy))
            kinds = {type(group) for group in self.world.hive.groups.values()}
            assert kinds <= {Group}
            assert {type(cell) for cell in self.world.hive.layout.devices.values()} == {PhysicalCell}
        self.of = None


@pytest.mark.parametrize("courses", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_a_copy_in_pieces_is_that_of_the_last_moment(courses: int) -> None:
    ForkingMachine.taken = 0
    quick = settings(
        max_examples=courses,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(ForkingMachine, settings=quick)
    assert ForkingMachine.taken > 10
