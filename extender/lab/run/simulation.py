"""One algorithm on one workload, in virtual time: the state machine and the algorithm that run live, called by the
stand-in for kube-scheduler.

    arrivals, ends, node failures, returns --> [ a moment: all that happens at this time ]
                                                    |
                                                    v
    everything settles: pods are tried until none is to be tried --> time jumps to the next moment or timer --> ...

Decisions take no time. A pod that was evicted or lost its node is made again by its controller, a second later. The
same workload, options and seed give the same result, byte for byte, in every process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from algorithm.model import Node
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.lab.checking import check
from extender.lab.expecting import FGD, REMARK, with_expected
from extender.lab.measures import measures
from extender.lab.results import JobResult, Run, Stay
from extender.lab.run.clock import LabClock
from extender.lab.run.cluster import LabCluster
from extender.lab.run.event_queue import (
    EventQueue,
    JobGivesUp,
    NodeChanges,
    NodeFails,
    NodeReturns,
    PodsRecreated,
    RunEnds,
    SimulationEvent,
)
from extender.lab.run.jobs import Jobs
from extender.lab.run.live import LiveJob
from extender.lab.run.scheduling import LabScheduling
from extender.lab.run.usage import ClusterUsage
from extender.lab.translate import Traits, Translator, node_of
from extender.lab.workload import Workload
from extender.plan.run.configuration import configure
from extender.scheduling.faults import FaultKind

#: Attempts that end with an error, one after the other, before a run is given up; and evictions of one job.
MOST_ERRORS, MOST_EVICTIONS = 1000, 10_000
#: Faults of the algorithm that a result tells: those in which an answer was wrong, or did not come.
_WRONG, _MOST_FAULTS = (FaultKind.RAISED, FaultKind.BROKE_CONTRACT), 5


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run. `settings` is the text of a waggle.yaml, `scheduler` of a KubeSchedulerConfiguration."""

    algorithm: str
    #: What the run is called; "": as its algorithm.
    name: str = ""
    settings: str = ""
    scheduler: str = ""
    #: Of the choice between nodes that are equal to kube-scheduler.
    seed: int = 0
    #: Seconds after which the run is cut; None: it goes on until nothing happens any more.
    horizon: float | None = None
    #: Follow the run to the horizon although nothing happens any more.
    whole: bool = False
    #: Jobs save their work every so many seconds, and begin again from there; 0: from the beginning.
    saves_every: float = 0.0
    #: Every waiting pod is tried whenever something happens, as live, although it is like another one that was refused,
    #: or although it could not help. Slow: for checking that the results are the same.
    exhaustive: bool = False
    #: Whether every stay of a pod on a node is reported.
    stays: bool = False


class Ended(NamedTuple):
    """Results of jobs that are done, by number, and of stays that have ended."""

    done: dict[int, JobResult]
    stays: list[Stay]


def _unlike_others(_pod: SchedPod) -> None:
    """Return None: no pod has an equal."""


