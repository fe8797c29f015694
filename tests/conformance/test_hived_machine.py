"""A slice of the random runs; `python -m tests.conformance.hived_long` makes long ones."""

from hypothesis import HealthCheck, settings

from tests.conformance.hived_machine import HivedMachine

TestHived = HivedMachine.TestCase
TestHived.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
