"""Every recording of Knative's vpod scheduler: the same reports, but for defects of the original, listed here."""

import re

import pytest

from tests.conformance.vpods_adapter import factory
from tests.conformance.vpods_recordings import cases, differences, may_differ
from tests.unit.vpods import test_defects

SEEDED = "a leader starts from what is committed"
NO_READS = "nothing is read to decide, so that no failing read can lose a reservation"
EXACT = "a placement that names no pod of this set is left out, and all else goes on"
ONE_SOURCE = "the StatefulSet alone says how many pods there are"
#: Every recording that advises something else than what it shows: the defect of the original, by its number in
#: tests/unit/vpods/test_defects.py, and what the engine does instead. "+": these policies differ from the recording
#: too. "=": `head` and `v0.43.1` decide as recorded, since they are there for that; `balanced` does what is right.
ADVISED = {
    "probe-promote-wired": (1, "+", SEEDED),
    "probe-repromote-stale": (1, "+", SEEDED + ", in every term"),
    "probe-no-promote": (1, "=", SEEDED),
    "probe-not-leader": (1, "=", "a server decides only while it leads"),
    "probe-state-error-forgets": (2, "+", NO_READS),
    "probe-scale-error-cached": (2, "+", NO_READS),
    "probe-unschedulable-livelock": (3, "=", "each pod that cannot be used is one replica more"),
    "probe-lag-skew": (4, "=", ONE_SOURCE),
    "probe-external-scale": (4, "=", ONE_SOURCE + ", and it is watched"),
    "probe-watch-zero": (4, "=", "nothing is placed before the StatefulSet is seen"),
    "probe-min-zero-wanted": (5, "=", "the least number of replicas inflates no vpod"),
    "probe-min-livelock": (5, "=", "scheduler and autoscaler have the same target"),
    "probe-min-existing-not-spread": (5, "=", "a wanted spread is on distinct pods"),
    "probe-shrink-unbalances": (6, "=", "vreplicas are taken where there are most"),
    "probe-partial-hogs": (7, "=", "a part that fits is committed, or given back after a time"),
    "probe-bad-pod-name": (10, "+", EXACT),
    "probe-foreign-prefix": (10, "+", EXACT),
    "probe-foreign-prefix-overflow": (10, "+", EXACT),
    "probe-capacity-zero": (18, "=", "a capacity below 1 is refused"),
}
BETTER = {case: text for case, (_, differs, text) in ADVISED.items() if differs == "+"}


@pytest.mark.parametrize(
    ("engine", "better"), [("head", BETTER), ("v0.43.1", BETTER), ("v0.43.0", {}), ("scale-cache", {})]
)
def test_decides_as_recorded(engine, better):
    found = differences(engine)

    assert {name: text for name, text in found.items() if name not in better} == {}
    assert found.keys() == better.keys()


@pytest.mark.parametrize("engine", ["head", "v0.43.1"])
def test_only_what_a_recording_calls_wrong_differs(engine):
    assert all(may_differ(case, engine) for case in cases(engine) if case["id"] in BETTER)


@pytest.mark.parametrize("engine", ["head", "v0.43.1"])
def test_every_advice_of_a_recording_is_listed(engine):
    assert {case["id"] for case in cases(engine) if may_differ(case, engine)} == ADVISED.keys()


def test_every_defect_has_a_test_of_what_is_right():
    tested = {int(name[5:7]) for name in vars(test_defects) if re.match(r"test_[0-9]{2}_", name)}
    assert tested == set(range(1, 20)) >= {number for number, *_ in ADVISED.values()}


def case_named(name):
    return next(case for case in cases("head") if case["id"] == name)


def test_a_new_leader_moves_nothing():
    case = case_named("probe-promote-wired")
    world = factory(case, "head")
    reports = [world.step(step) for step in case["steps"]]

    placements = [report["placements"] for report in reports if "placements" in report]
    assert placements == [[["ss-0", 6]], [["ss-1", 6]], [["ss-2", 6]]]


def test_a_bad_pod_name_stops_nobody():
    case = case_named("probe-bad-pod-name")
    world = factory(case, "head")
    reports = [world.step(step) for step in case["steps"]]

    assert reports[1]["placements"] == [["ss-0", 1]]


def test_an_unknown_engine_is_said():
    with pytest.raises(NotImplementedError):
        factory(cases("head")[0], "v0.40")
