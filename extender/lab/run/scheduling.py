"""kube-scheduler and Waggle as in plans, fast enough for a million pods: an event queues only pods that it may help.

Conditions of pods, Events, and the diagnosis of an attempt are left out: nothing in a simulation reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import Core, PatchStatus, Result, Write
from extender.embedded.kubescheduler.events import ClusterEvent
from extender.embedded.kubescheduler.extenders import Extender
from extender.embedded.kubescheduler.model import SchedPod
from extender.lab.run.clock import LabClock
from extender.lab.run.cluster import LabCluster
from extender.lab.run.queue import KindQueue
from extender.lab.run.queueing_hints import HasDevices, QueueingHints
from extender.lab.translate import Traits
from extender.plan.records import PlanPod
from extender.plan.run.configuration import Configuration
from extender.plan.run.scheduling import Scheduling

KindOf = Callable[[SchedPod], Hashable | None]


class LabCore(Core):
    """kube-scheduler's core. It queues a pod only if an event could help it, as far as the algorithm's traits tell."""

    def __init__(
        self,
        config: SchedulerConfig,
        extenders: Sequence[Extender],
        *,
        now: float,
        traits: Traits,
        kind_of: KindOf,
        has_devices: HasDevices,
    ) -> None:
        super().__init__(config, extenders, now=now)
        self._traits = traits
        self._hints = QueueingHints(self.cluster, traits, has_devices, config.ignored_resources)
        self.queue: KindQueue = KindQueue(
            kind_of,
            self._hints,
            now=now,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            retries_in_time=not traits.binds_help_nobody,
        )

    def _bound(self, pod: SchedPod, now: float) -> None:
        if not self._traits.binds_help_nobody:
            super()._bound(pod, now)
            return
        self.queue.delete(pod.uid)
        self.cluster.end_nomination(pod.uid)
        self.cluster.set_bound(pod)

    def _no_room_taken(self, pod: SchedPod, now: float) -> None:
        self.queue.delete(pod.uid)
        nominated = self.cluster.end_nomination(pod.uid)
        place = self.cluster.place_of(pod.uid)
        if place is not None:
            self.cluster.remove_pod(pod.uid)
            self.queue.happened(
                ClusterEvent.ASSIGNED_POD_DELETE, now, hint=self._hints.room_on(place, pod), by_room=True
            )
        elif nominated:
            self._nomination_ended(pod, now)


class LabScheduling(Scheduling):
    """A `Listener` of the cluster that runs both schedulers. `kind_of` returns the kind of a waiting pod (`queue`)."""

    core: LabCore

    def __init__(
        self,
        cluster: LabCluster,
        configuration: Configuration,
        clock: LabClock,
        *,
        traits: Traits,
        kind_of: KindOf,
        has_devices: HasDevices,
    ) -> None:
        self._traits, self._kind_of, self._has_devices = traits, kind_of, has_devices
        limits = replace(configuration.policy.limits, informer_lag=0.0, settle=0.0)
        policy = replace(configuration.policy, limits=limits)
        super().__init__(cluster, replace(configuration, policy=policy), clock)
        #: What kube-scheduler said of pods that it did not place, by UID; the last error, and how many there were
        #: since a pod got a place.
        self.texts: dict[str, str] = {}
        self.error, self.errors = "", 0

    def _new_core(self, config: SchedulerConfig, extenders: Sequence[Extender]) -> LabCore:
        return LabCore(
            config,
            extenders,
            now=self._clock.time,
            traits=self._traits,
            kind_of=self._kind_of,
            has_devices=self._has_devices,
        )

    def step_without_attempts(self) -> bool:
        """Carry out one command, or fire one timer of the state machine. Returns False if there is neither."""
        return self._has_carried_out() or self._tick()

    def _attempt(self, pod: SchedPod) -> None:
        self.attempts += 1
        attempt = self.core.decide(pod)
        if attempt.result is Result.CHOSEN:
            self.errors = 0
            self.texts.pop(pod.uid, None)
        else:
            self.texts[pod.uid] = attempt.message
        if attempt.result is Result.ERROR:
            self.error, self.errors = attempt.message, self.errors + 1
        for write in self.core.conclude(pod, attempt, self._clock.read()):
            self._write(write)

    def _write(self, write: Write) -> None:
        if not isinstance(write, PatchStatus):
            super()._write(write)
        elif write.nominated_node is not None:
            self._cluster.patch(write.pod.uid, nominated=write.nominated_node)

    def pod_gone(self, pod: PlanPod, /) -> None:
        super().pod_gone(pod)
        self.texts.pop(pod.pod.uid, None)
