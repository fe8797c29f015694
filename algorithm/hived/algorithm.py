"""HiveD as an algorithm of this framework: `algorithm.interface` has the calls, `state/cluster.py` what they change.

Requests and decisions stand in the annotations of the original HiveD. So either scheduler can continue with pods that
the other has bound. The original crashed on some malformed annotations. This one skips such a pod and lists it
among the `unrecoverable_pods`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from algorithm.gauges import Gauge
from algorithm.hived.bootstrap import Bootstrap
from algorithm.hived.cells.chains import Level
from algorithm.hived.formats import bindinfo
from algorithm.hived.formats.allocation import Allocation, Place
from algorithm.hived.formats.podspec import MAX_PRIORITY, OPPORTUNISTIC, SPEC, PodSpec, UserError
from algorithm.hived.insight.explain import explain
from algorithm.hived.insight.outcomes import outcomes
from algorithm.hived.insight.status import gauges, summary
from algorithm.hived.planning.planner import Decision, Plan, Refusal, decide
from algorithm.hived.settings import HivedSettings
from algorithm.hived.state import lazy_preemption
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.devicehealth import BadDevicesSettings, DeviceHealth
from algorithm.hived.state.fork import Fork
from algorithm.hived.state.gangs import BoundPod
from algorithm.hived.state.groups import Group, Member
from algorithm.hived.state.limits import Limits
from algorithm.hived.state.pods import stop_waiting
from algorithm.hived.state.release import hold_what_is_awaited, pod_ended, pod_waits
from algorithm.hived.state.tenancy import Tenancy
from algorithm.hived.state.waiting import Waiting
from algorithm.interface import (
    Bind,
    GangInfo,
    Phase,
    PodDescription,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Unoffered,
    Victim,
    Wait,
)
from algorithm.model import Node, Pairs, Pod
from algorithm.reasons import Code, Reason, reason
from algorithm.tables import Table

_CODES = {
    "insufficient-capacity": Code.CELLS_EXHAUSTED,
    "needs-bad-node": Code.CELLS_BAD,
    "needs-bad-devices": Code.CELLS_BAD,
    "mapping-needs-bad-node": Code.CELLS_BAD,
    "needs-non-suggested-node": Code.CELLS_NOT_OFFERED,
    "mapping-needs-bad-or-non-suggested-node": Code.CELLS_NOT_OFFERED,
    "being-preempted": Code.CELLS_EXHAUSTED,
    "place-given-up": Code.CELLS_EXHAUSTED,
    "opportunistic-limit": Code.BORROWING_LIMITED,
}


#: Later readers trust these, also about other tenants: see `state/lazy_preemption.py`, `state/promotion.py`.
_SAID_WITH_A_BINDING = (lazy_preemption.LAZILY_PREEMPTED, lazy_preemption.ORDER)

#: Why a pod waits that would have to evict others. (HiveD does not read the policy, but kube-scheduler never asks about
#: such a pod which pods to evict.)
_MAY_NOT_PREEMPT = "pods of lower priority use its cells, and its preemptionPolicy is Never"

#: Types of immutable objects, which a fork shares with its original.
_UNCHANGING = (
    HivedSettings,
    BadDevicesSettings,
    Level,
    Limits,
    Place,
    Allocation,
    Member,
    PodSpec,
    SuggestedNodes,
    Tenancy,
    lazy_preemption.QuotaLoss,
    BoundPod,
    Pod,
)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A preemption that was proposed and not accepted yet. It is valid only while nothing has changed."""

    generation: int
    plan: Plan
    offered: SuggestedNodes


