"""The whole heart against a naive cluster: random requests, writes that fail in every way, events late or missed.

The oracle is a dictionary of pods, as an API server would have it, that applies a binding only if it may be applied.
What it must never see: two places for a pod, a place that filter never named, a node with more than it has. What must
be true once everything has been delivered: the heart knows exactly what the cluster is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from algorithm.interface import SuggestedNodes
from algorithm.model import CPU, Pod
from extender.core.entry import State
from extender.core.events import (
    BindAnswer,
    BindFinished,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    Nudge,
    Outcome,
    OutcomeKind,
    PodGone,
    PodRead,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    ReadPod,
    Synced,
    Ticked,
    WriteBinding,
)
from extender.core.lifecycle import Lifecycle
from extender.core.policy import Policy
from tests.support.objects import node
from tests.support.plain_algorithm import PlainAlgorithm

NODES = ("n0", "n1", "n2")
NAMES = ("a", "b", "c", "d", "e")
CAPACITY = 4000
POLICY = Policy(lease=10, verify=2, write_timeout=8, force_bind_after=3)


@dataclass
class Cluster:
    """What the API server knows: pods by name, a version, and the events that the informer has yet to get."""

    version: int = 0
    births: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    queue: list[Event] = field(default_factory=list)

    def put(self, pod: Pod) -> Pod:
        self.version += 1
        pod = msgspec.structs.replace(pod, resource_version=str(self.version))
        self.pods[pod.name] = pod
        self.queue.append(PodSeen(pod))
        return pod

    def create(self, name: str, cpu: int, priority: int) -> None:
        self.births += 1
        uid = f"{name}-{self.births}"
        self.put(Pod(namespace="default", name=name, uid=uid, priority=priority, requests=((CPU, cpu),)))

    def delete(self, name: str) -> None:
        self.version += 1
        pod = self.pods.pop(name)
        self.queue.append(PodGone(pod.namespace, pod.name, pod.uid))

    def bind(self, write: WriteBinding) -> Outcome:
        pod = self.pods.get(write.name)
        if pod is None:
            return Outcome(OutcomeKind.GONE)
        if pod.uid != write.uid:
            return Outcome(OutcomeKind.STALE)
        if pod.node_name or pod.terminating:
            return Outcome(OutcomeKind.LOST, "already assigned or terminating")
        self.put(msgspec.structs.replace(pod.placed(write.node, write.annotations), phase="Running"))
        return Outcome(OutcomeKind.DONE)

    def used(self, name: str) -> int:
        return sum(dict(p.requests)[CPU] for p in self.pods.values() if p.node_name == name and not p.finished)


class HeartMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.now = 0.0
        self.requests = 0
        self.proposed: set[tuple[str, str]] = set()
        self.open_binds: set[int] = set()
        self.work: list[Instruction] = []
        self.delivered: list[Event] = []
        self.store: dict[str, Pod] = {}
        self.missed = False
        self.log: list[tuple[Event, float, list[Instruction]]] = []

    @initialize()
    def begin(self) -> None:
        self._boot()

    def _boot(self) -> None:
        """A fresh process: nodes, then bound pods, then the rest, then ready."""
        self.algorithm = PlainAlgorithm()
        self.heart = Lifecycle(self.algorithm, POLICY)
        self.work, self.delivered, self.missed, self.log = [], [], False, []
        self.open_binds = set()
        self.cluster.queue.clear()
        for name in NODES:
            self.handle(NodeSeen(node(name, cpu=CAPACITY)))
        self.store = dict(self.cluster.pods)
        for pod in sorted(self.store.values(), key=lambda p: not p.node_name):
            self.handle(PodSeen(pod))
        self.handle(Synced())

    def handle(self, event: Event) -> list[Instruction]:
        out = self.heart.handle(event, self.now)
        self.log.append((event, self.now, out))
        self.heart.validate()
        assert not self.algorithm.broken, self.algorithm.broken
        for instruction in out:
            if isinstance(instruction, BindAnswer):
                assert instruction.request in self.open_binds, f"bind {instruction.request} answered twice"
                self.open_binds.discard(instruction.request)
            elif isinstance(instruction, ReadPod):
                self.work.append(instruction)
            elif isinstance(instruction, WriteBinding):
                assert (instruction.uid, instruction.node) in self.proposed | {
                    (p.uid, p.node_name) for p in self.algorithm.allocated.values()
                }, f"{instruction} was never proposed"
                self.work.append(instruction)
        return out

    # -- the cluster's life -----------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), cpu=st.sampled_from([1000, 2000, 3000]), priority=st.sampled_from([0, 10]))
    def pod_created(self, name: str, cpu: int, priority: int) -> None:
        if name not in self.cluster.pods:
            self.cluster.create(name, cpu, priority)

    @rule(name=st.sampled_from(NAMES))
    def pod_deleted(self, name: str) -> None:
        if name in self.cluster.pods:
            self.cluster.delete(name)

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["label", "terminating", "finished"]))
    def pod_changed(self, name: str, how: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod is None or pod.finished:
            return
        if how == "label":
            self.cluster.put(msgspec.structs.replace(pod, labels=(("touched", str(self.cluster.version)),)))
        elif how == "terminating":
            self.cluster.put(msgspec.structs.replace(pod, terminating=True))
        elif pod.node_name:
            self.cluster.put(msgspec.structs.replace(pod, phase="Succeeded"))

    @rule(name=st.sampled_from(NAMES), where=st.sampled_from(NODES))
    def somebody_else_binds(self, name: str, where: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod and not pod.node_name and not pod.terminating:
            taken = sum(dict(p.requests)[CPU] for p in self.algorithm.allocated.values() if p.node_name == where) + sum(
                dict(p.requests)[CPU]
                for p in self.cluster.pods.values()
                if p.node_name == where and p.uid not in self.algorithm.allocated
            )
            if taken + dict(pod.requests)[CPU] <= CAPACITY:  # a scheduler that respects the room, and our proposals
                self.cluster.bind(WriteBinding(0, pod.namespace, pod.name, pod.uid, where))
                self._deliver_all()

    # -- the informer -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.cluster.queue and not self.missed)
    @rule()
    def event_arrives(self) -> None:
        self._deliver(self.cluster.queue.pop(0))

    def _deliver(self, event: Event) -> None:
        if isinstance(event, PodSeen):
            self.store[event.pod.name] = event.pod
        elif isinstance(event, PodGone):
            self.store.pop(event.name, None)
        self.delivered.append(event)
        self.handle(event)

    @precondition(lambda self: self.delivered)
    @rule(which=st.integers(0, 30))
    def event_arrives_again(self, which: int) -> None:
        self.handle(self.delivered[-1 - which % len(self.delivered)])

    @precondition(lambda self: self.cluster.queue)
    @rule()
    def events_are_missed(self) -> None:
        self.cluster.queue.clear()
        self.missed = True

    @precondition(lambda self: self.missed)
    @rule()
    def relist(self) -> None:
        self.cluster.queue.clear()
        self.missed = False
        before, self.store = self.store, {}
        for name, pod in before.items():
            known = self.cluster.pods.get(name)
            if known is None or known.uid != pod.uid:
                self._deliver(PodGone(pod.namespace, pod.name, pod.uid))
        for pod in list(self.cluster.pods.values()):
            self._deliver(PodSeen(pod))

    # -- kube-scheduler ---------------------------------------------------------------------------------------------

    def _pod(self, name: str, *, stale: bool) -> Pod | None:
        return (self.store if stale else self.cluster.pods).get(name)

    @rule(
        name=st.sampled_from(NAMES),
        nodes=st.lists(st.sampled_from(NODES), unique=True),
        stale=st.booleans(),
        trial=st.booleans(),
        bind=st.booleans(),
    )
    def filtered(self, name: str, nodes: list[str], stale: bool, trial: bool, bind: bool) -> None:
        pod = self._pod(name, stale=stale)
        if pod is None or pod.node_name:
            return
        if trial and nodes:
            nodes = nodes[:1]
            pod = msgspec.structs.replace(pod, nominated_node_name=nodes[0])
        answers = [x for x in self.handle(FilterRequested(pod, SuggestedNodes(nodes))) if isinstance(x, FilterAnswer)]
        assert len(answers) == 1
        if answers[0].node is not None:
            assert answers[0].node in nodes, "a node was named that was not offered"
            self.proposed.add((pod.uid, answers[0].node))
            if bind:
                self._bind(pod, answers[0].node)

    def _bind(self, pod: Pod, where: str) -> None:
        self.requests += 1
        self.open_binds.add(self.requests)
        self.handle(BindRequested(self.requests, pod.namespace, pod.name, pod.uid, where))

    @rule(name=st.sampled_from(NAMES), where=st.sampled_from(NODES))
    def bound_out_of_the_blue(self, name: str, where: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod is not None:
            self._bind(pod, where)

    @rule(name=st.sampled_from(NAMES), nodes=st.lists(st.sampled_from(NODES), unique=True, min_size=1))
    def preempt_asked(self, name: str, nodes: list[str]) -> None:
        pod = self.cluster.pods.get(name)
        if pod is None or pod.node_name:
            return
        out = self.handle(PreemptRequested(pod, tuple(Candidate(n) for n in nodes)))
        answer = next(x for x in out if isinstance(x, PreemptAnswer))
        for candidate in answer.candidates:
            assert candidate.node in nodes
            assert candidate.victims, "a node without victims"
            for uid in candidate.victims:
                victim = self.algorithm.allocated[uid]
                assert victim.priority < pod.priority
                assert victim.node_name == candidate.node

    # -- the committer ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.work)
    @rule(
        which=st.integers(0, 5),
        fault=st.sampled_from(["none", "none", "applied, no answer", "not applied, no answer", "429", "403", "lost"]),
    )
    def work_is_done(self, which: int, fault: str) -> None:
        self._do(self.work.pop(which % len(self.work)), fault)

    def _do(self, command: Instruction, fault: str) -> None:
        if isinstance(command, ReadPod):
            pod = self.cluster.pods.get(command.name)
            if fault in ("applied, no answer", "429"):
                self.handle(PodRead(command.token, Outcome(OutcomeKind.UNKNOWN)))
            elif fault != "lost":
                kind = OutcomeKind.DONE if pod else OutcomeKind.GONE
                self.handle(PodRead(command.token, Outcome(kind), pod))
        elif isinstance(command, WriteBinding):
            outcome = {
                "429": Outcome(OutcomeKind.THROTTLED, retry_after=1),
                "403": Outcome(OutcomeKind.REJECTED, "forbidden"),
                "not applied, no answer": Outcome(OutcomeKind.UNKNOWN),
            }.get(fault)
            if outcome is None:
                outcome = self.cluster.bind(command)
                if fault == "applied, no answer":
                    outcome = Outcome(OutcomeKind.UNKNOWN)
            if fault != "lost":
                self.handle(BindFinished(command.token, outcome))

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.handle(Ticked())

    @rule(name=st.sampled_from(NODES))
    def node_flaps(self, name: str) -> None:
        self.handle(NodeGone(name))
        self.handle(NodeSeen(node(name, cpu=CAPACITY)))

    @rule()
    def crash(self) -> None:
        for command in self.work:
            self._do(command, "lost")
        self._boot()

    # -- what must always hold --------------------------------------------------------------------------------------

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        for name in NODES:
            assert self.cluster.used(name) <= CAPACITY, f"{name} has {self.cluster.used(name)}"

    def _deliver_all(self) -> None:
        if self.missed:
            self.relist()
        while self.cluster.queue:
            self._deliver(self.cluster.queue.pop(0))

    def teardown(self) -> None:
        if not hasattr(self, "heart"):
            return
        for _ in range(8):
            self._deliver_all()
            while self.work:
                self._do(self.work.pop(0), "none")
            self.now += POLICY.lease + 1
            self.handle(Ticked())
        self._deliver_all()
        assert not self.open_binds, f"bind requests {self.open_binds} were never answered"
        entries = {entry.uid: entry for entry in self.heart.entries()}
        live = {p.uid: p for p in self.cluster.pods.values() if not p.finished and (p.node_name or not p.terminating)}
        assert entries.keys() == live.keys(), f"heart knows {sorted(entries)}, the cluster has {sorted(live)}"
        for uid, pod in live.items():
            wanted = State.BOUND if pod.node_name else State.WAITING
            assert (entries[uid].state, entries[uid].node) == (wanted, pod.node_name)
        assert not self.heart.transitions.ledger.active(), "a hold leaked"
        self._replay()

    def _replay(self) -> None:
        """The same events give the same instructions, byte for byte."""
        again = Lifecycle(PlainAlgorithm(), POLICY)
        for event, at, out in self.log:
            assert repr(again.handle(event, at)) == repr(out)


HeartMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None, derandomize=True)
TestHeart = HeartMachine.TestCase


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_long_random_runs(seed: int) -> None:
    """The same rules, driven by a plain random generator for far more steps than Hypothesis would take."""
    rng = random.Random(seed)
    machine = HeartMachine()
    machine.begin()
    for _ in range(5000):
        _random_step(machine, rng)
        machine.no_node_is_overcommitted()
    machine.teardown()


def _random_step(machine: HeartMachine, rng: random.Random) -> None:
    name, where = rng.choice(NAMES), rng.choice(NODES)
    nodes = rng.sample(NODES, rng.randint(0, 3))
    fault = rng.choice(["none"] * 6 + ["applied, no answer", "not applied, no answer", "429", "403", "lost"])
    step = rng.randrange(40)
    if step < 4:
        machine.pod_created(name, rng.choice([1000, 2000, 3000]), rng.choice([0, 10]))
    elif step < 5:
        machine.pod_deleted(name)
    elif step < 7:
        machine.pod_changed(name, rng.choice(["label", "terminating", "finished"]))
    elif step < 8:
        machine.somebody_else_binds(name, where)
    elif step < 14 and machine.cluster.queue and not machine.missed:
        machine.event_arrives()
    elif step < 15 and machine.delivered:
        machine.event_arrives_again(rng.randint(0, 30))
    elif step < 16 and machine.cluster.queue:
        machine.events_are_missed()
    elif step < 17 and machine.missed:
        machine.relist()
    elif step < 27:
        machine.filtered(name, nodes, rng.random() < 0.3, rng.random() < 0.2, rng.random() < 0.8)
    elif step < 28:
        machine.bound_out_of_the_blue(name, where)
    elif step < 30 and nodes:
        machine.preempt_asked(name, nodes)
    elif step < 37 and machine.work:
        machine.work_is_done(rng.randint(0, 5), fault)
    elif step < 39:
        machine.time_passes(rng.choice([0.5, 3.0, 11.0]))
    elif rng.random() < 0.3:
        machine.node_flaps(where)
    elif rng.random() < 0.1:
        machine.crash()


def test_a_nudge_is_for_a_pod_that_waits() -> None:
    """Nudges in the random runs above are only sent to waiting pods; here one is seen."""
    machine = HeartMachine()
    machine.begin()
    for name in ("a", "b", "c", "d"):
        machine.cluster.create(name, 3000, 0)
    machine._deliver_all()
    for name in ("a", "b", "c", "d"):
        machine.filtered(name, list(NODES), stale=False, trial=False, bind=False)
    machine.time_passes(11.0)
    while machine.work:
        machine._do(machine.work.pop(0), "none")
    nudges = [x.name for _, _, out in machine.log for x in out if isinstance(x, Nudge)]
    assert nudges == ["d"]
