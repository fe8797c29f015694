"""Two engines and one cluster: whoever has the term decides, and what the other one decided before is never overlooked.

The oracle is the cluster of the engine's own machine. Each replica has its informer, which may lag but has caught up
when a term begins, and its committer, which sends nothing of a term that is over. Terms go from one to the other and
back at any moment, also in the midst of writes whose answers are lost.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from algorithm.interface import SuggestedNodes
from algorithm.model import CPU
from algorithm.reasons import Code
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import BindFinished, PodRead, ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeSeen,
    Synced,
    TermBegan,
    TermEnded,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import State
from tests.support.engine.objects import node
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.engine.simulation import CAPACITY, NAMES, NODES, Cluster

POLICY = Policy(lease=10, verify=2, write_timeout=8, arrival=6, elected=True)


class Replica:
    def __init__(self, world: ReplicasMachine) -> None:
        self.world = world
        self.algorithm = PlainAlgorithm()
        self.machine = SchedulerStateMachine(self.algorithm, POLICY)
        self.position = 0
        self.work: list[WriteBinding | ReadPod] = []
        self.open_binds: set[int] = set()
        for name in NODES:
            self.handle(NodeSeen(node(name, cpu=CAPACITY)))
        self.handle(Synced())

    def handle(self, event: Event) -> list[Instruction]:
        out = self.machine.handle(event, self.world.now)
        self.machine.validate()
        assert not self.algorithm.broken, self.algorithm.broken
        for item in out:
            if isinstance(item, WriteBinding | RequeuePod | RecordEvent):
                assert self.world.holder() is self, f"{item} of a replica that does not lead"
                assert item.term == self.world.term
            if isinstance(item, WriteBinding | ReadPod):
                self.work.append(item)
            if isinstance(item, BindAnswer):
                self.open_binds.remove(item.request)
        return out

    def hear(self, events: int) -> None:
        queue = self.world.cluster.queue
        for event in queue[self.position : self.position + events]:
            self.position += 1
            self.handle(event)


class ReplicasMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster()
        self.now = 0.0
        self.requests = 0
        self.term = 0
        self.leader: int | None = None
        self.replicas = [Replica(self), Replica(self)]
        for name in NAMES[:3]:
            self.cluster.create(name, 3000, 0)

    def holder(self) -> Replica | None:
        return None if self.leader is None else self.replicas[self.leader]

    # -- the election --

    @rule()
    def term_ends(self) -> None:
        if self.leader is not None:
            replica, self.leader = self.replicas[self.leader], None
            replica.handle(TermEnded(self.term))

    @rule(which=st.sampled_from([0, 1]))
    def term_begins(self, which: int) -> None:
        self.term_ends()
        self.term += 1
        self.replicas[which].hear(len(self.cluster.queue))
        self.leader = which
        self.replicas[which].handle(TermBegan(self.term))

    # -- the cluster and its informers --

    @rule(name=st.sampled_from(NAMES), cpu=st.sampled_from([1000, 2000, 3000]))
    def pod_created(self, name: str, cpu: int) -> None:
        if name not in self.cluster.pods:
            self.cluster.create(name, cpu, 0)

    @rule(name=st.sampled_from(NAMES))
    def pod_deleted(self, name: str) -> None:
        if name in self.cluster.pods:
            self.cluster.delete(name)

    @rule(which=st.sampled_from([0, 1]), events=st.integers(1, 5))
    def events_arrive(self, which: int, events: int) -> None:
        self.replicas[which].hear(events)

    # -- kube-scheduler, which may reach either --

    @rule(which=st.sampled_from([0, 1]), name=st.sampled_from(NAMES), bind=st.booleans())
    def scheduled(self, which: int, name: str, bind: bool) -> None:
        pod, replica = self.cluster.pods.get(name), self.replicas[which]
        if pod is None or pod.node_name:
            return
        out = replica.handle(FilterRequested(pod, SuggestedNodes(NODES)))
        (answer,) = [item for item in out if isinstance(item, FilterAnswer)]
        if which != self.leader:
            assert answer.error
            assert answer.reason.code is Code.NOT_READY
        if bind:
            self.bound(which, name, answer.node or NODES[0])

    @rule(name=st.sampled_from(NAMES), fault=st.sampled_from(["none", "not applied, no answer"]))
    def scheduled_by_the_leader_at_once(self, name: str, fault: str) -> None:
        replica = self.holder()
        if replica is not None:
            self.scheduled(self.leader, name, True)
            while replica.work:
                self._do(replica, replica.work.pop(0), fault)

    @rule(which=st.sampled_from([0, 1]), name=st.sampled_from(NAMES), where=st.sampled_from(NODES))
    def bound(self, which: int, name: str, where: str) -> None:
        pod, replica = self.cluster.pods.get(name), self.replicas[which]
        if pod is not None:
            self.requests += 1
            replica.open_binds.add(self.requests)
            replica.handle(BindRequested(self.requests, pod.namespace, pod.name, pod.uid, where))

    # -- committers --

    @rule(
        which=st.sampled_from([0, 1]),
        index=st.integers(0, 5),
        fault=st.sampled_from(["none", "none", "applied, no answer", "not applied, no answer"]),
    )
    def work_is_done(self, which: int, index: int, fault: str) -> None:
        replica = self.replicas[which]
        if replica.work:
            self._do(replica, replica.work.pop(index % len(replica.work)), fault)

    def _do(self, replica: Replica, command: WriteBinding | ReadPod, fault: str) -> None:
        if isinstance(command, ReadPod):
            pod = self.cluster.pods.get(command.name)
            kind = OutcomeKind.DONE if pod else OutcomeKind.GONE
            replica.handle(PodRead(command.token, Outcome(kind), pod))
        elif self.holder() is not replica or command.term != self.term:
            replica.handle(BindFinished(command.token, Outcome(OutcomeKind.THROTTLED, "the term is over")))
        else:
            outcome = Outcome(OutcomeKind.UNKNOWN)
            if fault != "not applied, no answer":
                written = self.cluster.bind(command)
                outcome = written if fault == "none" else outcome
            replica.handle(BindFinished(command.token, outcome))

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for replica in self.replicas:
            replica.handle(Ticked())

    # -- what must hold --

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        for name in NODES if hasattr(self, "cluster") else ():
            assert self.cluster.used(name) <= CAPACITY, f"{name} has {self.cluster.used(name)}"

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        for _ in range(6):
            for replica in self.replicas:
                replica.hear(len(self.cluster.queue))
                while replica.work:
                    self._do(replica, replica.work.pop(0), "none")
            self.time_passes(11.0)
        for replica in self.replicas:
            replica.hear(len(self.cluster.queue))
            assert not replica.open_binds
            known = {(pod_info.uid, pod_info.state, pod_info.node) for pod_info in replica.machine.pod_infos()}
            assert known == {
                (p.uid, State.BOUND if p.node_name else State.WAITING, p.node_name) for p in self.cluster.pods.values()
            }
            assert not replica.machine.state.ledger.active(), "a hold leaked"
            taken = {uid: dict(pod.requests)[CPU] for uid, pod in replica.algorithm.allocated.items()}
            assert taken.keys() == {p.uid for p in self.cluster.pods.values() if p.node_name}


ReplicasMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=50, deadline=None, derandomize=True)
TestReplicas = ReplicasMachine.TestCase


@pytest.mark.slow
def test_many_more_of_them() -> None:
    run = settings(max_examples=300, stateful_step_count=80, deadline=None)
    run_state_machine_as_test(ReplicasMachine, settings=run)
