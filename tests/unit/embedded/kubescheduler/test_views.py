"""What the cycle remembers between attempts changes no decision: it is held against a cycle without any memory."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.embedded.kubescheduler import cluster as cluster_module
from extender.embedded.kubescheduler import cycle, preemption
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.config import ManagedResource, SchedulerConfig
from extender.embedded.kubescheduler.extenders import FilterResult
from extender.embedded.kubescheduler.model import Requirement, SchedNode, SchedPod
from tests.support.kubescheduler.objects import ScriptedExtender, a_node, a_pod
from tests.support.kubescheduler.plain import PlainCycle, PlainPreemption

GPU = "example.com/gpu"
ZONES = ("a", "b")
PRIORITIES = (0, 0, 5, 10)


class Twins:
    """One cluster that changes at random, with two cycles that must agree on everything."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.numbers = count()
        self.cluster = Cluster()
        self.budgets: dict[str, Budget] = {}
        extenders = self.extenders(seed)
        config = SchedulerConfig(
            extenders=[each.config for each in extenders],
            percentage_of_nodes_to_score=self.random.choice((0, 40, 100)),
        )
        self.cycle = cycle.SchedulingCycle(config, self.cluster, extenders, random=Random(seed))
        self.plain = PlainCycle(config, self.cluster, extenders, Random(seed))
        self.preemption = preemption.Preemption(
            config, self.cluster, extenders, random=Random(seed), budgets=self.budgets
        )
        self.plain_preemption = PlainPreemption(
            config, self.cluster, extenders, random=Random(seed), budgets=self.budgets
        )
        self.waiting: dict[str, SchedPod] = {}
        for _ in range(self.random.randrange(1, 14)):
            self.set_node()

    def extenders(self, seed: int) -> list[ScriptedExtender]:
        """None, one for all pods, or one for those that want a GPU; it refuses by name, so it answers twice alike."""
        if seed % 3 == 0:
            return []
        managed = (ManagedResource(name=GPU, ignored_by_scheduler=seed % 2 == 0),) if seed % 3 == 1 else ()
        verbs = {"filter_verb": "filter", "preempt_verb": "preempt"}
        if seed % 5 == 0:
            verbs["prioritize_verb"] = "prioritize"
        found = ScriptedExtender(**verbs, weight=1, managed_resources=managed)
        found.on_filter = _answer
        found.on_prioritize = lambda names: [(name, len(name) % 3) for name in names]
        return [found]

    # -- what happens -------------------------------------------------------------------------------------

    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(14)]

    def set_node(self) -> None:
        self.cluster.set_node(self.a_node(self.random.choice(self.node_names())))

    def a_node(self, name: str) -> SchedNode:
        taints = [{"key": "t", "effect": "NoSchedule"}] if self.random.random() < 0.2 else []
        return a_node(
            name,
            cpu=self.random.choice("246"),
            pods=self.random.choice(("3", "110")),
            more={GPU: self.random.choice("024")},
            labels={"zone": self.random.choice(ZONES)},
            spec={"unschedulable": self.random.random() < 0.15, "taints": taints},
        )

    def remove_node(self) -> None:
        self.cluster.remove_node(self.random.choice(self.node_names()))

    def a_pod(self, node: str = "", nominated: str = "") -> SchedPod:
        some = self.random
        spec: dict[str, object] = {}
        if some.random() < 0.3:
            spec["nodeSelector"] = {"zone": some.choice(ZONES)}
        if some.random() < 0.3:
            spec["tolerations"] = [{"operator": "Exists"}]
        if some.random() < 0.1:
            spec["affinity"] = _only(some.sample(self.node_names(), 3))
        if some.random() < 0.2:
            port = {"containerPort": 1, "hostPort": some.choice((80, 81))}
            resources = {"requests": {"cpu": "1"}}
            spec["containers"] = [{"name": "c", "ports": [port], "resources": resources}]
        gpus = {GPU: some.choice("12")} if some.random() < 0.6 else {}
        return a_pod(
            f"p{next(self.numbers)}",
            cpu=some.choice(("1", "2", "5")),
            priority=some.choice(PRIORITIES),
            node=node,
            requests=gpus,
            labels={"app": some.choice("xy")},
            spec=spec,
            status={"nominatedNodeName": nominated} if nominated else {},
        )

    def bind(self) -> None:
        self.cluster.set_bound(self.a_pod(node=self.random.choice(self.node_names())))

    def remove_pod(self) -> None:
        placed = [uid for info in self.cluster.nodes() for uid in info.pods]
        if placed:
            self.cluster.remove_pod(self.random.choice(placed))

    def nominate(self) -> None:
        pod = self.a_pod(nominated=self.random.choice(self.node_names()))
        self.waiting[pod.uid] = pod
        self.cluster.nominate(pod, pod.pod.nominated_node_name)

    def end_nomination(self) -> None:
        if self.waiting:
            uid = self.random.choice(sorted(self.waiting))
            del self.waiting[uid]
            self.cluster.end_nomination(uid)

    def set_budget(self) -> None:
        selector = (Requirement("app", "In", (self.random.choice("xy"),)),)
        budget = Budget(namespace="default", name="b", selector=selector, allowed=self.random.randrange(3))
        self.budgets[budget.key] = budget

    def step(self) -> None:
        happens = (self.set_node, self.remove_node, self.nominate, self.end_nomination, self.set_budget)
        happens += (self.bind, self.bind, self.remove_pod)
        if self.random.random() < 0.6:
            self.random.choice(happens)()
        pods = list(self.waiting.values())
        self.attempt(self.random.choice(pods) if pods and self.random.random() < 0.4 else self.a_pod())

    # -- an attempt ---------------------------------------------------------------------------------------

    def attempt(self, pod: SchedPod) -> None:
        if not self.cluster.nodes():
            return
        expected, found = self.plain.schedule(pod), self.cycle.schedule(pod)
        if isinstance(found, cycle.Chosen):
            assert expected == found.node
            self.cluster.end_nomination(pod.uid)
            self.waiting.pop(pod.uid, None)
            self.cluster.assume(pod, found.node)
            return
        assert not isinstance(expected, str), (expected, found.diagnosis.text())
        self.agree(found.diagnosis.text(), expected.text())
        self.agree(found.diagnosis.rejecters, expected.rejecters)
        wanted = self.plain_preemption.decide(pod, expected)
        got = self.preemption.post_filter(pod, found.diagnosis)
        self.agree(got, wanted)
        self.agree(dict(found.diagnosis.refusals), expected.refusals)
        if isinstance(got, preemption.Preempted):
            self.preempted(pod, got)

    def agree(self, found: object, expected: object) -> None:
        assert found == expected

    def preempted(self, pod: SchedPod, done: preemption.Preempted) -> None:
        self.cluster.nominate(pod, done.node)
        self.waiting[pod.uid] = pod
        for victim in done.victims:
            self.cluster.remove_pod(victim.uid)


