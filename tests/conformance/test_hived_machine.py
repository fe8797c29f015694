"""A slice of the random runs; `python -m tests.conformance.hived_long` makes long ones."""

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.hived_machine import HivedMachine

FEW = settings(
    max_examples=10,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class TestHived(HivedMachine.TestCase):
    settings = FEW


@pytest.mark.slow
class TestHivedForLonger(HivedMachine.TestCase):
    settings = settings(FEW, max_examples=60)
