"""A slice of the random runs in which quota is lost and the server is restarted again and again."""

from hypothesis import HealthCheck, settings

from tests.conformance.hived_recovery_machine import RecoveryMachine

TestRecovery = RecoveryMachine.TestCase
TestRecovery.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
