"""The algorithms that come with Waggle, keep the contract, with no check opted out."""

from __future__ import annotations

from typing import Any

import pytest

from algorithm.conformance import conformance
from algorithm.conformance.session import request_of, run
from algorithm.conformance.worlds.hived import SETTINGS as CELLS
from algorithm.fgd import PLUGIN as FGD
from algorithm.hived import PLUGIN as HIVED
from algorithm.packing import PLUGIN as PACKING


@conformance(PACKING, lives=2)
def test_packing() -> None: ...


@conformance(HIVED, lives=2)
def test_hived() -> None: ...


@conformance(FGD, lives=2)
def test_fgd() -> None: ...


#: One test each: as tests of single checks, each of pytest's processes would live all lives again.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "settings"),
    [
        ("algorithm.packing:PLUGIN", {"strategy": "spread"}),
        ("algorithm.hived:PLUGIN", None),
        ("algorithm.hived:PLUGIN", {**CELLS, "bindUnoffered": False}),
        ("algorithm.fgd:PLUGIN", {"policy": "bestfit"}),
        ("tests.support.conformance.slots:PLUGIN", {"slots": 2}),
    ],
)
def test_at_length(plugin: str, settings: dict[str, Any] | None) -> None:
    report = run(request_of(plugin=plugin, settings=settings, lives=100))
    assert not report.unusable
    assert [result for result in report.results if result.status == "failed"] == []
