"""The accounts of bound pods: which groups they form, and which groups have quota.

A pod that is bound while others run is accounted for by itself (`add`): it names the groups that had lost their quota
when it was bound, and it has the place that it was given. Pods that are found bound at a start are accounted for all
together (`recover`), because a pod may carry information about others, and they come in any order:

1. Pods are grouped into gangs (`gangs.py`).
2. A gang that lost its quota runs on without it, if it agreed to that (`lazyPreemptionEnable`). It lost its quota if an
   existing pod says so, or if one of its own pods was bound without quota.
3. All other gangs get what they claim. There is room for all of them: they all had their quota when the last of their
   pods was bound, because that pod would have named each gang without quota. Only a changed configuration can leave too
   little room. Then the more important gang of a virtual cluster keeps its quota, of equals the older one.
4. A gang that lost its quota without having agreed lost it to a changed configuration. It gets its quota back if no
   other gang has to give up quota for it. The same holds for a gang that found no room in step 3. Gangs that no pod
   names come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from algorithm.hived.formats.podspec import SPEC, PodSpec, UserError
from algorithm.hived.insight.status import Pages
from algorithm.hived.planning.planner import Plan
from algorithm.hived.settings import HivedSettings
from algorithm.hived.state import lazy_preemption
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.gangs import BoundPod, Found, Gang
from algorithm.hived.state.groups import Group, Member
from algorithm.hived.state.limits import Limits
from algorithm.hived.state.pods import add_pod, check_place, delete_pod
from algorithm.hived.state.promotion import PromotionQueue
from algorithm.hived.state.recovery import restored
from algorithm.hived.state.tenancy import Tenancy
from algorithm.model import Pairs, Pod


class Accounts:
    """See the module's text. `unrecoverable_pods` are bound pods that cannot be accounted for, with why, by UID."""

    def __init__(self, settings: HivedSettings, tenancy: Tenancy) -> None:
        layout = settings.layout()
        self.hive = HivedCluster(
            layout,
            sparing=settings.keep_healthy_cells_whole,
            weighs_damage=settings.bad_devices is not None,
            promoting=settings.promote_lazily_preempted,
            combining=settings.combine_cells,
            limits=Limits(settings.opportunistic_limits, layout),
        )
        self.pages = Pages(self.hive)
        self.unrecoverable_pods: dict[str, tuple[str, str]] = {}
        self._tenancy = tenancy
        #: Of pods whose group's name is another gang's as well, by UID.
        self._scopes: dict[str, str] = {}
        self._log = lazy_preemption.LazyPreemptionLog()
        self._line = PromotionQueue(self.hive, self._log)

    def renew_pages(self) -> None:
        """The pages show this hive and nothing that was written before: they were those of another one."""
        self.pages = Pages(self.hive)

    def read(self, pod: Pod) -> PodSpec:
        """What the pod wants. Raises UserError."""
        return self._tenancy.read(pod, scope=self._scopes.get(pod.uid))

    # -- at a start -----------------------------------------------------------------------------------------------

    def recover(self, found: Found) -> None:
        """Accounts for pods that were bound before. There are no others yet."""
        hive = self.hive
        hive.start()
        self.unrecoverable_pods, self._scopes = found.unrecoverable, found.scopes
        for gang in found.gangs:
            for bound in gang.members.values():
                self._listen(bound, found=True)
        with hive.changing_hands():
            for allocator in hive.allocators.values():
                allocator.undoom_all()
            takers: dict[str, str] = {}
            for gang in found.gangs:
                spec = gang.spec
                takers[spec.group] = self._taker(spec, gang.uids(), lost=gang.lost_quota)
                self._recover(gang, takers[spec.group])
            if hive.promoting:
                self._line.realign()
            else:
                self._give_back(takers)
            self._say_why(takers)

    def _taker(self, spec: PodSpec, uids: Iterable[str], *, lost: bool) -> str:
        """The group that has the quota of the group of these pods; empty if the group has it itself.

        `lost`: one of the pods was bound without quota. If no other pod says why, the group itself counts as the taker.
        """
        if spec.priority < 0:
            return ""
        taker = self._log.latest_taker if self.hive.promoting else self._log.taker
        return taker(spec.group, uids) or (spec.group if lost else "")

    def _recover(self, gang: Gang, taker: str) -> None:
        spec, plan = gang.spec, gang.allocation
        for bound in gang.members.values():
            allocation = replace(bound.allocation, chain=plan.chain, places=plan.places)
            add_pod(self.hive, _member(bound.pod), spec, allocation, found=True, preemptor=taker)
        self._take_quota(self.hive.groups[spec.group], taker)

    def _give_back(self, takers: dict[str, str]) -> None:
        """Gives quota back to gangs that lost it without having agreed, as far as no other gang has to pay for it."""
        places = {name: number for number, name in enumerate(takers)}
        lost = [group for group in self.hive.lazily_preempted if not (group.lazy and takers[group.name])]
        for group in sorted(lost, key=lambda each: (bool(takers[each.name]), -each.priority, places[each.name])):
            restored(self.hive, group)

    def _say_why(self, takers: dict[str, str]) -> None:
        """A gang that found no room had to make it for the most important one of its virtual cluster."""
        first: dict[tuple[str, str], Group] = {}
        for group in sorted(self.hive.groups.values(), key=lambda each: -each.priority):
            if group.virtual is not None:
                first.setdefault((group.tenant, group.chain), group)
        for group in self.hive.lazily_preempted:
            taker = first.get((group.tenant, group.chain))
            if not takers[group.name] and taker is not None and taker.priority > group.priority:
                group.lazily_preempted_by = taker.name

    # -- later ----------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, *, found: bool) -> None:
        """Accounts for a pod that is bound now. `found`: it did not wait here before.

        One that cannot be accounted for is unrecoverable.
        """
        self.hive.start()
        try:
            bound = BoundPod.read(pod, self.read(pod))
            check_place(self.hive, bound.spec, bound.allocation)
        except UserError as error:
            self.unrecoverable_pods[pod.uid] = (str(pod.key), str(error))
            return
        self._listen(bound, found=found)
        with self.hive.changing_hands():
            if self.hive.promoting:
                self._add_to_line(bound, found=found)
            else:
                self._add(bound, found=found)

    def _listen(self, bound: BoundPod, *, found: bool) -> None:
        """Notes what the pod says about others."""
        self._log.add(bound.pod.uid, bound.spec.group, lazy_preemption.record_of(bound.pod), found=found)

    def _add(self, bound: BoundPod, *, found: bool) -> None:
        """Takes the quota that others lost to this pod's decision, or have lost since."""
        pod, spec, hive = bound.pod, bound.spec, self.hive
        for each in _lost(pod):
            group = hive.groups.get(each.group)
            if group is not None and each.group != spec.group and self._log.is_of(pod.uid, group):
                self._take_quota(group, each.by)
        taker = self._taker(spec, [pod.uid], lost=bound.lost_quota)
        is_new = spec.group not in hive.groups
        add_pod(hive, _member(pod), spec, bound.allocation, found=found, preemptor=taker)
        group = hive.groups[spec.group]
        self._take_quota(group, taker)
        if is_new and group in hive.lazily_preempted and not group.lazy:
            restored(hive, group)

    def _add_to_line(self, bound: BoundPod, *, found: bool) -> None:
        """The same where groups may have their quota back: who has it is worked out anew."""
        spec = bound.spec
        self._line.suspend_promoted({bound.allocation.chain})
        taker = self._taker(spec, [bound.pod.uid], lost=bound.lost_quota)
        add_pod(self.hive, _member(bound.pod), spec, bound.allocation, found=found, preemptor=taker)
        self._line.realign()

    def _take_quota(self, group: Group, taker: str) -> None:
        """Only from groups that agreed to it: anyone may write annotations."""
        if taker and group.lazy and group.priority >= 0 and group not in self.hive.lazily_preempted:
            self.hive.take_quota([group], taker)

    def remove(self, pod: Pod) -> PodSpec | None:
        """The pod is gone. Returns its wish, if it was accounted for."""
        self._log.drop(pod.uid)
        spec = None
        if pod.annotation(SPEC) is not None and self.unrecoverable_pods.pop(pod.uid, None) is None:
            spec = self.read(pod)
            delete_pod(self.hive, _member(pod), spec)
        self._scopes.pop(pod.uid, None)
        return spec

    def promote(self) -> None:
        """Something has become free: groups without quota may have it back, if the settings say so."""
        if self.hive.promoting:
            self._line.realign()

    # -- what is written on pods ----------------------------------------------------------------------------------

    def to_write(self, pod: Pod, spec: PodSpec, plan: Plan) -> Pairs:
        """The groups that are without quota once the plan is carried out, as the pod that is bound by it names them."""
        lost = self._without_quota(plan)
        if self.hive.promoting and spec.priority >= 0:
            return self._log.to_write_numbered(pod.uid, spec.group, lost)
        return () if plan.group.virtual is None else self._log.to_write(pod.uid, spec.group, lost)

    def _without_quota(self, plan: Plan) -> list[lazy_preemption.QuotaLoss]:
        known = self.hive.without_quota(plan.allocation.chain)
        lost = [lazy_preemption.lost_by(group, group.lazily_preempted_by) for group in known]
        return lost + [
            lazy_preemption.lost_by(group, plan.group.name) for group in plan.lazily_preempted if group not in known
        ]


def _lost(pod: Pod) -> Sequence[lazy_preemption.QuotaLoss]:
    return lazy_preemption.read(pod.annotation(lazy_preemption.LAZILY_PREEMPTED))


def _member(pod: Pod) -> Member:
    return Member(pod.uid, pod.name, pod.node_name)
