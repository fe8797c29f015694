"""A slice of the random runs in which quota is lost and the server is restarted again and again."""

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.hived_recovery_machine import RecoveryMachine

FEW = settings(
    max_examples=12,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class TestRecovery(RecoveryMachine.TestCase):
    settings = FEW


@pytest.mark.slow
class TestRecoveryForLonger(RecoveryMachine.TestCase):
    settings = settings(FEW, max_examples=80)