class Simulation:
    """One run of one algorithm. Raises WorkloadError, TranslationError (at the job's arrival, too), and PlanError for
    wrong settings."""

    def __init__(self, workload: Workload, options: RunOptions) -> None:
        check(workload)
        self.workload, self.options = workload, options
        settings = with_expected(options.settings, workload) if options.algorithm == FGD else options.settings
        self._remarks = () if settings == options.settings else (REMARK,)
        configuration = configure(settings, options.scheduler, algorithm=options.algorithm, seed=options.seed)
        self._translator = Translator(options.algorithm)
        self._clock, self._events = LabClock(), EventQueue()
        self._cluster = LabCluster(configuration.reads.decisions, self._clock)
        self._usage = ClusterUsage(workload.jobs)
        self.jobs = Jobs(
            self._cluster,
            self._usage,
            self._events,
            self._clock,
            self._translator,
            saves_every=options.saves_every,
            keeps_stays=options.stays,
        )
        self.scheduling = LabScheduling(
            self._cluster,
            configuration,
            self._clock,
            traits=Traits() if options.exhaustive else self._translator.traits,
            kind_of=_unlike_others if options.exhaustive else self.jobs.kind_of,
            has_devices=self.jobs.has_devices,
        )
        self._nodes = {machine.name: node_of(machine) for machine in workload.nodes}
        policy = configuration.policy
        #: Seconds for which timers are followed without a result: each of them can then fire once.
        self._patience = max(policy.lease, policy.reservation_timeout, policy.eviction_backoff, policy.patience) + 60.0
        self._progress, self._until, self._happened = -1, 0.0, 0
        self.arrived = 0
        self._stopped = ""
        self._is_over = False
        self._begin()

    @property
    def moment(self) -> float:
        """The current time, seconds from the beginning of the trace."""
        return self._clock.moment

    @property
    def fraction(self) -> float:
        """The progress, 0 to 1: half of it are jobs that have arrived, half are jobs that are done."""
        return (self.arrived + len(self.jobs.done)) / max(1, 2 * len(self.workload.jobs))

    def _begin(self) -> None:
        for node in self._nodes.values():
            self._cluster.bring_node(node)
            self._usage.add_node(node.node)
        for failure in self.workload.failures:
            self._events.push(failure.at, NodeFails(failure.node))
            if failure.until is not None:
                self._events.push(failure.until, NodeReturns(failure.node))
        for change in self.workload.changes:
            self._events.push(change.at, NodeChanges(change.record))
        for job in self.workload.jobs:
            if not job.begins_placed:
                break
            self.jobs.arrive(job, self.arrived)
            self.arrived += 1
        for _ in self.scheduling.load():
            pass
        self.jobs.begin(self.scheduling)
        while self._cluster.deliver():  # they are known
            pass
        self._cluster.listeners = [self.scheduling]

    # -- moments --------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Process all events of the next moment. Returns False if the run is over."""
        if self._is_over:
            return False
        at = self._next()
        horizon = self.options.horizon
        if at is None or (horizon is not None and at > horizon):
            goes_on = horizon is not None and (at is not None or self.options.whole)
            end = horizon if goes_on and horizon is not None else self.moment
            self._usage.pass_to(end)
            self._clock.jump(end)
            self._is_over = True
            return False
        self._usage.pass_to(at)
        self._clock.jump(at)
        self._happen(at)
        self._settle()
        self._give_up_if_hopeless()
        return not self._is_over

    def _next(self) -> float | None:
        """Return the time of the next event; None: there is none."""
        times = [time for time in (self._next_arrival(), self._events.next_time, self._timer()) if time is not None]
        return max(self.moment, min(times)) if times else None

    def _next_arrival(self) -> float | None:
        jobs = self.workload.jobs
        return jobs[self.arrived].arrival if self.arrived < len(jobs) else None

    def _timer(self) -> float | None:
        """Return when the next timer of kube-scheduler or Waggle fires; None also if timers have long had no effect."""
        due = self.scheduling.next_due()
        return due if due is not None and self._clock.time < due <= self._until else None

    def _happen(self, at: float) -> None:
        while (what := self._events.pop(at)) is not None:
            self._happened += 1
            self._carry_out(what)
        jobs = self.workload.jobs
        while self.arrived < len(jobs) and jobs[self.arrived].arrival <= at:
            self.jobs.arrive(jobs[self.arrived], self.arrived)
            self.arrived += 1
            self._happened += 1

    def _carry_out(self, what: SimulationEvent) -> None:
        match what:
            case RunEnds():
                self.jobs.end(what)
            case PodsRecreated():
                self.jobs.make_again(what.pods)
            case JobGivesUp():
                self.jobs.give_up(what.job)
            case NodeChanges():
                self._change(what.node)
            case NodeFails():
                self.jobs.node_failed(self._usage.remove_node(what.node))
                self._cluster.remove_node(what.node)
            case NodeReturns():
                self._cluster.bring_node(self._nodes[what.node])
                self._usage.add_node(self._nodes[what.node].node)

    def _change(self, record: Node) -> None:
        self._nodes[record.name] = SchedNode(node=record, raw=b"")
        if record.name in self._cluster.nodes:
            self._cluster.bring_node(self._nodes[record.name])

    # -- decisions ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Run both schedulers until neither has anything to do at this moment."""
        while self._step():
            pass
        progress = self._cluster.progress + self._happened
        if progress != self._progress:
            self._progress, self._until = progress, self._clock.time + self._patience

    def _step(self) -> bool:
        if self.jobs.take_news(self.scheduling) or self._cluster.deliver():  # jobs know first what became free
            return True
        if self._is_hopeless():
            return False
        # Without any node, kube-scheduler would only try again and again.
        return self.scheduling.step() if self._cluster.nodes else self.scheduling.step_without_attempts()

    def _is_hopeless(self) -> bool:
        return self.scheduling.errors >= MOST_ERRORS or self.jobs.most_evictions >= MOST_EVICTIONS

    def _give_up_if_hopeless(self) -> None:
        if self.scheduling.errors >= MOST_ERRORS:
            self._stopped = f"{MOST_ERRORS} attempts failed, one after the other: {self.scheduling.error}"
        elif self.jobs.most_evictions >= MOST_EVICTIONS:
            self._stopped = f"a job was evicted {MOST_EVICTIONS} times"
        self._is_over = self._is_over or bool(self._stopped)

    # -- checkpoints ----------------------------------------------------------------------------------------------

    @contextmanager
    def as_state(self) -> Iterator[Ended]:
        """Reduce the simulation to what a checkpoint needs, and restore it afterwards: no workload, and no results of
        ended jobs, which are yielded. Use it between two moments, and change nothing inside."""
        self.scheduling.core.forget()
        self._usage.forget()
        workload, ended = self.workload, Ended(self.jobs.done, self.jobs.stays)
        self.workload, self.jobs.done, self.jobs.stays = Workload(workload.name, ()), {}, []
        try:
            yield ended
        finally:
            self.complete(workload, ended)

    def complete(self, workload: Workload, ended: Ended) -> None:
        """Restore the workload, and the results of ended jobs, of a simulation that was read from a checkpoint."""
        self.workload, self.jobs.done, self.jobs.stays = workload, *ended

    # -- the result -----------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run to the end, and return the result."""
        while self.advance():
            pass
        return self.result()

    def result(self) -> Run:
        """Return the result up to now. Call it once: it ends the stays."""
        self.jobs.cut()
        jobs = tuple(self._job(number) for number in range(self.arrived))
        return Run(
            name=self.options.name or self.options.algorithm,
            algorithm=self.options.algorithm,
            seed=self.options.seed,
            jobs=jobs,
            series=self._usage.series.series(),
            measures=measures(jobs, self._usage.series),
            remarks=(*self._remarks, *self._translator.remarks, *self._faults()),
            stopped=self._stopped,
            attempts=self.scheduling.attempts,
            stays=tuple(self.jobs.stays),
        )

    def _faults(self) -> Iterator[str]:
        """Yield what the algorithm did wrong: a pod whose decision failed is tried again, and its job may be done."""
        faults = [fault for _, fault in self.scheduling.machine.driver.fault_log.known() if fault.kind in _WRONG]
        for fault in faults[:_MOST_FAULTS]:
            times = "once, in" if fault.count == 1 else f"{fault.count} times, at last in"
            yield f"the algorithm failed {times} {dataclasses.replace(fault, subject=_subject(fault.subject))}"
        if len(faults) > _MOST_FAULTS:
            yield f"the algorithm failed at {len(faults) - _MOST_FAULTS} more places"

    def _job(self, number: int) -> JobResult:
        done = self.jobs.done.get(number)
        if done is not None:
            return done
        job = self.jobs.live[number]
        return job.result(None, *self._why(job))

    def _why(self, job: LiveJob) -> tuple[str, str]:
        """Return why the first waiting pod of a job waits: a code and a text."""
        waiting = next((pod for pod in job.pods if not pod.node and not pod.done), None)
        if waiting is None:
            return "", ""
        uid = self.scheduling.core.queue.representative_of(waiting.uid)
        info = self.scheduling.machine.state.pods.get(uid)
        said = self.scheduling.texts.get(uid, "")
        if info is not None and info.reason is not None:
            return info.reason.code, info.reason.text
        return "", said


def _subject(subject: str) -> str:
    """What a fault is about. A job of a recording is called NAMESPACE/NAME, and its pods after it: once is enough."""
    kind, _, key = subject.partition(" ")
    namespace, _, name = key.partition("/")
    return f"{kind} {name}" if namespace and name.startswith(f"{namespace}/") else subject


def simulate(workload: Workload, options: RunOptions) -> Run:
    """Run a workload to its end, and return the result. Raises as `Simulation`."""
    return Simulation(workload, options).run()
