"""Pairs of operation and fault on real sockets: a slice in every run, all of them in the slow one."""

from __future__ import annotations

import pytest

from tests.faults.matrix import arena_name, shuffled, slice_of, try_all
from tests.faults.table import FAULTS, OPERATIONS

ARENAS = ["pods", "election", "claims", "vpods", "ordering", "plans"]
#: Their slice takes longer than that of all others.
WAIT_LONG = ("claims", "vpods", "plans")
SLICE = slice_of(1)


def test_every_operation_and_every_fault_is_in_the_slice() -> None:
    assert {pair.operation.name for pair in SLICE} == {operation.name for operation in OPERATIONS}
    assert {pair.fault.name for pair in SLICE} == {fault.name for fault in FAULTS}


@pytest.mark.parametrize(
    "arena", [pytest.param(arena, marks=pytest.mark.slow if arena in WAIT_LONG else ()) for arena in ARENAS]
)
def test_every_operation_and_every_fault_is_survived_once(arena: str) -> None:
    chosen = [pair for pair in SLICE if arena_name(pair) == arena]
    survived = try_all(chosen, 1)
    assert survived.keys() == {(pair.operation.name, pair.fault.name) for pair in chosen}


@pytest.mark.slow
@pytest.mark.parametrize("arena", ARENAS)
def test_every_pair_is_survived(arena: str) -> None:
    chosen = [pair for pair in shuffled(2) if arena_name(pair) == arena]
    survived = try_all(chosen, 2)
    assert len(survived) == len(chosen)
