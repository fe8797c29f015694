"""Who preempted whom: what the log keeps, and how much of it."""

from __future__ import annotations

from algorithm.interface import Victim
from algorithm.model import Pod
from extender.scheduling.driver import AlgorithmDriver
from extender.scheduling.state.preemption_log import MOST, SHOWN, Outcome, PreemptionLog
from tests.support.engine.plain_algorithm import PlainAlgorithm


def pod(name: str, priority: int = 0) -> Pod:
    return Pod(namespace="ns", name=name, uid=f"uid-{name}", priority=priority)


def preempt(log: PreemptionLog, preemptor: str, *victims: str, now: float = 1.0) -> None:
    named = [Victim("node", f"uid-{name}") for name in victims]
    log.preempting(pod(preemptor, 9), named, [pod(name, 3) for name in victims], now)


def test_a_victim_that_is_gone_is_marked_for_each_of_its_preemptors() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    preempt(log, "a", "x", "y")
    preempt(log, "b", "x")

    log.victim_gone("uid-x")
    log.victim_gone("uid-unknown")

    first, second = log.records()
    assert [(str(each.key), each.priority, each.gone) for each in first.victims] == [
        ("ns/x", 3, True),
        ("ns/y", 3, False),
    ]
    assert [each.gone for each in second.victims] == [True]


def test_a_plan_that_changes_is_the_same_preemption() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    preempt(log, "a", "x", now=1.0)
    preempt(log, "a", "x", "y", now=5.0)
    preempt(log, "a", now=6.0)  # it waits for what it named

    [record] = log.records()
    assert (record.at, record.number, record.outcome) == (1.0, 2, Outcome.UNDER_WAY)


def test_what_became_of_it_is_kept_and_the_next_preemption_is_another_one() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    preempt(log, "a", "x")
    log.ended("uid-a", Outcome.GIVEN_UP)
    log.ended("uid-a", Outcome.GONE)
    assert [record.outcome for record in log.records()] == [Outcome.GIVEN_UP]

    preempt(log, "a", "y", now=9.0)

    [record] = log.records()
    assert ([each.uid for each in record.victims], record.at, record.outcome) == (["uid-y"], 9.0, Outcome.UNDER_WAY)


def test_a_pod_without_victims_has_no_record() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    preempt(log, "a")
    log.ended("uid-a", Outcome.PLACED)
    assert log.records() == []


def test_an_unknown_victim_has_no_name() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    log.preempting(pod("a"), [Victim("node", "u")], [None], 1.0)
    assert log.records()[0].victims[0].key == ("", "")


def test_it_is_bounded() -> None:
    log = PreemptionLog(AlgorithmDriver(PlainAlgorithm()))
    for number in range(3 * MOST):
        preempt(log, f"a{number}", *(f"v{number}-{victim}" for victim in range(2 * SHOWN)))

    records = log.records()
    assert len(records) == len(log) == MOST
    assert records[-1].pod.name == f"a{3 * MOST - 1}"  # the oldest went
    assert {len(record.victims) for record in records} == {SHOWN}
    assert {record.number for record in records} == {2 * SHOWN}
    assert len(log._preemptors) == MOST * SHOWN