class HivedAlgorithm(SchedulerAlgorithm):
    """Implements the contract of `algorithm.interface`."""

    def __init__(self, settings: HivedSettings) -> None:
        self.settings = settings
        self._tenancy = Tenancy(
            names_per=settings.group_names_per,
            allowed=settings.allowed_namespaces,
            obeys_gang_release=settings.obey_gang_release,
        )
        self._start = Bootstrap(settings, self._tenancy)
        self.devices = DeviceHealth(settings.bad_devices, self.hive.layout.numbers())
        #: The machines that are nodes now.
        self._nodes: dict[str, bool] = Table()
        self._waiting = Waiting()
        #: The records by which pods are accounted for whose annotations have changed since, by UID.
        self._bound_by: dict[str, Pod] = Table()
        self._proposed: dict[str, _Remembered] = Table()
        self._generation = 0
        self._protected: frozenset[str] = frozenset()

    @property
    def hive(self) -> HivedCluster:
        """The present cells and groups. During start-up, more bound pods may replace this object."""
        return self._start.accounts.hive

    @property
    def unrecoverable_pods(self) -> Mapping[str, tuple[str, str]]:
        """Allocated pods that cannot be accounted for, with the reason, by UID."""
        return self._start.accounts.unrecoverable_pods

    def set_time(self, now: float) -> None:
        self._start.set_time(now)

    # -- the cluster ------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        self._generation += 1
        self._start.set_health(node.name, healthy=_is_healthy(node), bad=self.devices.read(node))
        if node.name in self.hive.layout.machines:
            self._nodes[node.name] = True

    def update_node(self, old: Node, new: Node) -> None:
        known = self.devices.bad(new.name)
        if _is_healthy(old) != _is_healthy(new) or self.devices.read(new) != known:
            self.add_node(new)

    def delete_node(self, node: Node) -> None:
        self._generation += 1
        self.devices.forget(node.name)
        self._nodes.pop(node.name, None)
        self._start.set_health(node.name, healthy=False)

    # -- pods -------------------------------------------------------------------------------------------------

    def add_unallocated_pod(self, pod: Pod) -> None:
        """Handle a waiting pod. The first one ends start-up: all machines and all bound pods are known now."""
        self._start.finish().hive.start()
        with suppress(UserError):
            spec = self._allowed(pod)
            self._waiting.add(pod.uid, spec)
            if (group := self._releasing(spec)) is not None:
                self._generation += 1
                pod_waits(self.hive, group, pod.uid, self._waiting)

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self._proposed.pop(pod.uid, None)
        spec = self._waiting.drop(pod.uid)
        if spec is not None and (group := self._releasing(spec)) is not None:
            self._generation += 1
            hold_what_is_awaited(self.hive, group, self._waiting)

    def add_allocated_pod(self, pod: Pod) -> None:
        self._generation += 1
        self._proposed.pop(pod.uid, None)
        if pod.annotation(SPEC) is not None:
            if self._start.is_over:
                self._start.accounts.add(pod, found=pod.uid not in self._waiting)
            else:
                self._start.collect(pod)
        waited = self._waiting.drop(pod.uid)
        # Somebody else may have bound it to another place than the one that is being freed for it.
        if waited is not None and stop_waiting(self.hive, pod.uid, waited):
            self._start.accounts.promote()

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        """Anyone who may write on the pod may change what it was bound by: what it takes is what it was bound by."""
        if old.annotations != new.annotations:
            self._bound_by.setdefault(old.uid, old)

    def delete_allocated_pod(self, pod: Pod) -> None:
        self._generation += 1
        accounts = self._start.finish()
        spec = accounts.remove(self._bound_by.get(pod.uid, pod))
        self._bound_by.pop(pod.uid, None)
        if spec is not None:
            if (group := self._releasing(spec)) is not None:
                pod_ended(self.hive, group, pod.uid, self._waiting)
            accounts.promote()

    def _releasing(self, spec: PodSpec) -> Group | None:
        """The pod's group, if the group gives its devices back pod by pod; else None."""
        group = self.hive.groups.get(spec.group) if spec.releases else None
        return group if group is not None and group.releases and group.tenant == spec.tenant else None

    def add_preempting_pod(
        self,
        pod: Pod,
        victims: tuple[Victim, ...],  # noqa: ARG002 - the plan has them
        node: str,
    ) -> None:
        spec = self._read(pod)
        plan = self._plan(pod, spec, node)
        self._generation += 1
        if plan is None:
            return
        with self.hive.changing_hands():
            self.hive.take_quota(plan.lazily_preempted, spec.group)
            self.hive.overtake([*plan.overtakes, *([plan.replaces] if plan.replaces else [])])
            self.hive.preempt(plan.group, pod.uid)
            self._start.accounts.promote()

    def delete_preempting_pod(self, pod: Pod) -> None:
        self._generation += 1
        stop_waiting(self.hive, pod.uid, self._read(pod))
        self._start.accounts.promote()

    def set_protected_pods(self, uids: frozenset[str]) -> None:
        self._protected = uids

    def gang(self, pod: Pod) -> GangInfo | None:
        """The affinity group, always all-or-nothing: kube-scheduler cannot know which cells an eviction would free.

        The name is empty if the request cannot be read; `schedule` refuses such a pod.
        """
        if pod.annotation(SPEC) is None:
            return None
        try:
            return GangInfo(self._read(pod).group, all_or_nothing=True)
        except UserError:
            return GangInfo("", all_or_nothing=True)

    def priority(self, pod: Pod) -> int:
        """The requested priority; opportunistic for a pod without guarantee. A pod without a request is no victim."""
        try:
            spec = self._read(pod)
        except UserError:
            return MAX_PRIORITY + 1
        return OPPORTUNISTIC if self._runs_without_quota(pod, spec.group) else spec.priority

    def _runs_without_quota(self, pod: Pod, group: str) -> bool:
        found = self.hive.groups.get(group)
        return found is not None and found.virtual is None and pod.node_name != ""

    def unoffered(self, pod: Pod) -> Unoffered:
        """All plans of a pod that ignores suggestions, also its places if the settings say `bindUnoffered`."""
        try:
            is_ignored = self._read(pod).ignores_offer
        except UserError:
            return Unoffered.NOTHING
        if not is_ignored:
            return Unoffered.NOTHING
        return Unoffered.PLACES if self.settings.bind_unoffered else Unoffered.PLANS

    # -- decisions --------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        try:
            spec = self._allowed(pod)
            decision = decide(self.hive, spec, suggested_nodes, preempting=phase is not Phase.FILTERING)
        except UserError as error:
            raise PodRefused(reason(Code.POD_INVALID, detail=str(error))) from error
        if isinstance(decision, Refusal):
            return Wait(_why(decision, spec))
        if decision.victims and not pod.may_preempt:
            return Wait(reason(Code.CELLS_EXHAUSTED, group=spec.group, detail=_MAY_NOT_PREEMPT))
        if decision.victims:
            members = [member for pods in decision.victims.values() for member in pods]
            spared = [member.name for member in members if member.uid in self._protected]
            if spared and phase is Phase.EVICTING:
                return Wait(reason(Code.VICTIM_PROTECTED, victims=spared))
            self._proposed[pod.uid] = _Remembered(self._generation, decision, suggested_nodes)
            return _preemption(decision)
        return self._bind(pod, decision, spec, suggested_nodes)

    def _bind(self, pod: Pod, plan: Plan, spec: PodSpec, offered: SuggestedNodes) -> ScheduleResult:
        allocation = plan.allocation
        may_be_elsewhere = spec.ignores_offer and self.settings.bind_unoffered and allocation.node in self._nodes
        if allocation.node not in offered and not may_be_elsewhere:
            return Wait(reason(Code.GANG_ELSEWHERE, gang=spec.group, node=allocation.node))
        said = self._start.accounts.to_write(pod, spec, plan)
        return Bind(allocation.node, bindinfo.write(allocation) + _nothing_else(pod, said) + said)

    def _plan(self, pod: Pod, spec: PodSpec, node: str) -> Plan | None:
        """The preemption that was proposed for this pod, planned again if something has changed since.

        The room is kept also if no victim is left. None if there is no room to keep. After a restart, or if the pod has
        changed, pods on `node` may have been evicted already: a pod without a gang goes there again, if it can.
        """
        known = self._proposed.pop(pod.uid, None)
        if known is not None and known.generation == self._generation:
            return known.plan
        offered = known.offered if known is not None else SuggestedNodes(self.hive.layout.machines)
        try:
            if node and sum(number for _, number in spec.pods) == 1:
                there = decide(self.hive, spec, SuggestedNodes([node]), preempting=True, only_there=True)
                if isinstance(there, Plan) and there.is_new:
                    return there
            decision: Decision = decide(self.hive, spec, offered, preempting=True)
        except UserError:  # the present settings may not allow the pod at all
            return None
        return decision if isinstance(decision, Plan) and decision.is_new else None

    def _read(self, pod: Pod) -> PodSpec:
        """The request of the pod. Raises UserError."""
        return self._start.accounts.read(pod)

    def _allowed(self, pod: Pod) -> PodSpec:
        """The request of a pod without a place, if its namespace may use the virtual cluster. Raises UserError."""
        spec = self._tenancy.read(pod)
        self._tenancy.check(pod.namespace, spec)
        return spec

    # -- for people -------------------------------------------------------------------------------------------

    def inspect(self) -> Mapping[str, Any]:
        return summary(self.hive, self.unrecoverable_pods, self._waiting, self.devices.warnings)

    def metrics(self) -> Sequence[Gauge]:
        return gauges(self.hive, self._waiting)

    def explain(self, pod: Pod) -> Iterator[str]:
        try:
            spec = self._allowed(pod)
        except UserError as error:
            return iter((str(error),))
        return explain(
            self.hive,
            spec,
            warnings=self.devices.warnings,
            protected=self._protected,
        )

    def changes_to(self, other: HivedAlgorithm) -> Sequence[str]:
        return [each.text for each in outcomes(self.hive, other.hive) if each.changed]

    def fork(self) -> HivedAlgorithm:
        _ = self._start.accounts  # made once, and not again in each copy
        fork = self._fork(is_watched=False)
        for _ in fork.pieces():
            pass
        return _complete(fork)

    def forks(self) -> Iterator[Callable[[], HivedAlgorithm] | None]:
        if self.hive.groups.is_followed:
            raise RuntimeError("another copy of this algorithm is being made")
        is_complete = False
        while not is_complete:
            fork = self._fork(is_watched=True)
            try:
                is_complete = yield from self._taken(fork)
                if is_complete:
                    yield partial(_complete, fork)
                yield from fork.leave()
            finally:
                for _ in fork.leave():
                    pass

    def _taken(self, fork: Fork[HivedAlgorithm]) -> Generator[None, None, bool]:
        """Make all pieces. Return False if another hive has replaced the one that is copied: see `Bootstrap`."""
        hive = self._start.hive
        for _ in fork.pieces():
            yield
            if self._start.hive is not hive:
                return False
        return True

    def _fork(self, *, is_watched: bool) -> Fork[HivedAlgorithm]:
        shared = (*_UNCHANGING, type(self._start.pages))
        return Fork(self, self._start.hive, shared=shared, fixed={_Remembered: _groups_of}, is_watched=is_watched)

    def describe(self, pod: Pod) -> PodDescription:
        if pod.annotation(SPEC) is None:
            return PodDescription()
        try:
            spec = self._read(pod)
        except UserError:
            return PodDescription()
        return PodDescription(spec.group, spec.tenant, spec.priority, spec.leafs)

    def current_priority(self, pod: Pod, description: PodDescription) -> int:
        if self._runs_without_quota(pod, description.group):
            return OPPORTUNISTIC
        return super().current_priority(pod, description)

    def page(self, path: str) -> Any:
        return self._start.accounts.pages.page(path)


