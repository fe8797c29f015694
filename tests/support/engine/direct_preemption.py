"""The engine's naive world, with gangs, disruption budgets and victims that take their time, evicting by itself.

Besides what the simulation without evictions checks, no eviction is ever seen that a person would not understand: of a
pod of the same or higher priority, before the intention stands on the preemptors, of a pod that the plan does not need,
or for a plan that would not make room for the whole gang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.model import CPU, Pod
from algorithm.packing import PackingAlgorithm
from extender.scheduling.commands import Evict, RecordPreemption
from extender.scheduling.events import (
    Candidate,
    Event,
    FilterAnswer,
    Instruction,
    NodeSeen,
    PreemptAnswer,
    PreemptRequested,
)
from extender.scheduling.policy import Policy, PreemptionMode
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.preemption_record import read
from tests.support.engine.objects import node
from tests.support.engine.simulation import BASE, CAPACITY, NODES, EngineSimulation

DIRECT = Policy(**BASE, preemption=PreemptionMode.DIRECT, patience=30.0, eviction_backoff=15.0)  # type: ignore[arg-type]


class DirectPreemptionSimulation(EngineSimulation):
    """`strict`: check every eviction against the plan as it stands on the preemptors, which only packing tells."""

    def __init__(
        self,
        policy: Policy = DIRECT,
        *,
        nodes: int = 2,
        strict: bool = True,
        make: Callable[[], SchedulerAlgorithm] = PackingAlgorithm,
    ) -> None:
        self.strict = strict
        self.names = NODES[:nodes]
        super().__init__(policy, make=make)
        self.cluster.graceful = True
        for name in NODES[nodes:]:
            self.nodes[name] = 0
            self.handle(NodeSeen(node(name, cpu=0, pods=50)))

    # -- making ---------------------------------------------------------------------------------------------------

    def runs(self, name: str, where: str, *, cpu: int = 2000, priority: int = 0, **more: Any) -> str:
        """A pod that runs there; its UID."""
        self.cluster.create(name, cpu, priority, **more)
        self.somebody_else_binds(name, where)
        assert self.cluster.pods[name].node_name == where
        return self.cluster.pods[name].uid

    def fill(self, *, cpu: int = 2000) -> list[str]:
        """Pods of priority 0 everywhere, until all is taken."""
        names = [f"low-{where}-{i}" for where in self.names for i in range(CAPACITY // cpu)]
        for name in names:
            self.runs(name, name.split("-")[1], cpu=cpu)
        return names

    def waits(self, name: str, *, cpu: int = 2000, priority: int = 10, **more: Any) -> str:
        self.cluster.create(name, cpu, priority, **more)
        self.deliver_all()
        return name

    def gang(self, name: str, size: int, *, minimum: int = 0, **more: Any) -> list[str]:
        annotations = (("waggle.dev/gang", name), ("waggle.dev/gang-min", str(minimum or size)))
        return [self.waits(f"{name}-{i}", annotations=annotations, **more) for i in range(size)]

    # -- doing ----------------------------------------------------------------------------------------------------

    def filter(self, name: str, *nodes: str) -> FilterAnswer:
        """As kube-scheduler asks; a place is bound at once."""
        pod = self.cluster.pods[name]
        answer = self.ask(pod, list(nodes or self.names))
        if answer.node is not None:
            self.bind(pod, answer.node)
            self.do_all()
        return answer

    def preempt(self, name: str, *nodes: str) -> PreemptAnswer:
        event = PreemptRequested(self.cluster.pods[name], tuple(Candidate(n) for n in nodes or self.names))
        return next(x for x in self.handle(event) if isinstance(x, PreemptAnswer))

    def orders(self, kind: type[Instruction] = Evict, **fields: Any) -> list[Any]:
        """What waits for the committer."""
        return [
            x
            for x in self.work
            if isinstance(x, kind) and all(getattr(x, key) == value for key, value in fields.items())
        ]

    def do(self, command: Any, fault: str = "none") -> None:
        self.work.remove(command)
        report = self._do(command, fault)
        assert report is not None
        self.handle(report)

    def do_all(self, kind: type[Any] = object, fault: str = "none", **fields: Any) -> list[Any]:
        """The committer does what waits now, and the informer shows it. Returns what was done."""
        done = self.orders(kind, **fields)
        for command in done:
            if command in self.work:
                self.do(command, fault)
        self.deliver_all()
        return done

    def begin(self, name: str, *nodes: str) -> None:
        """Asked about, dry runs accepted, intentions written and shown: the evictions wait for the committer."""
        self.filter(name, *nodes)
        self.do_all(Evict, dry_run=True)
        self.do_all(RecordPreemption)

    def rest(self) -> None:
        """Until the committer and the kubelets have nothing more to do."""
        self.deliver_all()
        while self.work or any(p.terminating and p.name not in self.cluster.stuck for p in self.cluster.pods.values()):
            self.do_all()
            self.cluster.kubelets_stop()
            self.deliver_all()

    # -- seeing ---------------------------------------------------------------------------------------------------

    def pod_info(self, name: str) -> PodInfo:
        pod_info = self.machine.find("default", name)
        assert pod_info is not None
        return pod_info

    def state(self, name: str) -> State:
        return self.pod_info(name).state

    def gone(self) -> list[str]:
        return sorted(eviction.name for eviction in self.cluster.evicted)

    def marked(self) -> list[str]:
        return sorted(pod.name for pod in self.cluster.pods.values() if read(pod) is not None)

    def handle(self, event: Event) -> list[Instruction]:
        out = super().handle(event)
        for item in out:
            if isinstance(item, Evict) and not item.dry_run and self.strict:
                self._check_eviction(item)
        return out

    def _check_eviction(self, eviction: Evict) -> None:
        """What a person sees who looks at the pods, as far as the informer has shown them."""
        leader = self.store[eviction.preemptor.name]
        intention = read(leader)
        assert intention is not None, f"{eviction.name} goes, and nobody said so"
        members = [pod for pod in self.store.values() if (i := read(pod)) is not None and i.plan == intention.plan]
        member_plans = {pod.uid: read(pod).member_plan for pod in members}  # type: ignore[union-attr]
        owners = [pod for pod in members if eviction.uid in {v.uid for v in member_plans[pod.uid].victims}]
        assert len(owners) == 1, f"{eviction.name} goes for {[pod.name for pod in owners]}"
        assert self.store[eviction.name].priority < owners[0].priority, f"{eviction} of the same or higher priority"
        victims = {victim.uid for member_plan in member_plans.values() for victim in member_plan.victims}
        planned: Counter[str] = Counter()
        for pod in members:
            planned[member_plans[pod.uid].node] += dict(pod.requests)[CPU]
        for where, wanted in planned.items():
            free = self._free(where, victims, members)
            assert wanted <= free, f"{wanted} do not fit on {where}, where {free} will be free"
        where = self.machine.driver.allocated[eviction.uid].node_name
        spared = self._free(where, victims - {eviction.uid}, members)
        assert planned[where] > spared, f"{eviction.name} goes for nothing"

    def _free(self, where: str, gone: set[str], members: list[Pod]) -> int:
        """So much is free there when these are gone, beside what is held for others of the same or higher priority."""
        ours, priority = {pod.uid for pod in members}, max(pod.priority for pod in members)
        placed = [
            pod for uid, pod in self.machine.driver.allocated.items() if pod.node_name == where and uid not in gone
        ]
        holds = [
            hold
            for uid, hold in self.algorithm._state.holds.items()
            if hold.node == where and uid not in ours and hold.priority >= priority
        ]
        taken = sum(dict(pod.requests)[CPU] for pod in placed) + sum(dict(hold.demand)[CPU] for hold in holds)
        return self.nodes[where] - taken
