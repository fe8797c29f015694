"""The queue against a naive oracle: no pod is lost, none is there twice, and the next one is always the right one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.embedded.kubescheduler.events import ClusterEvent, interested
from extender.embedded.kubescheduler.queue import Place, SchedulingQueue
from tests.support.kubescheduler.objects import a_pod

REJECTERS = st.sampled_from([frozenset({"Extender"}), frozenset({"NodeResourcesFit"}), frozenset({"NodeAffinity"})])
EVENTS = st.sampled_from([ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL, ClusterEvent.NODE_ANNOTATION])


@dataclass
class Oracle:
    """One pod as the rules describe it, with no data structure at all."""

    name: str
    priority: int
    order: int
    since: float
    where: Place = Place.ACTIVE
    rejections: int = 0
    errors: int = 0
    rejecters: frozenset[str] = frozenset()
    missed: tuple[ClusterEvent, ...] = ()

    def over(self) -> float:
        tries = self.errors or self.rejections
        return self.since + (min(2 ** (tries - 1), 10) if tries else 0)

    def wake(self, now: float) -> None:
        self.where = Place.BACKOFF if self.over() > now else Place.ACTIVE


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queue = SchedulingQueue(now=0.0)
        self.pods: dict[str, Oracle] = {}
        self.added = 0
        self.next_error_look = 1.0
        self.next_old_look = 30.0
        for index, name in enumerate("abcd"):
            self.add(name, index % 2)

    def in_flight(self) -> list[Oracle]:
        return [pod for pod in self.pods.values() if pod.where is Place.IN_FLIGHT]

    @rule(name=st.sampled_from("abcdef"), priority=st.integers(0, 2))
    def add(self, name: str, priority: int) -> None:
        if name not in self.pods:
            self.added += 1
            self.pods[name] = Oracle(name, priority, self.added, self.now)
            self.queue.add(a_pod(name, priority=priority), self.now)

    @rule(name=st.sampled_from("abcdefghijklmnopqrst"))
    def delete(self, name: str) -> None:
        """Most names exist in no queue: deletions shall not empty it."""
        self.pods.pop(name, None)
        self.queue.delete(f"uid-{name}")

    @rule()
    def pop(self) -> None:
        active = [pod for pod in self.pods.values() if pod.where is Place.ACTIVE]
        backing_off = [pod for pod in self.pods.values() if pod.where is Place.BACKOFF]
        active.sort(key=lambda pod: (-pod.priority, pod.since, pod.order))
        backing_off.sort(key=lambda pod: (math.floor(pod.over()), -pod.priority, pod.since, pod.order))
        expected = next(iter(active + backing_off), None)
        popped = self.queue.pop()
        assert (popped and popped.pod.key.name) == (expected and expected.name)
        if expected is not None:
            expected.where, expected.missed = Place.IN_FLIGHT, ()

    @rule(during=st.lists(EVENTS, max_size=2), rejecters=REJECTERS)
    def try_in_vain(self, during: list[ClusterEvent], rejecters: frozenset[str]) -> None:
        self.pop()
        for event in during:
            self.happen(event)
        if self.in_flight():
            self.reject(self.in_flight()[-1], rejecters)

    @rule()
    def try_with_an_error(self) -> None:
        self.pop()
        if self.in_flight():
            self.fail(self.in_flight()[-1])

    def reject(self, pod: Oracle, rejecters: frozenset[str]) -> None:
        pod.rejections, pod.errors, pod.rejecters, pod.since = pod.rejections + 1, 0, rejecters, self.now
        pod.where = Place.UNSCHEDULABLE
        if any(interested(event, rejecters) for event in pod.missed):
            pod.wake(self.now)
        self.queue.rejected(f"uid-{pod.name}", rejecters, self.now)

    def fail(self, pod: Oracle) -> None:
        pod.errors, pod.since, pod.where = pod.errors + 1, self.now, Place.ERROR_BACKOFF
        self.queue.failed(f"uid-{pod.name}", self.now)

    @rule(event=EVENTS)
    def happen(self, event: ClusterEvent) -> None:
        self.queue.happened(event, self.now)
        for pod in self.pods.values():
            if pod.where is Place.IN_FLIGHT:
                pod.missed += (event,)
            elif pod.where is Place.UNSCHEDULABLE and interested(event, pod.rejecters):
                pod.wake(self.now)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.3, 40.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)
        for pod in self.pods.values():
            if pod.where is Place.BACKOFF and pod.over() <= self.now:
                pod.where = Place.ACTIVE
        if self.now >= self.next_error_look:
            while self.next_error_look <= self.now:
                self.next_error_look += 1.0
            for pod in self.pods.values():
                if pod.where is Place.ERROR_BACKOFF and pod.over() <= math.floor(self.now):
                    pod.where = Place.ACTIVE
        if self.now >= self.next_old_look:
            while self.next_old_look <= self.now:
                self.next_old_look += 30.0
            for pod in self.pods.values():
                if pod.where is Place.UNSCHEDULABLE and self.now - pod.since > 300:
                    pod.wake(self.now)

    @invariant()
    def every_pod_is_where_the_rules_say(self) -> None:
        found = {name: self.queue.get(f"uid-{name}") for name in "abcdef"}
        there = {name: queued.place for name, queued in found.items() if queued is not None}
        assert there == {name: pod.where for name, pod in self.pods.items()}
        assert sum(self.queue.count(place) for place in Place) == len(self.queue) == len(self.pods)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True, deadline=None)
