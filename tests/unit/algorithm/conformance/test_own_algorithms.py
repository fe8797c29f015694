"""The algorithms that come with Waggle, and that of the guide, keep the contract, with no check opted out."""

from __future__ import annotations

from algorithm.conformance import conformance
from tests.support.conformance.slots import PLUGIN as SLOTS


@conformance(SLOTS, {"slots": 2}, lives=10)
def test_slots() -> None: ...
