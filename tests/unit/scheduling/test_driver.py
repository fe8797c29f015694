"""An algorithm that raises, or answers nonsense: nothing is lost, nothing told twice, the engine goes on."""

from __future__ import annotations

import pytest

from algorithm.gauges import Gauge, Sample
from algorithm.interface import Bind, Preempt, SuggestedNodes, Victim, Wait
from algorithm.model import Node
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.commands import RecordEvent
from extender.scheduling.events import Candidate, NodeGone, NodeSeen, PodGone, PreemptRequested
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Limits
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

LIMITS = Limits()


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def test_schedule_never_comes_for_a_pod_that_could_not_be_added(engine: EngineHarness) -> None:
    engine.algorithm.add_unallocated_pod = fails
    answer = engine.filter(pod("p"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.ALGORITHM_FAILED


def fails(*_args: object) -> None:
    raise RuntimeError("always")


def test_a_pod_that_could_not_be_added_once_is_added_with_its_next_filter(engine: EngineHarness) -> None:
    p = pod("p")
    engine.algorithm.fail.add("add_unallocated_pod")
    engine.see(p)
    assert engine.filter(p, "a").node == "a"


def test_room_that_the_algorithm_failed_to_hear_of_is_told_before_the_next_decision(engine: EngineHarness) -> None:
    engine.algorithm.fail.add("add_allocated_pod")
    engine.see(pod("old", cpu=4000, on="a"))
    assert engine.filter(pod("p", cpu=4000), "a", "b").node == "b"


def test_room_whose_end_the_algorithm_failed_to_hear_of_is_freed_before_the_next_decision(
    engine: EngineHarness,
) -> None:
    engine.see(pod("old", cpu=4000, on="a"))
    engine.algorithm.fail.add("delete_allocated_pod")
    engine.handle(PodGone("default", "old", "uid-old"))
    assert engine.filter(pod("p", cpu=4000), "a").node == "a"


@pytest.mark.parametrize("call", ["delete_node", "update_node"])
def test_a_node_event_that_failed_is_told_before_the_next_decision(engine: EngineHarness, call: str) -> None:
    engine.algorithm.fail.add(call)
    if call == "delete_node":
        engine.handle(NodeGone("a"))
    engine.see(node("a", cpu=9000))
    assert engine.filter(pod("p", cpu=9000), "a").node == "a"


def test_a_preemption_that_the_algorithm_failed_to_end_is_ended_later(engine: EngineHarness) -> None:
    engine.see(pod("low", cpu=4000, on="a"))
    p = pod("p", cpu=4000, priority=5)
    engine.see(p)
    engine.preempt(p, "a")
    engine.algorithm.fail.add("delete_preempting_pod")
    engine.now += LIMITS.eviction_wait
    engine.preempt(p, "unknown")
    assert engine.state(p) == "Waiting"
    engine.filter(p, "b")
    assert not engine.algorithm.preempting


def test_a_preemption_that_the_algorithm_fails_to_hear_of_is_none(engine: EngineHarness) -> None:
    engine.see(pod("low", cpu=4000, on="a"))
    p = pod("p", cpu=4000, priority=5)
    engine.algorithm.fail.add("add_preempting_pod")
    answer = engine.preempt(p, "a")
    assert answer.error
    assert engine.state(p) == "Waiting"


def test_a_failure_of_preempt_is_shown_as_an_event_once_since_its_answer_cannot_say_it(engine: EngineHarness) -> None:
    engine.algorithm.schedule = fails
    p, shown = pod("p"), []
    for _ in range(3):
        out = engine.handle(PreemptRequested(p, (Candidate("a"),)))
        shown += [(item.reason.code, item.warning) for item in out if isinstance(item, RecordEvent)]
    assert shown == [(Code.ALGORITHM_FAILED, True)]


def test_an_algorithm_that_fails_for_good_costs_a_bounded_number_of_calls(engine: EngineHarness) -> None:
    engine.algorithm.add_allocated_pod = fails
    engine.see(*(pod(f"old{i}", on="a") for i in range(3 * LIMITS.catch_up)))
    before = engine.machine.driver.faults
    engine.filter(pod("p", cpu=99_000), "a")
    assert engine.machine.driver.faults - before == LIMITS.catch_up


def test_an_algorithm_hears_that_a_pod_is_being_deleted(engine: EngineHarness) -> None:
    engine.see(pod("p", on="a"), pod("p", on="a", terminating=True))
    assert engine.algorithm.allocated["uid-p"].terminating


NONSENSE = {
    "nothing": None,
    "a text": "a",
    "no node": Bind(None),
    "annotations that are none": Bind("a", (("k", 1),)),
    "annotations that are no pairs": Bind("a", 7),
    "no victims": Preempt(None, reason(Code.OTHER, detail="x")),
    "victims that are none": Preempt(("uid",), reason(Code.OTHER, detail="x")),
    "no reason": Wait(None),
    "a reason without its parameters": Wait(Reason(Code.INSUFFICIENT)),
    "reasons of nodes that are no mapping": Wait(reason(Code.NO_NODE_FITS), ["a"]),
    "an empty node": Bind(""),
    "a node that was not offered": Bind("b"),
    "a victim without a UID": Preempt((Victim("a", None),), reason(Code.OTHER, detail="x")),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_an_error_of_this_pod_and_no_more(engine: EngineHarness, what: str) -> None:
    engine.algorithm.schedule = lambda *_: NONSENSE[what]
    p = pod("p")
    if what.startswith("a victim"):
        assert engine.preempt(p, "a").candidates == ()
        return
    answer = engine.filter(p, "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.ALGORITHM_FAILED
    assert engine.machine.driver.faults == 1
    assert engine.state(p) == "Waiting"


@pytest.mark.parametrize("force", [False, True])
def test_a_node_that_does_not_exist_is_never_bound_to(force: bool) -> None:
    engine = EngineHarness(force_bind_unoffered=force)
    engine.see(node("a"))
    engine.algorithm.schedule = lambda *_: Bind("zzz")
    assert engine.filter(pod("p"), "a").error


@pytest.mark.parametrize("scores", [None, {"a": "x"}, {"a": float("nan")}, 7])
def test_nonsensical_scores_are_no_scores(engine: EngineHarness, scores: object) -> None:
    engine.algorithm.prioritize = lambda *_: scores
    assert engine.prioritize(pod("p"), SuggestedNodes(["a"])) == {}


def test_scores_are_whole_numbers_from_0_to_10(engine: EngineHarness) -> None:
    engine.algorithm.prioritize = lambda *_: {"a": 99, "b": -3, "c": 4.9}
    assert engine.prioritize(pod("p"), SuggestedNodes(["a"])) == {"a": 10, "b": 0, "c": 4}


@pytest.mark.parametrize("gang", [lambda _pod: "default/g", lambda _pod: True, fails])
def test_a_gang_that_is_no_gang_info_is_no_gang_and_is_counted(engine: EngineHarness, gang: object) -> None:
    engine.algorithm.gang = gang
    assert engine.filter(pod("p"), "a").node == "a"
    assert engine.machine.driver.faults == 1


def test_an_offer_of_nothing_is_never_shown_to_the_algorithm(engine: EngineHarness) -> None:
    engine.algorithm.schedule = fails
    answer = engine.filter(pod("p"))
    assert (answer.error, answer.reason and answer.reason.code) == (False, Code.NOTHING_OFFERED)


GAUGE = Gauge("slots", "Slots in use.", (Sample(1),))


def test_an_algorithm_without_gauges_shows_none(engine: EngineHarness) -> None:
    assert engine.machine.driver.metrics() == []
    assert engine.machine.driver.faults == 0


def test_a_gauge_that_is_not_sound_is_left_out_and_counted(engine: EngineHarness) -> None:
    engine.algorithm.metrics = lambda: (GAUGE, Gauge("Slots!", "Slots."))
    assert engine.machine.driver.metrics() == [GAUGE]
    assert engine.machine.driver.faults == 1
    assert "Slots!" in engine.machine.driver.last_fault


@pytest.mark.parametrize("metrics", [fails, lambda: None, lambda: 7])
def test_an_algorithm_that_fails_to_count_is_no_reason_to_fail(engine: EngineHarness, metrics: object) -> None:
    engine.algorithm.metrics = metrics
    assert engine.machine.driver.metrics() == []
    assert engine.machine.driver.faults == 1


# -- the time ---------------------------------------------------------------------------------------------------------


class Clocked(PlainAlgorithm):
    """Remembers what time it was at each node's coming."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.came: dict[str, float] = {}

    def set_time(self, now: float) -> None:
        self.time = now

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.came[node.name] = self.time


def test_the_time_is_said_before_each_change() -> None:
    algorithm = Clocked()
    machine = SchedulerStateMachine(algorithm, epoch=1_000.0)
    for now, name in ((5.0, "a"), (7.5, "b")):
        machine.handle(NodeSeen(node(name)), now)
    assert algorithm.came == {"a": 1_005.0, "b": 1_007.5}


def test_a_time_that_is_not_known_is_not_said() -> None:
    algorithm = Clocked()
    SchedulerStateMachine(algorithm).handle(NodeSeen(node("a")), 5.0)
    assert algorithm.came == {"a": 0.0}


def test_an_algorithm_that_fails_at_the_time_has_not_been_told() -> None:
    algorithm = Clocked()
    machine = SchedulerStateMachine(algorithm, epoch=1_000.0)
    algorithm.set_time = fails  # type: ignore[method-assign]
    machine.handle(NodeSeen(node("a")), 5.0)
    assert machine.driver.pending_count == 1
    assert algorithm.came == {}
