"""A recording as a workload, and as the results of what really happened: `Recorded`.

    made = FromLog(policy, algorithm, begin, name="...")     the recorded algorithm: it describes pods and gangs
    made.lives.begin(nodes, pods)                            what a checkpoint has; nothing at the start of a server
    made.lives.take(at, event, instructions)                 each step
    recorded = made.finish()

Nodes and pods keep their real records. A job arrives when the recorded scheduler could place it: a gang with its last
pod. It runs as long as it ran; one that ran when the recording ended, or never had a place, runs for ever. What a
recording does not have, and what had to be assumed, is a remark.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from algorithm.interface import SchedulerAlgorithm
from algorithm.model import CPU as CORES
from algorithm.model import MEMORY as BYTES
from algorithm.model import Node, Pairs, Pod, pairs
from extender.lab.job_results import unstarted
from extender.lab.recorded.durations import Durations
from extender.lab.recorded.jobs import BROKEN, Chain, Describer, RecordedJob, jobs_of, minimum_of
from extender.lab.recorded.lives import How, Lives, NodeLife, PodLife, likeness
from extender.lab.results import Ended, JobResult, JobState, Stay
from extender.lab.translate import GPUS, MODEL_LABEL
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, NodeChange, NodeFailure, Workload
from extender.scheduling.policy import Policy

#: Seconds in which a controller would have made a pod again.
SOON = 30.0
#: Seconds between the first and the last pod of a gang that are worth a remark.
_SPREAD = 60.0
_ENDED = {
    How.FINISHED: Ended.DONE,
    How.DELETED: Ended.DONE,
    How.EVICTED: Ended.EVICTED,
    How.NODE_LOST: Ended.FAILED,
    How.RESTARTED: Ended.RESTARTED,
}
#: What no recording has.
_NEVER_RECORDED = (
    "node selectors, affinities and tolerations of pods are not in a recording: pods may go to all nodes but those "
    "that kube-scheduler did not offer although they had room"
)


class Devices(NamedTuple):
    """What a node has that its record does not say: so many devices, of a type."""

    number: int
    type: str = ""


class GivenUp(NamedTuple):
    """Pods of a job that were deleted while they waited."""

    at: float
    job: str
    pods: int


class Recorded(NamedTuple):
    """`workload` for simulations; what became of its jobs really, in the same order; where their pods were; which were
    deleted while they waited; and until when, seconds."""

    workload: Workload
    jobs: tuple[JobResult, ...]
    stays: tuple[Stay, ...]
    given_up: tuple[GivenUp, ...]
    horizon: float


class FromLog:
    """Collects a recording, see above. `decisions` are the annotations that the recorded algorithm wrote on pods.
    `has_controllers`: the recording says of each pod whether a controller makes it again."""

    def __init__(
        self,
        policy: Policy,
        algorithm: SchedulerAlgorithm,
        begin: float,
        *,
        name: str = "recording",
        decisions: frozenset[str] = frozenset(),
        devices: Mapping[str, Devices] | None = None,
        has_controllers: bool = True,
    ) -> None:
        self.lives = Lives(policy, begin)
        self._name = name
        self._describer = Describer(algorithm)
        self._decisions = decisions
        self._devices = devices or {}
        self._has_controllers = has_controllers
        self._remarks: Counter[str] = Counter()

    def finish(self) -> Recorded:
        """Return the workload and what happened. Raises ValueError if there is no node or no pod."""
        lives = self.lives
        if not lives.nodes:
            raise ValueError("the recording has no node")
        lives.settle()
        found = jobs_of(lives.pods.values(), self._describer, has_controllers=self._has_controllers)
        jobs = list(self._without_gated(found))
        if self._describer.knows_no_gangs and (gangs := sum(bool(job.group) for job in jobs)):
            self._remarks["the recorded algorithm knows no gangs; a gang is what annotations of Waggle declare"] += (
                gangs
            )
        self._remarks.update(
            {f"the algorithm's {what}; the pod's own fields count": n for what, n in self._describer.failed.items()}
        )
        made = self._with_estimates([(job, self._job(job)) for job in jobs])
        made.sort(key=lambda each: (each[1].arrival, not _ran_before(each[0])))
        workload = Workload(
            self._name,
            tuple(job for _, job in made),
            tuple(self._node(life) for life in lives.nodes.values()),
            tuple(sorted(_failures(lives.nodes.values(), lives.now), key=lambda failure: failure.at)),
            self._all_remarks(),
            tuple(sorted(self._changes(), key=lambda change: change.at)),
        )
        results = tuple(self._result(recorded, job) for recorded, job in made)
        stays = tuple(stay for recorded, job in made for stay in self._stays(recorded, job))
        given_up = tuple(each for recorded, _ in made if (each := _given_up(recorded)) is not None)
        return Recorded(workload, results, stays, given_up, lives.now)

    def _with_estimates(self, made: list[tuple[RecordedJob, Job]]) -> list[tuple[RecordedJob, Job]]:
        """Give jobs whose run time is not known that of others that are like them."""
        durations = Durations()
        for _, job in made:
            if job.seconds is not None:
                durations.add(job)
        return [
            (recorded, self._estimated(recorded, job, durations) if _did_not_run_again(recorded) else job)
            for recorded, job in made
        ]

    def _estimated(self, recorded: RecordedJob, job: Job, durations: Durations) -> Job:
        seconds, of = durations.like(job)
        time = "to the end" if seconds is None else f"as long as the median of {of}"
        ran = max(_ran(life) for chain in recorded.chains for life in chain.lives)
        if not ran:
            self._remarks[f"a job never had places for all of its pods; if it gets them, it runs {time}"] += 1
            return replace(job, seconds=seconds)
        self._remarks[f"a job lost its place, and did not run again; it runs {time}, and longer than it did"] += 1
        return replace(job, seconds=None if seconds is None else max(seconds, ran + 1.0))

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _without_gated(self, jobs: Iterable[RecordedJob]) -> Iterator[RecordedJob]:
        """The jobs that could be placed. Of a gang that ran without its gated pods, the pods that ran."""
        for job in jobs:
            free = [chain for chain in job.chains if not chain.stayed_gated]
            if len(free) == len(job.chains):
                yield job
                continue
            self._remarks[
                "a pod kept its scheduling gate to the end; it is left out, with a gang that waited for it"
            ] += 1
            if free and all(chain.last.placed is not None for chain in free):
                yield dataclasses.replace(job, chains=free)

    def _job(self, recorded: RecordedJob) -> Job:
        chains, wish = recorded.chains, recorded.wish
        is_gang = bool(recorded.group) and len(chains) > 1
        arrivals = [chain.first.arrival for chain in chains]
        if is_gang and max(arrivals) - min(arrivals) > _SPREAD:
            self._remarks["a gang came over more than a minute; it counts from its last pod on"] += 1
        if is_gang and (minimum := minimum_of(chains[0].first.record)) is not None and minimum < len(chains):
            self._remarks["a gang may begin with fewer pods than it has; it counts as started with all of them"] += 1
        wishes = [self._describer.wish(chain.first.record) for chain in chains]
        if any(each.requests != wish.requests for each in wishes):
            self._remarks["pods of a gang ask for different amounts; the sums use the largest"] += 1
        requests = {name: max(each.requests[name] for each in wishes) for name in wish.requests}
        return Job(
            name=recorded.name,
            arrival=max(arrivals),
            requests={name: amount for name, amount in requests.items() if amount},
            seconds=self._seconds(recorded),
            pods=len(chains),
            gang=is_gang,
            priority=wish.priority,
            tenant=wish.tenant,
            gpu_models=wish.models,
            patience=_patience(chains, max(arrivals)),
            excluded=self._excluded(chains),
            again=self._is_made_again(chains),
            templates=tuple(self._template(chain.first) for chain in chains),
        )

    def _is_made_again(self, chains: list[Chain]) -> bool:
        """Whether a controller makes its pods again. Where that was not recorded, what happened tells it, if it did."""
        if any(len(chain.lives) > 1 or chain.first.record.controlled for chain in chains):
            return True
        lost = [chain.last.end for chain in chains if chain.last.how in BROKEN and chain.last.end is not None]
        if lost and self.lives.now - min(lost) > SOON:
            self._remarks["a job was evicted, or lost its node, and nobody made it again: nobody does so here"] += 1
            return False
        return not self._has_controllers

    def _excluded(self, chains: list[Chain]) -> tuple[str, ...]:
        """The nodes that no pod of the job can go to."""
        found: set[str] | None = None
        for kind in {likeness(chain.first.record) for chain in chains}:
            excluded = set(self.lives.offers.excluded(kind))
            found = excluded if found is None else found & excluded
        if found:
            self._remarks["a job can not go to nodes that had room and were not offered"] += 1
        return tuple(sorted(found or ()))

    def _seconds(self, recorded: RecordedJob) -> float | None:
        """How long the last run took; None: that is not known."""
        last = [chain.last for chain in recorded.chains]
        if _did_not_run_again(recorded):
            return None
        ends = [life.end for life in last if life.end is not None and life.how not in BROKEN]
        if len(ends) < len(last):
            self._remarks["a job ran when the recording ended; it runs to the end"] += 1
            return None
        return max(ends) - max(life.placed for life in last if life.placed is not None)

    def _template(self, life: PodLife) -> Pod:
        if life.ran_before and self._is_there_from_the_beginning(life.node):
            self._remarks["a pod ran when the recording began; it runs on its node from the beginning"] += 1
            return life.record
        kept: Pairs = tuple(pair for pair in life.record.annotations if pair[0] not in self._decisions)
        return replace(life.record, annotations=kept, node_name="", nominated_node_name="", phase="Pending")

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _is_there_from_the_beginning(self, name: str) -> bool:
        node = self.lives.nodes.get(name)
        return node is not None and node.there[0][0] == 0

    def _node(self, life: NodeLife) -> MachineNode:
        node = life.record
        if any(dict(record.allocatable) != dict(node.allocatable) for _, record in life.changes):
            self._remarks["a node got more or fewer resources; it has those of the beginning"] += 1
        record = self._node_record(node, node)
        amounts = dict(record.allocatable)
        capacity = {CPU: amounts.get(CORES, 0), MEMORY: amounts.get(BYTES, 0), GPU: self._gpus(node) * 1000}
        return MachineNode(node.name, {name: n for name, n in capacity.items() if n}, self._model(node), record=record)

    def _node_record(self, first: Node, node: Node) -> Node:
        """A record of the node as simulations use it: with the resources of its first one, and without taints."""
        amounts = dict(first.allocatable)
        gpus = self._gpus(first)
        if gpus and GPUS not in amounts:
            amounts[GPUS] = gpus  # so that its devices are counted; the recorded algorithm does not read them
        for other in self._others_on(first.name):
            amounts.update({name: max(0, amounts[name] - n) for name, n in other.record.requests if name in amounts})
        model = self._model(first)
        labels = dict(node.labels) | ({MODEL_LABEL: model} if model else {})
        return replace(node, allocatable=tuple(sorted(amounts.items())), labels=pairs(labels), taints=())

    def _model(self, node: Node) -> str:
        known = self._devices.get(node.name)
        return known.type if known is not None else ""

    def _changes(self) -> Iterator[NodeChange]:
        for life in self.lives.nodes.values():
            for at, record in life.changes:
                yield NodeChange(at, self._node_record(life.record, record))

    def _gpus(self, node: Node) -> int:
        amounts = dict(node.allocatable)
        if GPUS in amounts:
            return amounts[GPUS]
        known = self._devices.get(node.name)
        return known.number if known is not None else sum(n for name, n in amounts.items() if "/" in name)

    def _others_on(self, node: str) -> Iterator[PodLife]:
        """Pods that are not Waggle's and were there all the time: what they take is not the node's any more."""
        for life in self.lives.others.values():
            if life.node == node and life.ran_before and life.end is None:
                yield life

    def _all_remarks(self) -> tuple[str, ...]:
        remarks = Counter(self._remarks) + self.lives.left_out
        stayed = sum(life.ran_before and life.end is None for life in self.lives.others.values())
        passing = sum(life.placed is not None for life in self.lives.others.values()) - stayed
        if stayed:
            remarks["a pod of another scheduler took room all the time; that is taken off its node"] = stayed
        if passing > 0:
            remarks["a pod of another scheduler came or went; it is left out"] = passing
        counted = [f"{text} ({number} {'time' if number == 1 else 'times'})" for text, number in remarks.items()]
        return (_NEVER_RECORDED, *counted)

    # -- what really happened -------------------------------------------------------------------------------------

    def _result(self, recorded: RecordedJob, job: Job) -> JobResult:
        chains = recorded.chains
        places = [[life.placed for life in chain.lives if life.placed is not None] for chain in chains]
        first = [min(each) for each in places if each]
        broken = [life for chain in chains for life in chain.lives if life.how in BROKEN]
        lost = sum(_ran(life) for life in broken)
        waiting = next((chain.last for chain in chains if chain.last.placed is None and chain.last.why), None)
        why = waiting.why if waiting is not None else None
        end = self._end(recorded)
        return replace(
            unstarted(job),
            state=_state(chains, end),
            first_start=max(job.arrival, min(first)) if first else None,
            start=max(job.arrival, *first) if len(first) == len(chains) else None,
            end=end,
            evictions=sum(life.how is How.EVICTED for life in broken),
            failures=sum(life.how is How.NODE_LOST for life in broken),
            lost_gpu_milli_seconds=lost * job.requests.get(GPU, 0),
            lost_cpu_milli_seconds=lost * job.requests.get(CPU, 0),
            code=why.code if why is not None else "",
            text=why.text if why is not None else "",
        )

    def _end(self, recorded: RecordedJob) -> float | None:
        last = [chain.last for chain in recorded.chains]
        if any(life.end is None or life.placed is None or life.how in BROKEN for life in last):
            return None
        return max(life.end for life in last if life.end is not None)

    def _stays(self, recorded: RecordedJob, job: Job) -> Iterator[Stay]:
        for number, chain in enumerate(recorded.chains):
            for life in chain.lives:
                if life.placed is not None:
                    ended = Ended.CUT if life.how is None else _ENDED[life.how]
                    end = self.lives.now if life.end is None else life.end
                    yield Stay(job=job.name, pod=number, node=life.node, start=life.placed, end=end, ended=ended)


def _did_not_run_again(job: RecordedJob) -> bool:
    """Whether its last run is not known: a pod of it has no place in the end, or lost it for good."""
    return any(chain.last.placed is None or chain.last.how in BROKEN for chain in job.chains)


def _ran(life: PodLife) -> float:
    return 0.0 if life.placed is None or life.end is None else life.end - life.placed


def _ran_before(job: RecordedJob) -> bool:
    return any(chain.first.ran_before for chain in job.chains)


def _patience(chains: list[Chain], arrival: float) -> float | None:
    """How long a job waited that never had a place, and was deleted; None: it is none."""
    lives = [life for chain in chains for life in chain.lives]
    if any(life.placed is not None or life.end is None for life in lives):
        return None
    return max(0.0, max(life.end or 0.0 for life in lives) - arrival)


def _given_up(job: RecordedJob) -> GivenUp | None:
    """The pods of the job that were deleted before they had a place, as if all of them at the last deletion."""
    waited = [chain for chain in job.chains if chain.last.placed is None and chain.last.end is not None]
    if not waited:
        return None
    return GivenUp(max(chain.last.end or 0.0 for chain in waited), job.name, len(waited))


def _state(chains: list[Chain], end: float | None) -> JobState:
    if end is not None:
        return JobState.DONE
    there = [chain.last.placed is not None and chain.last.how not in BROKEN for chain in chains]
    return JobState.RUNNING if all(there) else JobState.PARTLY if any(there) else JobState.WAITING


def _failures(nodes: Iterable[NodeLife], until: float) -> Iterator[NodeFailure]:
    """When nodes were not there: before they came, and after they went."""
    for life in nodes:
        gone = 0.0
        for begin, end in life.there:
            if begin > gone:
                yield NodeFailure(life.record.name, gone, begin)
            gone = math.inf if end is None else end
        if gone < until:
            yield NodeFailure(life.record.name, gone)
