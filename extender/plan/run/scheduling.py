"""kube-scheduler and Waggle's engine of pods in one plan, with nothing between them but calls.

    PlanCluster -- changes --> Scheduling --> kube-scheduler's Core --- filter, preempt, bind --> SchedulerStateMachine
         ^                         |                                                                    |
         +---- binds, evictions, conditions, annotations: carried out at once <---------- commands -----+

One step is one attempt, or one command that is carried out. What an attempt writes is reported after it, as to a client
of the API server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from algorithm.interface import Phase, PodRefused, SchedulerAlgorithm
from algorithm.model import Node, Pod, pairs
from algorithm.reads import Reads
from algorithm.reasons import Code, Reason, reason
from algorithm.suggested_nodes import SuggestedNodes
from extender.core.outcomes import Outcome, OutcomeKind
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import BindPod, Core, EmitEvent, PatchStatus
from extender.embedded.kubescheduler.core import Evict as EvictByScheduler
from extender.embedded.kubescheduler.core import Outcome as Attempt
from extender.embedded.kubescheduler.core import Write as SchedulerWrite
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.plan.records import PlanPod
from extender.plan.run.clock import PlanClock
from extender.plan.run.configuration import Configuration
from extender.plan.run.extender import PlanExtender
from extender.plan.run.store import Gone, PlanCluster
from extender.scheduling.bootstrap import by_age
from extender.scheduling.commands import (
    BindFinished,
    Command,
    Evict,
    EvictFinished,
    PodRead,
    PreemptionRecorded,
    ReadPod,
    RecordEvent,
    RecordPreemption,
    RequeuePod,
    WriteBinding,
)
from extender.scheduling.events import Event, Instruction, NodeGone, NodeSeen, PodGone, PodSeen, Synced, Ticked
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.writes.preemption_mark import ANNOTATION as PREEMPTION
from extender.scheduling.writes.requeue import ANNOTATION as REQUEUE

#: Records that are loaded in one step.
_PIECE = 200
#: Different declarations of pods about which the algorithm is asked whether it refuses them.
_DECLARATIONS = 40
_DONE = Outcome(OutcomeKind.DONE)
_GONE = Outcome(OutcomeKind.GONE)
#: As the API server says it.
_PROTECTED = Outcome(OutcomeKind.REJECTED, "Cannot evict pod as it would violate the pod's disruption budget.")


class Scheduling:
    """A `Listener`."""

    def __init__(self, cluster: PlanCluster, configuration: Configuration, clock: PlanClock) -> None:
        self._cluster = cluster
        self._clock = clock
        self.machine = SchedulerStateMachine(configuration.algorithm, configuration.policy)
        extenders = [PlanExtender(each, self._ask, self.record) for each in configuration.scheduler.extenders]
        self.core = self._new_core(configuration.scheduler, extenders)
        #: How the last attempt of each pod ended, and how many attempts there were.
        self.last: dict[str, Attempt] = {}
        self.attempts = 0
        self._reads: Reads = configuration.reads
        self._records: dict[str, Pod] = {}
        self._commands: deque[Command] = deque()
        self._requeues = 0
        self._refusals: dict[Hashable, Reason | None] = {}

    def _new_core(self, config: SchedulerConfig, extenders: Sequence[Extender]) -> Core:
        return Core(config, extenders, now=self._clock.time)

    # -- what happens ---------------------------------------------------------------------------------------------

    def load(self) -> Iterator[None]:
        """Take in the cluster as it is: nodes, bound pods from the oldest on, then the rest, as at a server's start."""
        for number, node in enumerate(list(self._cluster.nodes.values())):
            self.node_seen(node)
            if number % _PIECE == 0:
                yield
        for budget in self._cluster.budgets.values():
            self.budget_seen(budget)
        pods = list(self._cluster.pods.values())
        for number, pod in enumerate(sorted(pods, key=_in_loading_order)):
            self._tell(PodSeen(self._take_record(pod.pod)))
            if number % _PIECE == 0:
                yield
        self._tell(Synced())
        for number, pod in enumerate(pods):
            self.core.pod_seen(pod.pod, self._clock.read())
            if number % _PIECE == 0:
                yield

    def node_seen(self, node: SchedNode, /) -> None:
        self._reads = self._reads.and_of(name for name, _ in node.node.allocatable)
        self._tell(NodeSeen(self._slim_node(node.node)))
        self.core.node_seen(node, self._clock.read())

    def node_gone(self, name: str, /) -> None:
        self._tell(NodeGone(name))
        self.core.node_gone(name, self._clock.read())

    def budget_seen(self, budget: Budget, /) -> None:
        self.core.budget_seen(budget)

    def pod_seen(self, pod: PlanPod, /) -> None:
        self._tell(PodSeen(self._take_record(pod.pod)))
        known = self.core.pod(pod.pod.uid)
        if known is not None and known.priority != pod.pod.priority and not pod.pod.pod.node_name:
            self.core.pod_gone(pod.pod.uid, self._clock.read())  # its queue expects that a priority never changes
        self.core.pod_seen(pod.pod, self._clock.read())

    def pod_gone(self, pod: PlanPod, /) -> None:
        self._records.pop(pod.pod.uid, None)
        namespace, name = pod.pod.key
        self._tell(PodGone(namespace, name, pod.pod.uid))
        self.core.pod_gone(pod.pod.uid, self._clock.read())

    def refusal(self, pod: SchedPod) -> Reason | None:
        """Return why the algorithm refuses the pod as it is declared, whatever room there is; None if it does not.

        kube-scheduler does not ask it about a pod that fits nowhere, but more room would not help such a pod. It is not
        asked about more than some declarations.
        """
        record = self.record(pod)
        driver = self.machine.driver
        if pod.uid not in driver.unallocated or not self._cluster.nodes:
            return None
        declared = record.namespace, record.requests, record.annotations, record.group
        if declared not in self._refusals and len(self._refusals) < _DECLARATIONS:
            self._refusals[declared] = _refusal(driver.algorithm, record, self._cluster.nodes)
        return self._refusals.get(declared)

    # -- the records of the state machine -------------------------------------------------------------------------

    def _take_record(self, pod: SchedPod) -> Pod:
        record = self._records[pod.uid] = self._slim(pod.pod)
        return record

    def record(self, pod: SchedPod) -> Pod:
        """The pod as the state machine has it."""
        record = self._records.get(pod.uid)
        if record is None or record.resource_version != pod.resource_version:
            return self._slim(pod.pod)
        return record

    def _slim(self, pod: Pod) -> Pod:
        """The pod with the annotations that informers keep."""
        if not pod.annotations:
            return pod
        return replace(
            pod, annotations=pairs(self._reads.annotations(dict(pod.annotations), decided=bool(pod.node_name)))
        )

    def _slim_node(self, node: Node) -> Node:
        if not node.annotations or self._reads.of_nodes is None:
            return node
        return replace(node, annotations=tuple(pair for pair in node.annotations if pair[0] in self._reads.of_nodes))

    # -- work -----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Carry out one command, or make one attempt."""
        if self._has_carried_out() or self._tick():
            return True
        # kube-scheduler looks at pods that waited for long only every half a minute.
        self.core.tick(self._clock.time)
        queued = self.core.next_pod()
        if queued is None:
            return False
        self._attempt(queued.pod)
        return True

    def _has_carried_out(self) -> bool:
        if not self._commands:
            return False
        self._carry_out(self._commands.popleft())
        return True

    def _tick(self) -> bool:
        """The state machine's timer fires when it is due."""
        due = self.machine.next_due()
        if due is None or due > self._clock.time:
            return False
        self._tell(Ticked())
        return True

    def next_due(self) -> float | None:
        """When the state machine, or a pod whose attempt failed with an error, has something to do.

        kube-scheduler's retry of pods that wait for over five minutes does not count: nothing has changed for them.
        """
        times = (self.machine.next_due(), self.core.queue.next_error_tick)
        return min((time for time in times if time is not None), default=None)

    def _attempt(self, pod: SchedPod) -> None:
        self.attempts += 1
        attempt = self.core.decide(pod)
        self.last[pod.uid] = attempt
        for write in self.core.conclude(pod, attempt, self._clock.read()):
            self._write(write)

    def _write(self, write: SchedulerWrite) -> None:
        match write:
            case PatchStatus():
                self._cluster.patch(write.pod.uid, condition=write.condition, nominated=write.nominated_node)
            case BindPod():
                error = self._bind(write)
                for more in self.core.bind_done(write.pod, write.node, error, self._clock.read()):
                    self._write(more)
            case EvictByScheduler():
                why = reason(Code.PREEMPTED, preemptor=str(write.pod.key))
                for victim in write.victims:
                    self._cluster.delete(victim.uid, Gone.EVICTED, why)
                deleted = [victim.uid for victim in write.victims]
                self.core.preemption_done(write, deleted, self._clock.read())
            case EmitEvent():
                pass

    def _bind(self, write: BindPod) -> str | None:
        extender: Extender | None = write.extender
        if extender is not None:
            try:
                extender.bind(write.pod, write.node)
            except ExtenderError as error:
                if not extender.config.ignorable:
                    return str(error)
            else:
                return None
        return None if self._cluster.bind(write.pod.uid, write.node) else f"pod {write.pod.key} cannot be bound"

    # -- the state machine ----------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        self._ask(event)

    def _ask(self, event: Event) -> list[Instruction]:
        """Give an event to the state machine. Bindings are written at once, so a bind is answered; other commands are
        carried out in later steps."""
        answers: list[Instruction] = []
        events = deque([event])
        while events:
            for each in self.machine.handle(events.popleft(), self._clock.read()):
                if isinstance(each, WriteBinding):
                    done = self._cluster.bind(each.uid, each.node, each.annotations)
                    events.append(BindFinished(each.token, _DONE if done else _GONE))
                elif isinstance(each, Command):
                    self._commands.append(each)
                else:
                    answers.append(each)
        return answers

    def _carry_out(self, command: Command) -> None:
        match command:
            case Evict():
                self._evict(command)
            case RecordPreemption():
                done = self._cluster.patch(command.uid, annotation=(PREEMPTION, command.value or None))
                self._tell(PreemptionRecorded(command.token, _DONE if done else _GONE, command.uid))
            case RequeuePod():
                self._requeues += 1
                self._cluster.patch(command.uid, annotation=(REQUEUE, str(self._requeues)))
            case ReadPod():
                found = self._cluster.named(command.namespace, command.name)
                pod = None if found is None else self._slim(found.pod.pod)
                self._tell(PodRead(command.token, _GONE if pod is None else _DONE, pod))
            case WriteBinding() | RecordEvent():
                pass

    def _evict(self, command: Evict) -> None:
        """Evict as the Eviction API does: budgets may forbid it."""
        pod = self._cluster.pods.get(command.uid)
        outcome = _GONE if pod is None else _DONE
        if pod is not None and not self._cluster.may_evict(pod.pod):
            outcome = _PROTECTED
        elif pod is not None and not command.dry_run:
            self._cluster.delete(command.uid, Gone.EVICTED, reason(Code.PREEMPTED, preemptor=str(command.preemptor)))
        self._tell(EvictFinished(command.token, outcome, command.uid, command.dry_run))


def _in_loading_order(pod: PlanPod) -> tuple[bool, str, str, str]:
    return (not pod.pod.pod.node_name, *by_age(pod.pod.pod))


def _refusal(algorithm: SchedulerAlgorithm, pod: Pod, nodes: Iterable[str]) -> Reason | None:
    try:
        algorithm.schedule(pod, SuggestedNodes(nodes), Phase.FILTERING)
    except PodRefused as refused:
        return refused.reason
    except KeyboardInterrupt:
        raise
    except BaseException:  # a fault of the algorithm, which may call sys.exit(): the filters' own reason stands
        return None
    return None
