"""Pairs of operation and fault on real sockets: a slice in every run, all of them in the slow one."""

from __future__ import annotations

import pytest

from tests.faults.matrix import arena_name, shuffled, slice_of, try_all
from tests.faults.table import FAULTS, OPERATIONS


def test_every_operation_and_every_fault_is_survived_once() -> None:
    chosen = slice_of(1, 30)
    survived = try_all(chosen, 1)
    assert {operation for operation, _ in survived} == {op.name for op in OPERATIONS}
    assert {fault for _, fault in survived} == {fault.name for fault in FAULTS}


@pytest.mark.slow
@pytest.mark.parametrize("arena", ["pods", "election", "claims"])
def test_every_pair_is_survived(arena: str) -> None:
    chosen = [pair for pair in shuffled(2) if arena_name(pair) == arena]
    survived = try_all(chosen, 2)
    assert len(survived) == len(chosen)
