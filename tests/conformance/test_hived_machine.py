"""A slice of the random runs; `python -m tests.conformance.hived_long` makes long ones."""

import pytest
from hypothesis import settings

from tests.conformance.hived_machine import HivedMachine
from tests.support.examples import few

FEW = few(5, 40)


class TestHived(HivedMachine.TestCase):
    settings = FEW


@pytest.mark.slow
class TestHivedForLonger(HivedMachine.TestCase):
    settings = settings(FEW, max_examples=30)
