"""Every recording of Knative's vpod scheduler: the same reports, but for defects of the original, listed here."""

import pytest

from tests.conformance.vpods_adapter import factory
from tests.conformance.vpods_recordings import cases, differences, may_differ

#: What ours does instead, by case.
BETTER = {
    "probe-promote-wired": "a new leader starts from what is committed, also with an autoscaler",
    "probe-repromote-stale": "a leader of a new term starts from what is committed, not from its old reservations",
    "probe-state-error-forgets": "nothing is read to decide, so that no failing read can lose a reservation",
    "probe-scale-error-cached": "nothing is read to decide, so that no failing read can lose a reservation",
    "probe-bad-pod-name": "a placement that names no pod of the set is left out, and all else goes on",
    "probe-foreign-prefix": "pods of another set are not taken for pods of this one",
    "probe-foreign-prefix-overflow": "pods of another set are not taken for pods of this one",
}


@pytest.mark.parametrize(("engine", "better"), [("head", BETTER), ("v0.43.1", BETTER), ("v0.43.0", {})])
def test_decides_as_recorded(engine, better):
    found = differences(engine)

    assert {name: text for name, text in found.items() if name not in better} == {}
    assert found.keys() == better.keys()


@pytest.mark.parametrize("engine", ["head", "v0.43.1"])
def test_only_what_a_recording_calls_wrong_differs(engine):
    assert all(may_differ(case, engine) for case in cases(engine) if case["id"] in BETTER)


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
