"""How many replicas a pool's workload should have: one rule after the other, and a simulated workload."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.claims.autoscaler import (
    Buffer,
    ScaleMemory,
    ScalePolicy,
    ScaleReason,
    ScaleSnapshot,
    buffer,
    coming,
    decide,
    left_over,
    unmet,
)
from extender.claims.writes import names, surplus
from extender.core import scale
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import json_patch

NEW = ScaleMemory()


def policy(**changes: Any) -> ScalePolicy:
    return ScalePolicy(**{"most": 100, **changes})


def seen(*, detaches: bool = False, **changes: Any) -> ScaleSnapshot:
    return ScaleSnapshot(**{"detaches": detaches, "version": "1", "desired": 0, **changes})


def replicas(snapshot: ScaleSnapshot, now: float = 0.0, memory: ScaleMemory = NEW, **rules: Any) -> int:
    return decide(policy(**rules), snapshot, memory, now).replicas


@pytest.mark.parametrize("detaches", [True, False])
def test_c49_what_is_coming_is_not_ordered_again(detaches: bool) -> None:
    five = seen(detaches=detaches, desired=5, queued=5)
    assert [replicas(five, buffer=each) for each in Buffer] == [5, 5, 5, 5]
    assert replicas(replace(five, queued=6), buffer=Buffer.NONE) == 6


def test_what_requests_lack_is_ordered_whole_and_the_buffer_with_it() -> None:
    assert replicas(seen(queued=20)) == 20 + 1  # the buffer at most doubles what there is
    assert replicas(seen(desired=20, claimed=20, queued=20)) == 40 + 10
    assert replicas(seen(desired=20, claimed=20, queued=20), buffer=Buffer.HALF) == 40 + 20
    assert replicas(seen(desired=20, claimed=20, queued=20), buffer=Buffer.ONE) == 40 + 1


def test_a_pool_that_detaches_does_not_count_claimed_pods_as_replicas() -> None:
    snapshot = seen(detaches=True, desired=10, idle=4, claimed=30)
    assert (coming(snapshot), unmet(snapshot)) == (6, 0)
    assert replicas(replace(snapshot, queued=12), buffer=Buffer.NONE) == 12


def test_nothing_above_the_maximum() -> None:
    decision = decide(policy(most=7), seen(queued=20), NEW, 0.0)
    assert (decision.replicas, decision.reason) == (7, ScaleReason.AT_MAXIMUM)
    assert replicas(seen(desired=9, idle=9), most=7) == 7
    assert replicas(seen(desired=9, claimed=9), most=7) == 9


def test_from_zero_and_to_zero() -> None:
    assert replicas(seen()) == 0
    assert replicas(seen(queued=1), buffer=Buffer.NONE) == 1
    assert replicas(seen(desired=1, idle=1, idle_for_long=1), buffer=Buffer.ONE, now=1e4) == 0
    assert replicas(seen(desired=1, idle=1, idle_for_long=1, last_asked=1e4 - 10), buffer=Buffer.ONE, now=1e4) == 1


def test_the_least_is_kept_and_ordered() -> None:
    assert replicas(seen(), least=3) == 3
    assert replicas(seen(desired=4, idle=4, idle_for_long=4), least=3) == 3
    assert replicas(seen(desired=3, idle=3, idle_for_long=3), least=3) == 3


def test_the_buffer_is_filled_if_no_pod_was_idle_for_a_while_and_claims_came_lately() -> None:
    empty = seen(desired=8, claimed=8, empty_since=90.0, last_asked=80.0)
    assert replicas(empty, now=100.0) == 10
    assert replicas(empty, now=94.0) == 8
    assert replicas(replace(empty, last_asked=None), now=100.0) == 8
    assert replicas(empty, now=100.0, memory=ScaleMemory(changed_at=95.0)) == 8


def test_only_pods_that_were_idle_for_long_go_by_halves_and_while_nobody_waits() -> None:
    idle = seen(desired=16, idle=16)
    assert replicas(idle) == 16
    assert replicas(replace(idle, idle_for_long=4)) == 14
    assert replicas(replace(idle, idle_for_long=16)) == 8
    assert replicas(replace(idle, idle_for_long=16, queued=1)) == 16
    assert replicas(replace(idle, idle_for_long=16), memory=ScaleMemory(changed_at=-5.0)) == 16


@pytest.mark.parametrize("detaches", [True, False])
def test_no_fewer_than_are_claimed_where_claimed_pods_are_replicas(detaches: bool) -> None:
    snapshot = seen(detaches=detaches, desired=9, claimed=8, idle=1, idle_for_long=1)
    assert replicas(snapshot, buffer=Buffer.NONE) == 8


def test_two_looks_at_the_same_stale_cache_shrink_once() -> None:
    idle = seen(desired=16, idle=16, idle_for_long=16)
    first = decide(policy(cooldown=0.0), idle, NEW, 0.0)
    second = decide(policy(cooldown=0.0), idle, first.memory, 1.0)
    assert (first.replicas, second.replicas, second.reason) == (8, 16, ScaleReason.DECIDED)
    assert decide(policy(cooldown=0.0), replace(idle, version="2", desired=8), first.memory, 1.0).replicas < 16
    # The write was lost: another one is decided, and the version is its precondition.
    assert decide(policy(cooldown=0.0), idle, first.memory, 60.0).replicas == 8


def test_a_full_cluster_gets_no_orders_for_a_while_and_what_does_not_fit_goes_first() -> None:
    full = seen(desired=10, claimed=4, queued=8, unschedulable=6)
    decision = decide(policy(), full, NEW, 0.0)
    assert (decision.replicas, decision.reason) == (10, ScaleReason.CLUSTER_FULL)
    assert replicas(full, now=59.0, memory=decision.memory) == 10
    later = replace(full, unschedulable=0)
    assert replicas(later, now=60.0, memory=decision.memory) > 10
    assert replicas(seen(desired=10, claimed=4, unschedulable=6)) < 10


def test_at_most_so_many_new_pods_in_so_many_seconds() -> None:
    rules = {"refill_pods": 10, "refill_seconds": 60.0, "buffer": Buffer.NONE}
    first = decide(policy(**rules), seen(queued=25), NEW, 0.0)
    assert (first.replicas, first.reason) == (10, ScaleReason.REFILL_LIMIT)
    after = seen(version="2", desired=10, queued=25)
    assert decide(policy(**rules), after, first.memory, 59.0).replicas == 10
    assert decide(policy(**rules), after, first.memory, 61.0).replicas == 20


def test_c47_marks_that_no_scale_down_needs_are_cleared() -> None:
    shrinks = seen(desired=16, idle=16, idle_for_long=16)
    rest = seen(desired=16, idle=16)
    assert not left_over(3, shrinks, decide(policy(), shrinks, NEW, 0.0))
    assert left_over(3, rest, decide(policy(), rest, NEW, 0.0))
    assert not left_over(0, rest, decide(policy(), rest, NEW, 0.0))


def test_a_workload_is_scaled_only_from_the_version_that_was_decided_on() -> None:
    request = scale.request(
        scale.ScaleWorkload(token=1, namespace="default", name="warm", replicas=3, resource_version="77")
    )
    assert request.path == "/apis/apps/v1/namespaces/default/deployments/warm/scale"
    assert json.loads(request.body or b"") == {"metadata": {"resourceVersion": "77"}, "spec": {"replicas": 3}}


@pytest.mark.parametrize("annotations", [None, {"mine": "1"}])
def test_c46_only_a_pod_that_is_in_no_claim_is_marked_and_the_mark_can_be_cleared(
    annotations: dict[str, str] | None,
) -> None:
    pod: dict[str, Any] = {"metadata": {"uid": "u", "labels": {"pool": "warm"}, "annotations": annotations}}
    if annotations is None:
        del pod["metadata"]["annotations"]
    mark = surplus.MarkSurplus(token=1, namespace="default", name="a", uid="u", has_annotations=annotations is not None)
    marked = json_patch(pod, json.loads(surplus.request(mark).body or b""))
    assert names.SURPLUS_ANNOTATION in marked["metadata"]["annotations"]
    assert int(marked["metadata"]["annotations"][surplus.DELETION_COST]) < 0
    cleared = json_patch(marked, json.loads(surplus.request(replace(mark, clear=True)).body or b""))
    assert cleared["metadata"]["annotations"] == (annotations or {})
    marked["metadata"]["labels"][names.CLAIM_LABEL] = "c"
    with pytest.raises(ApiError):
        json_patch(marked, json.loads(surplus.request(mark).body or b""))


# -- a workload that does what it is told, late ---------------------------------------------------------------------


@dataclass
class Workload:
    """Pods start `start` seconds after they are ordered; `room` of them fit into the cluster."""

    rules: ScalePolicy
    detaches: bool
    start: int
    room: int
    desired: int = 0
    version: int = 1
    starting: list[int] = field(default_factory=list)
    idle_since: list[int] = field(default_factory=list)
    claimed: int = 0
    queued: int = 0
    memory: ScaleMemory = NEW
    last_asked: float | None = None
    empty_since: float | None = 0.0
    changes: list[int] = field(default_factory=list)

    def step(self, now: int, asked: int, released: int) -> None:
        if asked:
            self.last_asked = now
        self.queued += asked
        gone = min(released, self.claimed)
        self.claimed -= gone
        if not self.detaches:
            self.idle_since += [now] * gone
        self._reconcile(now)
        self._start(now)
        served = min(self.queued, len(self.idle_since))
        del self.idle_since[:served]
        self.queued -= served
        self.claimed += served
        self._reconcile(now)
        self.empty_since = None if self.idle_since else now if self.empty_since is None else self.empty_since

    def _existing(self) -> int:
        return len(self.starting) + len(self.idle_since) + (0 if self.detaches else self.claimed)

    def _reconcile(self, now: int) -> None:
        missing = self.desired - self._existing()
        self.starting += [now] * max(0, missing)
        for pods in (self.starting, self.idle_since):
            while self._existing() > self.desired and pods:
                pods.pop()

    def _start(self, now: int) -> None:
        for since in list(self.starting):
            if since + self.start <= now and len(self.idle_since) + self.claimed < self.room:
                self.starting.remove(since)
                self.idle_since.append(now)

    def snapshot(self, now: int) -> ScaleSnapshot:
        return ScaleSnapshot(
            detaches=self.detaches,
            version=str(self.version),
            desired=self.desired,
            claimed=self.claimed,
            queued=self.queued,
            idle=len(self.idle_since),
            idle_for_long=sum(now - since >= self.rules.idle_seconds for since in self.idle_since),
            unschedulable=sum(since + self.start <= now for since in self.starting),
            empty_since=self.empty_since,
            last_asked=self.last_asked,
        )

    def scale(self, snapshot: ScaleSnapshot, now: int) -> None:
        decision = decide(self.rules, snapshot, self.memory, now)
        self.memory = decision.memory
        change = decision.replicas - snapshot.desired
        if change > 0:
            allowed = max(unmet(snapshot) + buffer(self.rules, snapshot, now), self.rules.least - snapshot.desired)
            assert change <= allowed, f"{change} for {snapshot}"
            assert decision.replicas <= self.rules.most
        if change < 0:
            assert not snapshot.queued
            assert decision.replicas >= self.rules.least
            assert self.detaches or decision.replicas >= snapshot.claimed
        if change and snapshot.version == str(self.version):  # the precondition of the write
            self.desired, self.version = decision.replicas, self.version + 1
            self.changes.append(change)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(list(Buffer)),
    detaches=st.booleans(),
    start=st.integers(0, 40),
    room=st.sampled_from([5, 1000]),
    least=st.integers(0, 4),
    refill=st.sampled_from([0, 5]),
    load=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=60),
    lag=st.integers(0, 5),
)
def test_it_orders_no_more_than_is_lacking_and_comes_to_rest(
    kind: Buffer,
    detaches: bool,
    start: int,
    room: int,
    least: int,
    refill: int,
    load: list[tuple[int, int]],
    lag: int,
) -> None:
    rules = policy(buffer=kind, least=least, idle_seconds=30.0, quiet_seconds=60.0, refill_pods=refill)
    workload = Workload(rules, detaches, start, room)
    snapshots = []
    for now in range(1500):
        workload.step(now, *(load[now] if now < len(load) else (0, 0)))
        snapshots.append(workload.snapshot(now))
        workload.scale(snapshots[max(0, now - lag)], now)
        if now == 1200:
            workload.changes.clear()
    assert workload.changes == [], "it never comes to rest"
    if room == 1000:
        assert workload.queued == 0 or workload.desired == rules.most, "capacity that was lacking was not ordered"
        spare = len(workload.idle_since)
        assert spare <= max(least, buffer(rules, snapshots[-1], 1500.0)) + math.ceil(lag)
