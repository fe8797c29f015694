"""What the page gets of sets of vpods."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest

from extender.vpods.records import VPodKey
from extender.web.ui.increments import Increments
from extender.web.ui.vpods import vpod_pieces
from tests.support.cluster.vpod_crowd import CrowdedService, empty_set, settled


def pieces(service: CrowdedService) -> list[dict[str, Any]]:
    return [msgspec.json.decode(piece) for piece in vpod_pieces(service)]


def test_a_set_is_its_pods_and_its_vpods() -> None:
    head, of_set, rows = pieces(CrowdedService(settled(empty_set(pods=2, vpods=2, capacity=8)), later=130.0))
    assert head == {"vpodSetCount": 1, "vpodTotals": [9, 0, 7]}
    found = of_set["vpodSet"]
    assert (found["namespace"], found["name"], found["usable"], found["spread"]) == ("shop", "carts", 2, 1)
    assert found["pods"] == [[0, "zone-a", "n0", "usable", "", 5], [1, "zone-b", "n1", "usable", "", 4]]
    assert rows == {
        "vpodRows": [
            ["shop/cart-0000", 1, 1, 0, "Placed", "", None, [], [0, 1]],
            ["shop/cart-0001", 8, 8, 0, "Placed", "", None, [], [0, 4, 1, 4]],
        ],
        "of": "shop/carts",
    }


def test_a_vpod_that_waits_says_for_how_long_in_steps() -> None:
    service = CrowdedService(settled(empty_set(pods=1, vpods=2, capacity=5)), later=130.0)
    row = pieces(service)[2]["vpodRows"][1]
    assert (row[3], row[4], row[6]) == (4, "NotEnoughRoom", 60)


def test_only_what_changed_is_sent_again() -> None:
    simulation = settled(empty_set(pods=4, vpods=100, capacity=600))
    now = [0.0]
    increments = Increments(lambda: list(vpod_pieces(CrowdedService(simulation))), clock=lambda: now[0])
    first = msgspec.json.decode(increments.since(""))
    assert len(first["pieces"]) == first["size"] == 2 + 4
    now[0] += 1000
    assert msgspec.json.decode(increments.since(first["version"]))["pieces"] == {}
    simulation.want(VPodKey("shop", "cart-0030"), wanted=12)
    for _ in simulation.run():
        pass
    now[0] += 1000
    assert set(msgspec.json.decode(increments.since(first["version"]))["pieces"]) == {"0", "1", "3"}


@pytest.mark.slow
def test_a_large_set_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CrowdedService(settled(empty_set(pods=200, vpods=1000)))
    whole = list(vpod_pieces(service))
    assert len(gzip.compress(b"".join(whole), 1)) < 200_000
    monkeypatch.setattr("extender.web.ui.vpods.VPODS", 30)
    assert sum(len(piece.get("vpodRows", ())) for piece in pieces(service)) == 30
    monkeypatch.setattr("extender.web.ui.vpods.COUNTS", 100)
    rows = [row for piece in pieces(service) for row in piece.get("vpodRows", ())]
    assert sum(len(row[8]) for row in rows) // 2 <= 100
    assert pieces(service)[1]["vpodSet"]["vpods"] == 1000


def test_those_that_wait_are_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.web.ui.vpods.VPODS", 3)
    service = CrowdedService(settled(empty_set(pods=3, vpods=40, capacity=200)))
    rows = pieces(service)[2]["vpodRows"]
    assert all(row[3] for row in rows)


def test_pods_of_all_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.web.ui.vpods.PODS", 3)
    found = pieces(CrowdedService(settled(empty_set(pods=5, vpods=1))))[1]["vpodSet"]
    assert found["replicas"] == 5
    assert [pod[0] for pod in found["pods"]] == [0, 1, 2]
