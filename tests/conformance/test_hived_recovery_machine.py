"""A slice of the random runs in which quota is lost and the server is restarted again and again."""

import pytest
from hypothesis import settings

from tests.conformance.hived_recovery_machine import RecoveryMachine
from tests.support.examples import few

FEW = few(6, 30)


class TestRecovery(RecoveryMachine.TestCase):
    settings = FEW


@pytest.mark.slow
class TestRecoveryForLonger(RecoveryMachine.TestCase):
    settings = settings(FEW, max_examples=80)
