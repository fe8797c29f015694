"""All that one plan in the making has."""

from __future__ import annotations

from msgspec.structs import replace

from extender.ordering.records import AFTER, REPLICATED_JOB, VOLCANO_TASK, Target
from extender.plan.records import Changes, Options, PlanPod, RawObject, World
from extender.plan.run.clock import PlanClock
from extender.plan.run.configuration import configure
from extender.plan.run.engines.claims import Claims
from extender.plan.run.engines.vpods import VPods
from extender.plan.run.engines.warm_pods import unclaimed
from extender.plan.run.judging import Judgement
from extender.plan.run.scheduling import Scheduling
from extender.plan.run.store import PlanCluster, waits_for_others, with_fields


class PlanState:
    """The input, the configuration, and the cluster with what schedules it. Raises PlanError for a wrong input."""

    def __init__(self, world: World, changes: Changes, options: Options) -> None:
        self.world, self.changes, self.options = world, changes, options
        settings = world.settings if changes.settings is None else changes.settings
        self.configuration = configure(settings, world.scheduler, algorithm=changes.algorithm, seed=options.seed)
        self.clock = PlanClock()
        self.cluster = PlanCluster(self.configuration.reads.decisions, unclaimed)
        #: The engines beside that of pods.
        self.engines = (
            Claims(self.cluster, self.configuration.settings, self.clock),
            VPods(self.cluster, self.configuration.settings, self.clock, world),
        )
        self.scheduling = Scheduling(self.cluster, self.configuration, self.clock)
        self.warnings: list[str] = list(self.configuration.warnings)
        self.unknown: list[str] = []
        #: What is said of dependencies, at the end.
        self.judgement = Judgement({}, {}, {})
        #: Whether the annotations of start-up ordering count: live they do if it is switched on.
        self._obeys_after = not settings.strip() or self.configuration.settings.ordering.enabled
        self._is_warned = False
        #: New objects that are neither pods nor nodes.
        self.created: tuple[RawObject, ...] = ()
        #: Targets of changed priorities of which pods were found.
        self.reprioritised: set[Target] = set()
        #: The bound that ended the run early; "" if none did.
        self.stopped = ""

    def obeyed(self, pod: PlanPod) -> PlanPod:
        """The pod with the dependencies that count: without those of annotations if start-up ordering is off.

        If it is on, a pod that has its gate and nothing to wait for is released at once.
        """
        if self._obeys_after and pod.has_own_gate and not waits_for_others(pod):
            return replace(pod, pod=with_fields(pod.pod, gated=False))
        if self._obeys_after or not pod.after:
            return pod
        kept = tuple(each for each in pod.after if each.target.kind in (REPLICATED_JOB, VOLCANO_TASK))
        if len(kept) < len(pod.after) and not self._is_warned:
            self._is_warned = True
            self.warnings.append(
                f"pods declare {AFTER}, which has no effect: ordering.enabled is false in the settings"
            )
        return replace(pod, after=kept)