def _answer(pod: SchedPod, names: list[str]) -> FilterResult:
    """By the pod's and the nodes' names: some pods get one node, some none, some most."""
    number = int(pod.key.name[1:])
    if number % 4 == 0:
        return FilterResult((), failed=dict.fromkeys(names, "gang is incomplete"))
    left = tuple(name for name in names if (int(name[1:]) + number) % (3 if number % 2 else 5))
    failed = {name: f"busy {len(name)}" for name in names if name not in left}
    if number % 7 == 0:
        return FilterResult((), failed={**failed, "n0": "never offered"}, failed_and_unresolvable={"n1": "dead"})
    return FilterResult(left, failed=failed)


def _only(names: list[str]) -> dict[str, object]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples, candidates and the log of changes end early, so that small clusters show what happens then."""
    monkeypatch.setattr(cycle, "MIN_FEASIBLE_NODES", 4)
    monkeypatch.setattr(preemption, "_MIN_CANDIDATES", 3)
    monkeypatch.setattr(cluster_module, "_REMEMBERED_CHANGES", 6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_cycle_that_remembers_decides_as_one_that_does_not(seed: int) -> None:
    twins = Twins(seed)
    for _ in range(40):
        twins.step()


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_cycle_that_remembers_decides_as_one_that_does_not_in_many_worlds(seed: int) -> None:
    twins = Twins(seed)
    for _ in range(80):
        twins.step()
