"""A recording one event at a time, forth and back."""

from __future__ import annotations

import pytest

from algorithm.model import PodKey
from extender.replay.logs import Log
from extender.replay.stepping import Seen, Stepper


@pytest.fixture
def stepper(log: Log) -> Stepper:
    return Stepper(log)


def everything(stepper: Stepper) -> list[Seen]:
    seen = []
    while (each := stepper.next()) is not None:
        seen.append(each)
    return seen


def test_each_event_has_its_time_number_text_and_what_follows(stepper: Stepper):
    texts = [seen.text.splitlines() for seen in everything(stepper)]

    assert texts[0] == ["+0s  #1  node n1 seen: ready"]
    assert texts[4] == ["+1m0s  #5  filter default/a, 2 nodes offered", "    -> placed on n1"]
    assert texts[5] == ["+1m0s  #6  bind default/a to n1", "       writes the binding of default/a to n1"]
    assert texts[6] == ["+1m0.010s  #7  report: binding of default/a: done", "       bind answered: done"]
    assert texts[14][1] == "    -> refused: NodeLacksResource: node never has enough nvidia.com/gpu"
    assert texts[15][0] == "+5m0s  #16  pod default/b gone"


def test_decisions_one_after_the_other(stepper: Stepper):
    found = []
    while (seen := stepper.next_decision()) is not None:
        found.append(seen.number)
    assert found == [5, 10, 15]


def test_the_next_event_of_a_pod(stepper: Stepper):
    assert stepper.next_of(PodKey("default", "b")).number == 9  # type: ignore[union-attr]
    assert stepper.next_of(PodKey("default", "b")).number == 10  # type: ignore[union-attr]
    assert stepper.next_of(PodKey("default", "a")) is None


def test_without_such_an_event_we_stay_where_we_are(stepper: Stepper):
    assert stepper.next_decision().number == 5  # type: ignore[union-attr]
    assert stepper.next_of(PodKey("default", "nobody")) is None
    assert stepper.number == 5
    assert stepper.next().number == 6  # type: ignore[union-attr]
    assert stepper.next_decision().number == 10  # type: ignore[union-attr]


def test_a_report_concerns_the_pod_although_it_does_not_name_it(log: Log):
    stepper = Stepper(log, 6)
    assert stepper.next_of(PodKey("default", "a")).number == 7  # type: ignore[union-attr]


def test_back_is_to_the_decision_before(stepper: Stepper):
    forth = everything(stepper)

    assert stepper.back() == forth[14]
    assert stepper.back() == forth[9]
    assert stepper.back() == forth[4]
    assert stepper.back() is None
    assert stepper.number == 0


def test_what_follows_after_going_back_is_the_same(stepper: Stepper):
    forth = everything(stepper)
    stepper.back()
    stepper.back()

    assert everything(stepper) == forth[10:]
    assert stepper.stage.machine.history("uid-c")
