"""The whole engine in a naive world: a cluster that is a dictionary, and everything that can happen to it.

The cluster is as an API server would have it, and applies a binding only if that may be applied. What must never be
seen: two places for a pod, a place that filter never named, a node with more than it has, a bind answered twice, a
guarantee of the algorithm broken. What must be true once everything has been delivered (`settle`): engine and algorithm
know exactly what the cluster is, every bind was answered, and the same events give the same instructions again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes
from algorithm.model import CPU, Pod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import (
    BindFinished,
    Evict,
    EvictFinished,
    PodRead,
    PreemptionRecorded,
    ReadPod,
    RecordPreemption,
    WriteBinding,
)
from extender.scheduling.events import (
    AlgorithmPrepared,
    BindAnswer,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    PrepareAlgorithm,
    Reconfigured,
    ReconfigureRequested,
    Synced,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy, PreemptionMode
from extender.scheduling.state.pod_info import State
from extender.scheduling.writes.preemption_mark import ANNOTATION
from tests.support.engine.objects import node
from tests.support.engine.plain_algorithm import PlainAlgorithm

NODES = ("n0", "n1", "n2")
NAMES = ("a", "b", "c", "d", "e")
GHOSTS = ("ghost", "a", "b")
CAPACITY = 4000
BASE: dict[str, Any] = {"lease": 10.0, "verify": 2.0, "arrival": 6.0, "write_validity": 4.0, "write_timeout": 12.0}
POLICIES = {
    "tired": Policy(**BASE, force_bind_after=3, patience=5.0),
    "others": Policy(**BASE, scheduler_names=frozenset({"waggle"})),
    "unoffered": Policy(**BASE, force_bind_unoffered=True),
    "evicting": Policy(**BASE, preemption=PreemptionMode.DIRECT, patience=30.0, eviction_backoff=15.0),
    "auto": Policy(**BASE, preemption=PreemptionMode.AUTO, patience=30.0, eviction_backoff=15.0),
    "criteria": Policy(**BASE, annotation="ours", resource=CPU, force_bind_after=2, force_bind_unoffered=True),
}
CALLS = (
    *("schedule", "add_unallocated_pod", "delete_unallocated_pod", "add_allocated_pod", "delete_allocated_pod"),
    *("update_allocated_pod", "add_preempting_pod", "delete_preempting_pod", "add_node", "update_node", "delete_node"),
)


@dataclass
class Cluster:
    """What the API server knows: pods by name, a version, and the events that the informer has yet to get."""

    version: int = 0
    births: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    queue: list[Event] = field(default_factory=list)
    #: Names that a disruption budget protects, and every eviction that was carried out.
    protected: set[str] = field(default_factory=set)
    #: An evicted pod needs its time, and some never go.
    graceful: bool = False
    stuck: set[str] = field(default_factory=set)
    evicted: list[Evict] = field(default_factory=list)

    def put(self, pod: Pod) -> Pod:
        self.version += 1
        pod = msgspec.structs.replace(pod, resource_version=str(self.version))
        self.pods[pod.name] = pod
        self.queue.append(PodSeen(pod))
        return pod

    def create(self, name: str, cpu: int, priority: int, **more: Any) -> None:
        self.births += 1
        uid = f"{name}-{self.births}"
        self.put(Pod(namespace="default", name=name, uid=uid, priority=priority, requests=((CPU, cpu),), **more))

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
        if pod.node_name or pod.terminating or pod.gated:
            return Outcome(OutcomeKind.LOST, "already assigned, terminating or gated")
        self.put(msgspec.structs.replace(pod.placed(write.node, write.annotations), phase="Running"))
        return Outcome(OutcomeKind.DONE)

    def evict(self, eviction: Evict) -> Outcome:
        pod = self.pods.get(eviction.name)
        if pod is None or pod.uid != eviction.uid:
            return Outcome(OutcomeKind.GONE)
        if eviction.name in self.protected:
            return Outcome(OutcomeKind.REJECTED, "a disruption budget needs it")
        if not eviction.dry_run:
            self.evicted.append(eviction)
            self._end(pod)
        return Outcome(OutcomeKind.DONE)

    def _end(self, pod: Pod) -> None:
        if not self.graceful:
            self.delete(pod.name)
        elif not pod.terminating:
            self.put(msgspec.structs.replace(pod, terminating=True))

    def kubelets_stop(self) -> None:
        """Who is being deleted is gone, unless a finalizer keeps it."""
        for pod in [pod for pod in self.pods.values() if pod.terminating and pod.name not in self.stuck]:
            self.delete(pod.name)

    def mark(self, intention: RecordPreemption) -> Outcome:
        pod = self.pods.get(intention.name)
        if pod is None:
            return Outcome(OutcomeKind.GONE)
        if pod.uid != intention.uid:
            return Outcome(OutcomeKind.STALE)
        annotations = {**dict(pod.annotations), ANNOTATION: intention.value}
        kept = tuple(sorted((key, value) for key, value in annotations.items() if value))
        if kept != pod.annotations:
            self.put(msgspec.structs.replace(pod, annotations=kept))
        return Outcome(OutcomeKind.DONE)

    def used(self, name: str) -> int:
        return sum(dict(p.requests)[CPU] for p in self.pods.values() if p.node_name == name and not p.finished)


class EngineSimulation:
    """One run. `resizing`: nodes change what they offer, `faults`: the algorithm raises; neither can promise room."""

    def __init__(self, policy: Policy = POLICIES["tired"], *, make: Callable[[], SchedulerAlgorithm] = PlainAlgorithm):
        self.policy = policy
        self.make = make
        self.cluster = Cluster()
        self.now = 0.0
        self.requests = 0
        self.proposed: set[tuple[str, str]] = set()
        self.safe = True
        self.armed = ""
        self.log: list[tuple[Event, float, list[Instruction], tuple[str, str]]] = []
        self.boot()

    def boot(self) -> None:
        """A fresh process: nodes, then bound pods, then the rest, then ready."""
        self.algorithm = self.make()
        self.machine = SchedulerStateMachine(self.algorithm, self.policy)
        self.work: list[WriteBinding | ReadPod | Evict | RecordPreemption] = []
        #: When each of these was given, by identity: a write is not sent once it is too old.
        self.given: dict[int, float] = {}
        self.late: list[Event] = []
        #: Writes that timed out, and until when they may yet arrive.
        self.drifting: list[tuple[float, WriteBinding]] = []
        self.delivered: list[Event] = []
        self.missed, self.log = False, []
        self.preparing, self.reconfigurations = False, 0
        self.open_binds: set[int] = set()
        #: Since when pods that are being deleted are victims of a preemptor that kube-scheduler asks for, by UID.
        self.leaving: dict[str, float] = {}
        self.cluster.queue.clear()
        self.nodes = dict.fromkeys(NODES, CAPACITY)
        for name in NODES:
            self.handle(NodeSeen(node(name, cpu=CAPACITY, pods=50)))
        self.store = dict(self.cluster.pods)
        for pod in sorted(self.store.values(), key=lambda p: not p.node_name):
            self.handle(PodSeen(pod))
        self.handle(Synced())

    def handle(self, event: Event) -> list[Instruction]:
        plain = self.algorithm if isinstance(self.algorithm, PlainAlgorithm) else None
        if plain and self.armed:
            plain.fail.add(self.armed)
        out = self.machine.handle(event, self.now)
        self.log.append((event, self.now, out, (self.armed, plain.choose if plain else "")))
        self.armed = ""
        self.machine.validate()
        assert not plain or not plain.broken, plain.broken
        for instruction in out:
            if isinstance(instruction, BindAnswer):
                assert instruction.request in self.open_binds, f"bind {instruction.request} answered twice"
                self.open_binds.discard(instruction.request)
            elif isinstance(instruction, ReadPod | Evict | RecordPreemption):
                self._give(instruction)
            elif isinstance(instruction, WriteBinding):
                self._check_write(instruction)
                self._give(instruction)
        return out

    def _give(self, command: WriteBinding | ReadPod | Evict | RecordPreemption) -> None:
        self.work.append(command)
        self.given[id(command)] = self.now

    def _check_write(self, write: WriteBinding) -> None:
        held = self.machine.driver.allocated.get(write.uid)
        assert (write.uid, write.node) in self.proposed or (held and held.node_name == write.node), write

    # -- the cluster's life -----------------------------------------------------------------------------------------

    def pod_created(self, name: str, cpu: int, priority: int, kind: str) -> None:
        """`kind`: ours, theirs (none of ours by every criterion), gated, or polite (never preempts)."""
        more: dict[str, Any] = {"scheduler_name": "default-scheduler" if kind == "theirs" else "waggle"}
        if kind != "theirs":
            more["annotations"] = (("ours", "yes"),)
        if name not in self.cluster.pods:
            gated, may_preempt = kind == "gated", kind != "polite"
            more["grace_period"] = 5
            self.cluster.create(name, cpu, priority, gated=gated, may_preempt=may_preempt, **more)

    def pod_deleted(self, name: str) -> None:
        if name in self.cluster.pods:
            self.cluster.delete(name)

    def pod_changed(self, name: str, how: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod is None or pod.finished:
            return
        if how == "label":
            self.cluster.put(msgspec.structs.replace(pod, labels=(("touched", str(self.cluster.version)),)))
        elif how == "terminating":
            self.cluster.put(msgspec.structs.replace(pod, terminating=True))
        elif how == "ungated":
            self.cluster.put(msgspec.structs.replace(pod, gated=False))
        elif how == "disowned":
            self.cluster.put(msgspec.structs.replace(pod, annotations=()))
        elif pod.node_name:
            self.cluster.put(msgspec.structs.replace(pod, phase="Succeeded"))

    def _has_room(self, pod: Pod, where: str) -> bool:
        """As a scheduler sees it that respects what is bound and what we proposed."""
        told = self.machine.driver.allocated
        taken = sum(dict(p.requests)[CPU] for p in told.values() if p.node_name == where) + sum(
            dict(p.requests)[CPU] for p in self.cluster.pods.values() if p.node_name == where and p.uid not in told
        )
        return taken + dict(pod.requests)[CPU] <= self.nodes.get(where, 0)

    def somebody_else_binds(self, name: str, where: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod and not pod.node_name and not pod.terminating and not pod.gated and self._has_room(pod, where):
            self.cluster.bind(WriteBinding(0, pod.namespace, pod.name, pod.uid, where))
            self.deliver_all()

    # -- the informer -----------------------------------------------------------------------------------------------

    def event_arrives(self) -> None:
        if self.cluster.queue and not self.missed:
            self._deliver(self.cluster.queue.pop(0))

    def _deliver(self, event: Event) -> None:
        if isinstance(event, PodSeen):
            self.store[event.pod.name] = event.pod
        elif isinstance(event, PodGone):
            self.store.pop(event.name, None)
        self.delivered.append(event)
        self.handle(event)

    def event_arrives_again(self, which: int) -> None:
        if self.delivered:
            self.handle(self.delivered[-1 - which % len(self.delivered)])

    def events_are_missed(self) -> None:
        if self.cluster.queue:
            self.cluster.queue.clear()
            self.missed = True

    def relist(self) -> None:
        if not self.missed:
            return
        self.cluster.queue.clear()
        self.missed = False
        before, self.store = self.store, {}
        for name, pod in before.items():
            known = self.cluster.pods.get(name)
            if known is None or known.uid != pod.uid:
                self._deliver(PodGone(pod.namespace, pod.name, pod.uid))
        for pod in list(self.cluster.pods.values()):
            self._deliver(PodSeen(pod))

    def deliver_all(self) -> None:
        self.relist()
        while self.cluster.queue:
            self._deliver(self.cluster.queue.pop(0))

    # -- kube-scheduler ---------------------------------------------------------------------------------------------

    def filtered(self, name: str, nodes: list[str], *, stale: bool, trial: bool, bind: bool) -> None:
        pod = (self.store if stale else self.cluster.pods).get(name)
        if pod is None or pod.node_name:
            return
        if trial and nodes:
            nodes = nodes[:1]
            pod = msgspec.structs.replace(pod, nominated_node_name=nodes[0])
        answer = self.ask(pod, nodes)
        if answer.pass_through:
            where = next((name for name in nodes if self._has_room(pod, name)), None)
            bind = bind and where is not None
        else:
            where = answer.node
        if where is not None and bind:
            self.proposed.add((pod.uid, where))
            self.bind(pod, where)

    def ask(self, pod: Pod, nodes: list[str]) -> FilterAnswer:
        fails = bool(self.armed)
        answers = [x for x in self.handle(FilterRequested(pod, SuggestedNodes(nodes))) if isinstance(x, FilterAnswer)]
        assert len(answers) == 1
        if not fails and not answers[0].error and not (pod.nominated_node_name and len(nodes) == 1):
            self._check_leaving(pod)
        pod_info = self.machine.find(pod.namespace, pod.name)
        insisted = pod_info is not None and pod_info.state is State.BINDING
        assert answers[0].pass_through == (not self.policy.manages(pod)) or (insisted and not self.policy.manages(pod))
        if answers[0].node is not None:
            assert answers[0].node in nodes, "a node was named that was not offered"
            self.proposed.add((pod.uid, answers[0].node))
        return answers[0]

    def ghost_filtered(self, name: str, serial: int, nodes: list[str]) -> None:
        """A pod that does not exist, perhaps under the name or the UID of one that does."""
        others = [p.uid for p in self.cluster.pods.values()]
        uid = others[serial % len(others)] if others and serial % 5 == 0 else f"ghost-{serial}"
        version = str(self.cluster.version + serial - 2)
        self.ask(Pod(namespace="default", name=name, uid=uid, resource_version=version, requests=((CPU, 500),)), nodes)

    def bind(self, pod: Pod, where: str) -> None:
        self.requests += 1
        self.open_binds.add(self.requests)
        self.handle(BindRequested(self.requests, pod.namespace, pod.name, pod.uid, where))

    def bound_out_of_the_blue(self, name: str, where: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod is not None and (self.policy.manages(pod) or self._has_room(pod, where)):
            self.bind(pod, where)

    def preempt_asked(self, name: str, nodes: list[str]) -> None:
        pod = self.cluster.pods.get(name)
        if pod is None or pod.node_name:
            return
        fails = bool(self.armed)
        out = self.handle(PreemptRequested(pod, tuple(Candidate(n) for n in nodes)))
        answer = next(x for x in out if isinstance(x, PreemptAnswer))
        if not fails and not answer.error:
            self._check_leaving(pod)
        assert answer.pass_through == (not self.policy.manages(pod))
        for candidate in answer.candidates:
            assert candidate.node in nodes
            assert candidate.victims, "a node without victims"
            for uid in candidate.victims:
                victim = self.machine.driver.allocated[uid]
                assert victim.priority < pod.priority
                assert victim.node_name == candidate.node

    def _check_leaving(self, pod: Pod) -> None:
        """A preemption that kube-scheduler carries out does not outlast victims that should be gone."""
        pod_info = self.machine.find(pod.namespace, pod.name)
        if (
            pod_info is None
            or pod_info.uid != pod.uid
            or pod_info.state is not State.PREEMPTING
            or pod_info.preemption is not None
        ):
            return
        for victim in pod_info.victims:
            held = self.machine.driver.allocated.get(victim.uid)
            if held is not None and held.terminating:
                since = self.leaving.setdefault(victim.uid, self.now)
                assert self.now < since + held.grace_period + self.policy.patience, (
                    f"{pod_info.key} waits for {held.key}"
                )

    # -- the committer ----------------------------------------------------------------------------------------------

    def work_is_done(self, which: int, fault: str) -> None:
        """`fault`: how the network treats it. "slow": done now, reported later."""
        if self.work:
            report = self._do(self.work.pop(self._first_of_its_pod(which % len(self.work))), fault)
            if report is not None and fault == "slow":
                self.late.append(report)
            elif report is not None and fault != "lost":
                self.handle(report)

    def _first_of_its_pod(self, index: int) -> int:
        """The committer takes up commands in order: a read is not made before the write that it is to verify."""
        uid = self.work[index].uid
        return next(at for at, command in enumerate(self.work) if command.uid == uid)

    def late_write(self, *, until: float) -> None:
        """What timed out arrives all the same."""
        for deadline, write in [item for item in self.drifting if item[0] <= until]:
            self.drifting.remove((deadline, write))
            self.cluster.bind(write)

    def late_report(self, which: int) -> None:
        if self.late:
            self.handle(self.late.pop(which % len(self.late)))

    def _do(self, command: Instruction, fault: str) -> Event | None:
        waited = self.now - self.given.pop(id(command), self.now)
        if not isinstance(command, ReadPod) and waited > command.valid_for:
            fault = "429"
        refusal = {
            "429": Outcome(OutcomeKind.THROTTLED, retry_after=1),
            "403": Outcome(OutcomeKind.REJECTED, "forbidden"),
            "not applied, no answer": Outcome(OutcomeKind.UNKNOWN),
        }.get(fault)
        if isinstance(command, ReadPod):
            if refusal is not None or fault == "applied, no answer":
                return PodRead(command.token, refusal or Outcome(OutcomeKind.UNKNOWN))
            pod = self.cluster.pods.get(command.name)
            return PodRead(command.token, Outcome(OutcomeKind.DONE if pod else OutcomeKind.GONE), pod)
        if isinstance(command, WriteBinding):
            if fault == "applied later, no answer":
                self.drifting.append((self.now + self.policy.arrival - 1, command))
                return BindFinished(command.token, Outcome(OutcomeKind.UNKNOWN))
            outcome = refusal or self.cluster.bind(command)
            return BindFinished(command.token, Outcome(OutcomeKind.UNKNOWN) if "applied, no" in fault else outcome)
        if isinstance(command, Evict):
            outcome = refusal or self.cluster.evict(command)
            outcome = Outcome(OutcomeKind.UNKNOWN) if "applied, no" in fault else outcome
            return EvictFinished(command.token, outcome, command.uid, command.dry_run)
        if isinstance(command, RecordPreemption):
            outcome = refusal or self.cluster.mark(command)
            outcome = Outcome(OutcomeKind.UNKNOWN) if "applied, no" in fault else outcome
            return PreemptionRecorded(command.token, outcome, command.uid)
        return None

    # -- time, nodes, faults ----------------------------------------------------------------------------------------

    def time_passes(self, seconds: float) -> None:
        self.late_write(until=self.now + seconds)
        self.now += seconds
        self.handle(Ticked())

    def node_flaps(self, name: str) -> None:
        self.handle(NodeGone(name))
        self.handle(NodeSeen(node(name, cpu=self.nodes[name], pods=50)))

    def node_resized(self, name: str, cpu: int) -> None:
        self.safe = False
        self.nodes[name] = cpu
        self.handle(NodeSeen(node(name, cpu=cpu, pods=50)))

    def algorithm_will_fail(self, call: str) -> None:
        self.safe = False
        self.armed = call

    def _prepare(self, engine: SchedulerStateMachine, out: list[Instruction]) -> None:
        for item in out:
            if isinstance(item, PrepareAlgorithm):
                engine.preparations.carry_out(item, lambda name, settings: self.make())

    def reconfiguration_goes_on(self) -> None:
        """An operator wants other settings: another algorithm learns what is true now, for the first time or again."""
        self.reconfigurations += not self.preparing
        self.preparing = True
        self._prepare(self.machine, self.handle(ReconfigureRequested(self.reconfigurations, "packing", {})))

    def reconfiguration_ends(self) -> Reconfigured | None:
        """It takes over, whatever has happened meanwhile."""
        if not self.preparing:
            return None
        self.preparing = False
        out = self.handle(AlgorithmPrepared(self.reconfigurations))
        self.algorithm = self.machine.driver.algorithm
        if isinstance(self.algorithm, PlainAlgorithm):
            assert not self.algorithm.broken, self.algorithm.broken
        return next(item for item in out if isinstance(item, Reconfigured))

    def crash(self) -> None:
        """What was on its way to the API server may still arrive there; nobody hears of it."""
        for command in self.work:
            self._do(command, "none")
        self.late_write(until=float("inf"))
        self.armed = ""
        self.boot()

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check_room(self) -> None:
        if self.safe:
            for name in NODES:
                assert self.cluster.used(name) <= CAPACITY, f"{name} has {self.cluster.used(name)}"

    def settle(self) -> None:
        """Everything is delivered, done and verified; then engine, algorithm and cluster are of one mind."""
        self.armed = ""
        self.late_write(until=float("inf"))
        if isinstance(self.algorithm, PlainAlgorithm):
            self.algorithm.fail.clear()
        for _ in range(8):
            self.deliver_all()
            while self.late:
                self.late_report(0)
            while self.work:
                self.work_is_done(0, "none")
            self.now += self.policy.lease + 1
            self.handle(Ticked())
        self.deliver_all()
        assert not self.open_binds, f"bind requests {self.open_binds} were never answered"
        self._check_beliefs()
        self.check_replay()

    def _check_beliefs(self) -> None:
        pod_infos = {pod_info.uid: pod_info for pod_info in self.machine.pod_infos()}
        live = {p.uid: p for p in self.cluster.pods.values() if self._is_live(p)}
        assert pod_infos.keys() == live.keys(), f"engine knows {sorted(pod_infos)}, the cluster has {sorted(live)}"
        for uid, pod in live.items():
            wanted = State.BOUND if pod.node_name else State.WAITING
            assert (pod_infos[uid].state, pod_infos[uid].node) == (wanted, pod.node_name)
        assert not self.machine.state.ledger.active(), "a hold leaked"
        while self.machine.driver.pending_count:
            self.machine.driver.catch_up()
        told = {uid: pod.node_name for uid, pod in self.machine.driver.allocated.items()}
        assert told == {uid: pod.node_name for uid, pod in live.items() if pod.node_name}
        assert set(self.machine.driver.unallocated) == {uid for uid, pod in live.items() if not pod.node_name}
        if isinstance(self.algorithm, PlainAlgorithm):
            assert {uid: pod.node_name for uid, pod in self.algorithm.allocated.items()} == told

    def _is_live(self, pod: Pod) -> bool:
        waits = self.policy.manages(pod) and not pod.terminating and not pod.gated
        return not pod.finished and (bool(pod.node_name) or waits)

    def check_replay(self) -> None:
        """The same events give the same instructions."""
        again = SchedulerStateMachine(self.make(), self.policy)
        for event, at, out, (armed, choose) in self.log:
            algorithm = again.driver.algorithm
            if isinstance(algorithm, PlainAlgorithm):
                algorithm.choose = choose
                algorithm.fail |= {armed} - {""}
            assert repr(again.handle(event, at)) == repr(out)
            self._prepare(again, out)
