"""The jobs of a simulation: their pods come to the cluster, get places, run, lose their places, and end.

All reports of the cluster come through `take_news`: which pods were bound, and which had to make room.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from extender.embedded.kubescheduler.model import SchedPod
from extender.lab.results import Ended, JobResult, Stay
from extender.lab.run.clock import LabClock
from extender.lab.run.cluster import LabCluster
from extender.lab.run.event_queue import EventQueue, JobGivesUp, PodsRecreated, RunEnds
from extender.lab.run.live import LiveJob, LivePod
from extender.lab.run.scheduling import LabScheduling
from extender.lab.run.usage import ClusterUsage
from extender.lab.translate import Translator, need_of
from extender.lab.workload import Job
from extender.plan.run.store import Gone

#: Seconds until a controller has made a pod again.
MADE_AGAIN_AFTER = 1.0


class Jobs:
    """All jobs of a run that have arrived. `saves_every`: seconds of run time between two saves; an interrupted job
    continues from its last save. 0: it starts from the beginning."""

    def __init__(
        self,
        cluster: LabCluster,
        usage: ClusterUsage,
        events: EventQueue,
        clock: LabClock,
        translator: Translator,
        *,
        saves_every: float,
        keeps_stays: bool,
    ) -> None:
        self._cluster, self._usage, self._events, self._clock = cluster, usage, events, clock
        self._translator = translator
        self._saves_every, self._keeps_stays = saves_every, keeps_stays
        self._kinds: dict[Hashable, int] = {}
        self._owners: dict[str, LivePod] = {}
        #: Jobs that have come and are not done, and results of those that are, by number.
        self.live: dict[int, LiveJob] = {}
        self.done: dict[int, JobResult] = {}
        self.stays: list[Stay] = []
        #: The largest number of evictions of one job.
        self.most_evictions = 0

    def kind_of(self, pod: SchedPod) -> Hashable | None:
        """Return the kind of a waiting pod (`queue`). None: the pod has no equal, such
        as one of a gang of which some pods have places."""
        owner = self._owners.get(pod.uid)
        if owner is None or pod.pod.nominated_node_name:
            return None
        job = owner.job
        return None if job.placed and job.is_gang else job.kind

    def has_devices(self, pod: SchedPod, node: str) -> bool:
        """Return whether the node has enough free GPUs for the pod."""
        owner = self._owners.get(pod.uid)
        return owner is None or self._usage.has_devices(node, owner.job.taken)

    # -- arrivals -------------------------------------------------------------------------------------------------

    def arrive(self, job: Job, number: int) -> None:
        """Add a job that arrives, and create all of its pods."""
        kind = self._translator.kind(job)
        live = LiveJob(
            job,
            number,
            records=self._translator.pods(job),
            taken=self._translator.need(job),
            need=need_of(job),
            kind=None if kind is None else self._kinds.setdefault(kind, len(self._kinds)),
        )
        self.live[number] = live
        self._usage.series.count("arrivals")
        self._usage.waiting_jobs += 1
        self._usage.waiting_pods += job.pods
        if job.patience is not None:
            self._events.push(job.arrival + job.patience, JobGivesUp(live))
        for pod in live.pods:
            self._bring(pod)

    def _bring(self, pod: LivePod) -> None:
        job = pod.job
        pod.uid = f"{job.number}.{pod.number}" + (f"~{pod.made}" if pod.made else "")
        self._owners[pod.uid] = pod
        self._cluster.bring(job.record(pod.number), pod.uid, job.name(pod.number), again=pod.made > 0)

    def make_again(self, pods: Iterable[LivePod]) -> None:
        for pod in pods:
            self._bring(pod)

    # -- places ---------------------------------------------------------------------------------------------------

    def begin(self, scheduling: LabScheduling) -> None:
        """Add the pods that already run when the simulation begins."""
        for job in self.live.values():
            for pod in job.pods:
                if self._cluster.record(pod.uid).node_name:
                    self._placed(pod, scheduling)

    def take_news(self, scheduling: LabScheduling) -> bool:
        """Process the pods that were bound and evicted since the last call. Returns False if there were none."""
        cluster = self._cluster
        if not (cluster.newly_bound or cluster.evicted):
            return False
        bound, cluster.newly_bound = cluster.newly_bound, []
        for uid in bound:
            if uid in cluster.pods:
                self._placed(self._owners[uid], scheduling)
        evicted, cluster.evicted = cluster.evicted, []
        for gone in evicted:
            pod = self._owners.get(gone.pod.uid)
            if pod is not None:
                self._lost([pod], Ended.EVICTED)
        return True

    def _placed(self, pod: LivePod, scheduling: LabScheduling) -> None:
        job, now = pod.job, self._clock.moment
        record = self._cluster.record(pod.uid)
        self._usage.place(record, job.taken)
        if pod.placed_at is None:
            job.ever_placed += 1
        pod.node, pod.placed_at = record.node_name, now
        job.placed += 1
        self._usage.waiting_pods -= 1
        if job.first_start is None:
            job.first_start = now
        if job.is_gang and job.placed == 1:
            scheduling.core.queue.reconsider([each.uid for each in job.pods])
        if not job.waiting:
            self._usage.waiting_jobs -= 1
            self._usage.running_jobs += 1
        if job.start is None and (not job.waiting if job.is_gang else job.ever_placed == len(job.pods)):
            job.start = now
        if not job.is_gang:
            self._begin(job, pod)
        elif not job.waiting:
            self._begin(job, None)

    def _begin(self, job: LiveJob, pod: LivePod | None) -> None:
        """Start the run of a gang, or of one pod of another job."""
        now = self._clock.moment
        for each in job.pods if pod is None else (pod,):
            each.since = now
            self._count_running(job, 1)
        if job.job.seconds is not None:
            saved = job.pods[0].saved if pod is None else pod.saved
            epoch = job.epoch if pod is None else pod.made
            self._events.push(now + max(0.0, job.job.seconds - saved), RunEnds(job, pod, epoch))

    def _count_running(self, job: LiveJob, number: int) -> None:
        self._usage.gpus_running += number * job.need.all_milli
        self._usage.cpus_running += number * job.need.cpu

    # -- ends -----------------------------------------------------------------------------------------------------

    def end(self, what: RunEnds) -> None:
        """End a run whose time is over."""
        job = what.job
        for pod in job.pods if what.pod is None else (what.pod,):
            self._leave(pod, Ended.DONE)
            pod.done = True
            job.ended += 1
            self._cluster.delete(pod.uid, Gone.DELETED)
        if job.ended < len(job.pods):
            return
        if job.is_broken:
            self._end_broken(job)
            return
        self._usage.running_jobs -= 1
        self._usage.series.count("ends")
        self.done[job.number] = job.result(self._clock.moment)
        del self.live[job.number]

    def _leave(self, pod: LivePod, why: Ended) -> None:
        """Remove a pod from its node, and forget its UID."""
        job = pod.job
        del self._owners[pod.uid]
        if not pod.node:
            return
        if pod.since is not None:
            self._count_running(job, -1)
        self._usage.leave(pod.uid)
        if self._keeps_stays:
            self.stays.append(self._stay(pod, why))
        job.placed -= 1
        pod.node, pod.since = "", None

    def _stay(self, pod: LivePod, why: Ended) -> Stay:
        assert pod.placed_at is not None
        return Stay(
            job=pod.job.job.name,
            pod=pod.number,
            node=pod.node,
            start=pod.placed_at,
            end=self._clock.moment,
            ended=why,
        )

    def give_up(self, job: LiveJob) -> None:
        """Delete a job whose patience is over."""
        for pod in job.pods:
            self._leave(pod, Ended.DONE)
            self._cluster.delete(pod.uid, Gone.DELETED)
        self._usage.waiting_jobs -= 1
        self._usage.waiting_pods -= len(job.pods)
        self.done[job.number] = job.result(None, text=f"deleted after it had waited for {job.job.patience:.0f} s")
        del self.live[job.number]

    # -- losses ---------------------------------------------------------------------------------------------------

    def node_failed(self, uids: Iterable[str]) -> None:
        """Process the loss of the pods of a node that failed."""
        lost: dict[int, list[LivePod]] = {}
        for uid in uids:
            pod = self._owners[uid]
            lost.setdefault(pod.job.number, []).append(pod)
        for pods in lost.values():
            self._lost(pods, Ended.FAILED)

    def _lost(self, pods: list[LivePod], why: Ended) -> None:
        """Restart a job of which these pods have lost their nodes: a gang as a whole, of another job these pods."""
        job = pods[0].job
        failed = why is Ended.FAILED
        job.failures += failed
        job.evictions += not failed
        self.most_evictions = max(self.most_evictions, job.evictions)
        self._usage.series.count("failures" if failed else "evictions")
        was_waiting = job.waiting > 0
        again = job.pods if job.is_gang else pods
        for pod in again:
            waits = not pod.node
            self._count_loss(pod)
            self._leave(pod, why if pod in pods else Ended.RESTARTED)
            self._usage.waiting_pods += not waits
            self._cluster.delete(pod.uid, Gone.DELETED)
            pod.made += 1
        job.epoch += 1
        if not job.job.again:
            self._end_without(again, job, was_waiting=was_waiting)
            return
        if not was_waiting:
            self._usage.waiting_jobs += 1
            self._usage.running_jobs -= 1
        self._events.push(self._clock.moment + MADE_AGAIN_AFTER, PodsRecreated(tuple(again)))

    def _end_without(self, lost: Sequence[LivePod], job: LiveJob, *, was_waiting: bool) -> None:
        """Remove pods that no controller replaces. The job ends with its last pod, and does not count as done."""
        job.is_broken = True
        self._usage.waiting_pods -= len(lost)
        for pod in lost:
            pod.done = True
            job.ended += 1
        if job.ended < len(job.pods):
            return
        if was_waiting:
            self._usage.waiting_jobs -= 1
            self._usage.running_jobs += 1
        self._end_broken(job)

    def _end_broken(self, job: LiveJob) -> None:
        self._usage.running_jobs -= 1
        self.done[job.number] = job.result(None, text="evicted, or lost its node, and nobody made it again")
        del self.live[job.number]

    def _count_loss(self, pod: LivePod) -> None:
        if pod.since is None:
            return
        job, ran = pod.job, self._clock.moment - pod.since
        kept = 0.0
        if self._saves_every:
            kept = (pod.saved + ran) // self._saves_every * self._saves_every - pod.saved
        pod.saved += kept
        job.lost += (ran - kept) * job.need.all_milli
        job.lost_cpu += (ran - kept) * job.need.cpu

    def cut(self) -> None:
        """Record the stays that the end of the simulation cuts off, if stays are reported."""
        if self._keeps_stays:
            self.stays += [self._stay(pod, Ended.CUT) for job in self.live.values() for pod in job.pods if pod.node]
