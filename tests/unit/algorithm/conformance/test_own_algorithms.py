"""The algorithms that come with Waggle, keep the contract, with no check opted out."""

from __future__ import annotations

import pytest

from algorithm.conformance import conformance
from algorithm.fgd import PLUGIN as FGD
from algorithm.hived import PLUGIN as HIVED
from algorithm.packing import PLUGIN as PACKING
from tests.support.conformance.slots import PLUGIN as SLOTS
from tests.support.conformance.slots import Settings


@conformance(PACKING, lives=5)
def test_packing() -> None: ...


@conformance(HIVED, lives=4)
def test_hived() -> None: ...


@conformance(FGD, lives=5)
def test_fgd() -> None: ...


@pytest.mark.slow
@conformance(PACKING, {"strategy": "spread"}, lives=100)
class TestPackingAtLength: ...


@pytest.mark.slow
@conformance(HIVED, lives=100)
class TestHivedAtLength: ...


@pytest.mark.slow
@conformance(FGD, {"policy": "bestfit"}, lives=100)
class TestFgdAtLength: ...


@pytest.mark.slow
@conformance(SLOTS, Settings(slots=2), lives=100)
class TestSlotsAtLength: ...
