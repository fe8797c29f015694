"""A slice of `python -m tests.conformance.plan_adversary`: random programs for the dependency engine, random plans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Condition

import pytest

from extender.fixpoint import Pool
from tests.conformance.plan_adversary import programs, worlds


def test_random_programs_end_as_the_documents_say() -> None:
    assert [each for seed in range(219, 469) for each in programs.faults(seed)] == []


def test_random_programs_end_so_with_real_threads() -> None:
    with ThreadPoolExecutor(4) as threads:
        for seed in range(20):
            program = programs.draw(seed)
            report = programs.run(program, executor=Pool(threads.submit, Condition(), workers=4))
            assert programs.fates(report) == programs.Oracle(program).fates(), f"seed {seed}"


@pytest.mark.slow
def test_plans_of_random_worlds_keep_their_promises() -> None:
    assert [each for seed in range(15) for each in worlds.faults(seed)] == []


@pytest.mark.slow
def test_many_random_programs_end_as_the_documents_say() -> None:
    assert [each for seed in range(1000, 7000) for each in programs.faults(seed)] == []


@pytest.mark.slow
def test_plans_of_many_random_worlds_keep_their_promises() -> None:
    assert [each for seed in range(1000, 1150) for each in worlds.faults(seed)] == []