def _complete(fork: Fork[HivedAlgorithm]) -> HivedAlgorithm:
    twin = fork.result()
    twin._start.renew_pages()
    return twin


def _groups_of(proposed: _Remembered) -> Iterator[Group]:
    plan = proposed.plan
    yield from (plan.group, *plan.overtakes, *plan.lazily_preempted)
    if plan.replaces is not None:
        yield plan.replaces


def _is_healthy(node: Node) -> bool:
    return node.takes_pods


def _nothing_else(pod: Pod, said: Pairs) -> Pairs:
    """Annotations that overwrite with "" what the pod's author wrote where only a scheduler may name lost quota."""
    mine = {name for name, _ in said}
    return tuple((name, "") for name in _SAID_WITH_A_BINDING if name not in mine and pod.annotation(name) is not None)


def _why(refusal: Refusal, spec: PodSpec) -> Reason:
    return reason(_CODES[refusal.kind], group=spec.group, detail=refusal.text)


def _preemption(plan: Plan) -> Preempt:
    victims = sorted(Victim(node, member.uid) for node, members in plan.victims.items() for member in members)
    names = {member.name for members in plan.victims.values() for member in members}
    why = reason(Code.PREEMPTIBLE, victims=names, group=plan.group.name)
    return Preempt(tuple(victims), why, plan.allocation.node)
