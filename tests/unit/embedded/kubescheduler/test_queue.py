"""The scheduling queue: order, back-off, what wakes whom. Seconds are virtual."""

from __future__ import annotations

import math

import pytest

from extender.embedded.kubescheduler.events import ClusterEvent
from extender.embedded.kubescheduler.queue import Place, SchedulingQueue
from tests.support.kubescheduler.objects import a_pod

EXTENDER = frozenset({"Extender"})
FIT = frozenset({"NodeResourcesFit"})
NODE = ClusterEvent.NODE_ANNOTATION


def names(queue: SchedulingQueue) -> list[str]:
    popped = []
    while (queued := queue.pop()) is not None:
        popped.append(queued.pod.key.name)
    return popped


def queue_with(*pods: tuple[str, int], now: float = 0.0) -> SchedulingQueue:
    queue = SchedulingQueue(now=0.0)
    for name, priority in pods:
        queue.add(a_pod(name, priority=priority), now)
    return queue


def test_higher_priority_goes_first_then_who_came_first():
    assert names(queue_with(("a", 0), ("b", 5), ("c", 0), ("d", 5))) == ["b", "d", "a", "c"]


def test_a_rejected_pod_rests_until_something_happens():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.rejected("uid-a", EXTENDER, 0.0)
    queue.tick(20.0)
    assert queue.pop() is None


def test_an_event_makes_a_rejected_pod_tried_at_once_although_it_backs_off():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.rejected("uid-a", EXTENDER, 0.0)
    queue.happened(NODE, 0.001)
    assert queue.count(Place.BACKOFF) == 1
    assert names(queue) == ["a"]


def test_backoff_pods_wait_while_others_are_active():
    queue = queue_with(("a", 9))
    queue.pop()
    queue.rejected("uid-a", EXTENDER, 0.0)
    queue.happened(NODE, 0.1)
    queue.add(a_pod("b"), 0.2)
    queue.tick(0.2)
    assert names(queue) == ["b", "a"]


def test_backoff_pods_whose_time_has_passed_are_active_again_with_their_old_time():
    queue = queue_with(("old", 0))
    queue.pop()
    queue.rejected("uid-old", EXTENDER, 0.0)
    queue.add(a_pod("new"), 1.0)
    queue.happened(NODE, 1.5)
    assert names(queue) == ["old", "new"]


def test_an_event_during_the_attempt_is_not_lost():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.happened(NODE, 0.1)
    queue.rejected("uid-a", EXTENDER, 0.2)
    assert names(queue) == ["a"]


def test_an_own_update_during_the_attempt_is_not_lost():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.update(a_pod("a", labels={"new": "1"}), [ClusterEvent.POD_LABEL], 0.1)
    queue.rejected("uid-a", EXTENDER, 0.2)
    queued = queue.pop()
    assert queued is not None
    assert queued.pod.pod.labels == (("new", "1"),)


@pytest.mark.parametrize(
    ("rejecters", "event", "wakes"),
    [
        *((EXTENDER, event, True) for event in ClusterEvent),
        (FIT, ClusterEvent.NODE_ADD, True),
        (FIT, ClusterEvent.ASSIGNED_POD_DELETE, True),
        (FIT, ClusterEvent.NODE_ALLOCATABLE, True),
        (FIT, ClusterEvent.NODE_LABEL, False),
        (FIT, ClusterEvent.ASSIGNED_POD_ADD, False),
        (FIT, ClusterEvent.POD_OTHER, False),
        (FIT, ClusterEvent.ASSIGNED_POD_UPDATE, False),
        (FIT, ClusterEvent.ASSIGNED_POD_SCALE_DOWN, True),
        (FIT, ClusterEvent.NODE_TAINT, True),
        (frozenset({"TaintToleration"}), ClusterEvent.NODE_TAINT, True),
        (frozenset({"TaintToleration"}), ClusterEvent.NODE_LABEL, False),
        (frozenset({"NodeAffinity"}), ClusterEvent.NODE_LABEL, True),
        (FIT | {"NodeAffinity"}, ClusterEvent.NODE_LABEL, True),
    ],
)
def test_who_is_woken_by_what(rejecters: frozenset[str], event: ClusterEvent, wakes: bool):
    queue = queue_with(("a", 0))
    queue.pop()
    queue.rejected("uid-a", rejecters, 0.0)
    queue.happened(event, 0.1)
    assert (queue.pop() is not None) is wakes


def test_errors_are_retried_after_1_2_4_8_10_10_seconds_on_whole_seconds():
    """Seen on the real one: 0, 1.7, 4.7, 9.7, 18.7, 29.7, 40.7 s."""
    queue = SchedulingQueue(now=99.4)
    queue.add(a_pod("a"), 99.7)
    now, tried = 99.7, []
    while len(tried) < 7:
        queue.tick(now)
        if queue.pop() is not None:
            tried.append(round(now - 99.7, 1))
            queue.failed("uid-a", now)
        queue.happened(NODE, now)
        now = round(queue.next_tick(), 3)
    assert tried == [0, 1.7, 4.7, 9.7, 18.7, 29.7, 40.7]


def test_a_rejection_without_a_rejecter_counts_as_an_error():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.rejected("uid-a", frozenset(), 0.0)
    assert queue.count(Place.ERROR_BACKOFF) == 1


def test_a_rejection_ends_the_series_of_errors():
    queue = queue_with(("a", 0))
    for _ in range(3):
        queue.pop()
        queue.failed("uid-a", 0.0)
        queue.tick(60.0)
    queue.pop()
    queue.rejected("uid-a", EXTENDER, 60.0)
    queue.happened(NODE, 60.5)
    assert queue.next_tick() == 61.0


def test_after_five_minutes_a_rejected_pod_is_tried_anyway():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.rejected("uid-a", EXTENDER, 1.0)
    times = []
    now = 0.0
    while not times:
        now = queue.next_tick()
        queue.tick(now)
        if queue.pop():
            times.append(now)
    assert times == [330.0]


def test_a_deleted_pod_is_gone_from_everywhere():
    for act in (
        lambda q: None,
        lambda q: q.pop(),
        lambda q: (q.pop(), q.rejected("uid-a", EXTENDER, 0.0)),
        lambda q: (q.pop(), q.failed("uid-a", 0.0)),
        lambda q: (q.pop(), q.rejected("uid-a", EXTENDER, 0.0), q.happened(NODE, 0.1)),
    ):
        queue = queue_with(("a", 0))
        act(queue)
        queue.delete("uid-a")
        queue.rejected("uid-a", EXTENDER, 1.0)
        queue.failed("uid-a", 1.0)
        queue.happened(NODE, 1.0)
        queue.tick(1000.0)
        assert queue.pop() is None
        assert len(queue) == 0


def test_a_held_pod_is_woken_only_when_it_is_released():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.hold("uid-a")
    queue.rejected("uid-a", FIT, 0.0)
    queue.happened(ClusterEvent.ASSIGNED_POD_DELETE, 0.1)
    assert queue.pop() is None
    queue.release("uid-a", 0.2)
    assert names(queue) == ["a"]


def test_a_released_pod_that_nobody_wanted_rests_on():
    queue = queue_with(("a", 0))
    queue.pop()
    queue.hold("uid-a")
    queue.rejected("uid-a", FIT, 0.0)
    queue.release("uid-a", 0.2)
    assert queue.pop() is None
    queue.activate("uid-a")
    assert names(queue) == ["a"]


def test_nothing_waits_for_time_in_an_empty_queue():
    assert math.isinf(SchedulingQueue(now=0.0).next_tick())
