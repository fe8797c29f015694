"""`make test` lets Hypothesis try a twentieth of the examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.support.examples import SHARE, fewer, try_fewer, unhurried


@pytest.mark.parametrize(("most", "tried"), [(100, 5), (20, 3), (8, 3), (2, 2)])
def test_a_twentieth_is_tried_but_at_least_three(most: int, tried: int) -> None:
    assert fewer(settings(max_examples=most)).max_examples == tried


def test_everything_else_stays() -> None:
    all_of_them = settings(
        max_examples=100,
        stateful_step_count=17,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    few = fewer(all_of_them)
    assert (few.stateful_step_count, few.deadline, few.derandomize) == (17, None, True)
    assert {*few.suppress_health_check} == {*all_of_them.suppress_health_check}


def test_no_limit_of_time_is_left() -> None:
    hurried = settings(max_examples=7, deadline=100, suppress_health_check=[HealthCheck.data_too_large])
    free = unhurried(hurried)
    assert (free.max_examples, free.deadline) == (7, None)
    assert {*free.suppress_health_check} == {HealthCheck.data_too_large, HealthCheck.too_slow}


def test_a_function_is_called_with_fewer() -> None:
    met: list[int] = []

    @settings(max_examples=40, database=None)
    @given(st.integers())
    def test(number: int) -> None:
        met.append(number)

    try_fewer(test)
    test()
    assert len(met) == 3


def test_a_state_machine_runs_fewer_times() -> None:
    runs: list[Machine] = []

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            runs.append(self)

        @rule(number=st.integers())
        def step(self, number: int) -> None:
            pass

    Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=2, database=None)
    try_fewer(Machine.TestCase)
    Machine.TestCase("runTest").debug()
    assert len(runs) <= 10


def test_the_option_reaches_the_tests(request: pytest.FixtureRequest) -> None:
    """What this run was started with is what its tests of Hypothesis do, if it has any."""
    if all(item.name != "test_some_number" for item in request.session.items):
        pytest.skip("this run has no tests of Hypothesis")
    share = SHARE if request.config.getoption("few_examples") else 1
    found = test_some_number._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    assert found.max_examples == 60 // share
    assert found.deadline is None
    assert HealthCheck.too_slow in found.suppress_health_check


@settings(max_examples=60)
@given(st.integers())
def test_some_number(number: int) -> None:
    assert number == int(str(number))
