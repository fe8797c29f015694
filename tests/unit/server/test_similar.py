"""Names that somebody may have meant."""

from __future__ import annotations

import pytest

from extender.scheduling.events import PodSeen
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from extender.server.similar import MOST_NAMES, did_you_mean, similar
from tests.support.engine.objects import pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

NAMES = ["train-a-0", "train-a-1", "train-huge-00", "dashboard", "notebook", "x"]


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("train-a0", ["train-a-0"]),
        ("train-hueg-00", ["train-huge-00"]),
        ("tarin-a-1", ["train-a-1"]),
        ("dashbord", ["dashboard"]),
        ("notebook-0", ["notebook"]),
        ("nothing-like-it", []),
        ("", []),
        ("x" * 10_000, []),
    ],
)
def test_the_names_that_are_most_alike(wanted: str, meant: list[str]):
    assert similar(wanted, NAMES)[: len(meant) or 3] == meant


def test_of_names_equally_alike_the_one_with_more_letters_in_place_comes_first():
    fillers = [f"filler-{number:02}" for number in range(60)]
    assert similar("filler-5o", fillers)[0] in {f"filler-5{digit}" for digit in range(10)}


def test_a_name_is_not_proposed_for_itself():
    assert "dashboard" not in similar("dashboard", NAMES)


def test_the_sentence():
    assert did_you_mean([]) == ""
    assert did_you_mean(["a"]) == "Did you mean a?"
    assert did_you_mean(["a", "b"]) == "Did you mean a or b?"


def test_only_so_many_names_are_looked_at():
    names = [f"other-{number}" for number in range(MOST_NAMES)]
    assert similar("dashbord", [*names, "dashboard"]) == []
    assert similar("dashbord", ["dashboard", *names]) == ["dashboard"]


def test_pods_of_the_namespace_and_namesakes_elsewhere_are_proposed():
    runtime = Runtime(SchedulerStateMachine(PlainAlgorithm()), lambda _: None)
    runtime.handle(*(PodSeen(pod(name, namespace="team")) for name in NAMES))
    assert runtime.model.similar_pods("team", "dashbord") == ["team/dashboard"]
    assert runtime.model.similar_pods("default", "dashboard") == ["team/dashboard"]
    assert runtime.model.similar_pods("default", "dashbord") == []
