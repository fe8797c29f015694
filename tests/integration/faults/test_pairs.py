"""Pairs of operation and fault on real sockets: a slice in every run, all of them in the slow one."""

from __future__ import annotations

import pytest

from tests.faults.matrix import shuffled, slice_of, try_all
from tests.faults.table import FAULTS, OPERATIONS


def test_every_operation_and_every_fault_is_survived_once() -> None:
    chosen = slice_of(1, 30)
    survived = try_all(chosen, 1)
    assert {operation for operation, _ in survived} == {op.name for op in OPERATIONS}
    assert {fault for _, fault in survived} == {fault.name for fault in FAULTS}


@pytest.mark.slow
def test_every_pair_is_survived() -> None:
    survived = try_all(shuffled(2), 2)
    assert len(survived) == len(shuffled(2))
