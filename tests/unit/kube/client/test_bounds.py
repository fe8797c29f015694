"""What is counted, logged and shown of refused answers, and which objects are not decoded."""

from __future__ import annotations

import pytest
import structlog

from extender.kube.client import bounds
from extender.kube.client.bounds import Bound, Refusals, cut, oversized
from extender.kube.informers.room import MemoryBudget
from tests.support.clock import Clock


def test_every_refusal_is_counted_and_one_a_minute_is_logged_for_each_bound() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            refusals.count(Bound.SIZE, "GET /a: too large")
        refusals.count(Bound.HEAD, "GET /b: too long")
        clock.now = 61.0
        refusals.count(Bound.SIZE, "GET /c: too large")
    assert [(line["bound"], line["times"], line["error"]) for line in logged] == [
        ("size", 1, "GET /a: too large"),
        ("head", 1, "GET /b: too long"),
        ("size", 5, "GET /c: too large"),
    ]
    assert refusals.counts() == dict.fromkeys(Bound, 0) | {Bound.SIZE: 6, Bound.HEAD: 1}


def test_the_latest_refusal_is_shown_for_five_minutes() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    assert refusals.readiness_warning() == ""
    refusals.count(Bound.SIZE, "one")
    clock.now = 10.0
    refusals.count(Bound.HEAD, "another")
    assert refusals.readiness_warning() == "an answer of the API server was refused: another"
    clock.now = 400.0
    assert refusals.readiness_warning() == ""


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{" + b" " * (200 * bounds.KIB) + b"}", ""),
        (b"{" + b" " * (3 * bounds.MIB) + b"}", ""),
        (b"{" + b" " * (4 * bounds.MIB) + b"}", "4194306 bytes"),
        (b'{"a":"",' * 120_000, "240000 parts"),
        (b"{}," * 300_000, "300000 parts"),
    ],
)
def test_an_object_that_would_hold_the_interpreter_for_long_is_not_decoded(raw: bytes, why: str) -> None:
    assert why in oversized(raw)
    assert bool(oversized(raw)) == bool(why)


def test_a_text_is_cut_to_what_people_need() -> None:
    assert cut("short") == "short"
    assert cut("x" * 10_000_000) == "x" * 500 + "... (10000000 characters)"


def test_pods_have_as_much_room_as_the_nodes_can_plausibly_hold() -> None:
    nodes = 50
    room = MemoryBudget(640, lambda: nodes)
    assert room.for_nodes() == 160 * bounds.MIB
    assert room.for_pods() + room.for_decisions().total() == (192 + 25) * bounds.MIB
    nodes = 5000
    assert room.for_pods() == 450 * bounds.MIB
    assert room.for_decisions().total() == 30 * bounds.MIB


def test_a_namespace_has_room_for_the_plans_of_all_devices_of_all_nodes() -> None:
    room = MemoryBudget(1024, lambda: 50).for_decisions()
    assert (room.gangs(), room.others()) == (912 * bounds.KIB, 8 * 912 * bounds.KIB)
