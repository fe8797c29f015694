"""The algorithms that come with Waggle, keep the contract, with no check opted out."""

from __future__ import annotations

from typing import Any

import pytest

from algorithm.conformance.catalogue import CHECKS
from algorithm.conformance.report import as_text
from algorithm.conformance.session import request_of, run
from algorithm.conformance.worlds.hived import SETTINGS as CELLS


# One test each: as tests of single checks, each of pytest's processes would live all lives again.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["packing", "hived", "fgd"])
def test_it_conforms(name: str) -> None:
    report = run(request_of(plugin=f"algorithm.{name}:PLUGIN", lives=2))
    assert report.conforms, as_text(report)
    assert [each.check for each in report.results] == [each.name for each in CHECKS]


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
    report = run(request_of(plugin=plugin, settings=settings, lives=30))
    assert not report.unusable
    assert [result for result in report.results if result.status == "failed"] == []
