"""PodDisruptionBudgets: whom they protect, and in which order preemption lets pods stay."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from algorithm.decoding import DecodeError
from extender.embedded.kubescheduler.budgets import Budget, decode_budget, violating
from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.cycle import Rejected, SchedulingCycle
from extender.embedded.kubescheduler.preemption import Preempted, Preemption
from tests.support.kubescheduler.objects import a_node, a_pod

WEB = {"app": "web"}


def a_budget(allowed: int = 0, disrupted: tuple[str, ...] = (), **selector: Any) -> Budget:
    manifest = {
        "metadata": {"name": "b", "namespace": "default", "uid": "1", "resourceVersion": "2"},
        "spec": {"selector": selector or None},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")},
    }
    return decode_budget(json.dumps(manifest).encode())


def test_a_budget_says_how_many_healthy_pods_it_lacks() -> None:
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 3}
    body = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {}}, "status": status}
    found = decode_budget(json.dumps(body).encode())
    assert (found.lacking, found.covers_all) == (2, True)
    status |= {"currentHealthy": 4, "disruptionsAllowed": 1}
    assert decode_budget(json.dumps(body).encode()).lacking == 0


@pytest.mark.parametrize("selector", [None, {}])
def test_an_empty_selector_covers_everything_at_eviction_and_nothing_at_preemption(selector: Any) -> None:
    body = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": selector}}
    budget, pod = decode_budget(json.dumps(body).encode()), a_pod("p")
    assert (budget.covers(pod), budget.protects(pod)) == (selector is not None, False)


@pytest.mark.parametrize(
    ("budget", "protects"),
    [
        (a_budget(matchLabels=WEB), True),
        (a_budget(matchLabels={"app": "db"}), False),
        (a_budget(matchExpressions=[{"key": "app", "operator": "Exists"}]), True),
        (a_budget(matchExpressions=[{"key": "app", "operator": "NotIn", "values": ["web"]}]), False),
        (a_budget(matchLabels=WEB, disrupted=("p",)), False),
        (a_budget(), False),
        (Budget(namespace="other", name="b", selector=a_budget(matchLabels=WEB).selector), False),
    ],
)
def test_whom_a_budget_protects(budget: Budget, protects: bool):
    assert budget.protects(a_pod("p", labels=WEB)) is protects
    assert not budget.protects(a_pod("p"))


def test_what_a_budget_allows_is_used_up_by_those_who_come_first():
    pods = [a_pod(name, labels=WEB) for name in ("p", "q", "r")]
    assert violating(pods, [a_budget(2, matchLabels=WEB)]) == {"uid-r"}


def test_a_budget_that_cannot_be_read_is_an_error():
    with pytest.raises(DecodeError):
        decode_budget(b'{"metadata": {"name": 5}}')


def test_protected_pods_are_the_first_to_be_let_stay():
    cluster = Cluster()
    cluster.set_node(a_node("a", cpu="4"))
    for name, priority, labels in (("protected", 1, WEB), ("important", 5, {}), ("small", 1, {})):
        cluster.set_bound(a_pod(name, node="a", cpu="1", priority=priority, labels=labels))
    pod, config = a_pod("hi", cpu="3", priority=10), SchedulerConfig()
    found = SchedulingCycle(config, cluster, (), random=Random(1)).schedule(pod)
    assert isinstance(found, Rejected)
    budgets = {"b": a_budget(matchLabels=WEB)}
    result = Preemption(config, cluster, (), random=Random(1), budgets=budgets).post_filter(pod, found.diagnosis)
    assert isinstance(result, Preempted)
    assert [victim.key.name for victim in result.victims] == ["important", "small"]
