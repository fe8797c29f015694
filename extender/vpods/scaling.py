"""The replicas of sets: they grow at once, and shrink when the last pods have been emptied.

A drain ends with fewer replicas, or it is stopped: more is wanted, or a vpod lacks vreplicas that it has, or would get
and keep, on the pods that are emptied. A vpod that would lack room without the drain as well stops none.

Draining comes to an end. Between two changes that are not the engine's own (of what vpods want, of settings, of pods
that stay, of replicas by somebody else) each drain that begins is lower in this order: first the fewest replicas from
which one has begun, then how many more may begin from no fewer, MOST_AGAIN at first.
"""

from __future__ import annotations

import msgspec

from extender.core.freshness import older
from extender.core.outcomes import OutcomeKind
from extender.core.scale import ScaleWorkload, WorkloadScaled
from extender.vpods import autoscaler
from extender.vpods.names import pod_name
from extender.vpods.notices import NoticeReason
from extender.vpods.records import ObjectKey, Workload
from extender.vpods.sets import Drains, HostedSet
from extender.vpods.state import EngineState, backed_off

#: How often the time between two drains that find no room is doubled.
MOST_DOUBLINGS = 6
#: Drains that may follow one that led nowhere, before anything else has changed.
MOST_AGAIN = 5
#: Pods of a StatefulSet that are used, the first ones. Its author may write any number into its spec.
MOST_PODS = 10_000


class Scaling:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def look(self, key: ObjectKey) -> None:
        """Scale a set, or drain it, or wait, as what its vpods want demands."""
        state = self._state
        hosted = state.sets[key]
        settings = hosted.settings
        if hosted.workload is None or hosted.workload.trouble or not settings.scales or state.now < hosted.scale_after:
            return
        if order := state.scaling.get(key):
            if hosted.must_repeat:  # its outcome is unknown: the same again can do no harm
                hosted.must_repeat = False
                state.out.append(order)
            return
        spreads = (spread for spread, number in hosted.spreads.items() if number)
        needed = autoscaler.needed(settings, hosted.state.total_wanted, spreads, hosted.out)
        if hosted.waiting and needed < settings.max_replicas and (more := hosted.pods_lacking()) is not None:
            needed = max(needed, min(settings.max_replicas, hosted.replicas + more))
        target = autoscaler.target(settings, hosted.replicas, needed)
        if target >= hosted.replicas:
            self._grow(key, hosted, target)
        else:
            self._shrink(key, hosted, target)

    def _grow(self, key: ObjectKey, hosted: HostedSet, target: int) -> None:
        hosted.low_since = None
        hosted.drain_failures = 0
        if hosted.draining is not None:
            self._stop(key, hosted, "more vreplicas are wanted")
        if target == hosted.replicas:
            return
        if hosted.grows_after > self._state.now:
            self._state.scales.set(key, hosted.grows_after)
            return
        self._order(key, hosted, target)

    def _shrink(self, key: ObjectKey, hosted: HostedSet, target: int) -> None:
        state = self._state
        if hosted.low_since is None:
            hosted.low_since = state.now
        # A drain that found no room is tried again, less and less often.
        begins = hosted.low_since + hosted.settings.scale_down_seconds * 2 ** min(hosted.drain_failures, MOST_DOUBLINGS)
        if state.now < begins:
            state.scales.set(key, begins)
            return
        if hosted.draining is None or hosted.draining < target:
            if not hosted.fits_below(target) or not _may_begin(hosted):
                return
            hosted.drains = _begun(hosted, target)
            if not hosted.drain_failures:
                message = _what_is_emptied(hosted, target)
                state.notice_set(key, NoticeReason.DRAINING, message)
            self._reopen(key, hosted, target)
        if hosted.draining is not None and hosted.is_empty_from(hosted.draining):
            self._order(key, hosted, hosted.draining)

    def no_room(self, key: ObjectKey) -> None:
        """Stop a drain because the vreplicas of the last pods fit nowhere else. The next try begins after a pause."""
        hosted = self._state.sets[key]
        hosted.low_since = self._state.now
        self._stop(key, hosted, "the vreplicas on the last pods fit nowhere else")
        hosted.drain_failures += 1

    def _stop(self, key: ObjectKey, hosted: HostedSet, why: str) -> None:
        if not hosted.drain_failures:
            self._state.notice_set(key, NoticeReason.DRAIN_STOPPED, why)
        self._reopen(key, hosted, None)

    def _reopen(self, key: ObjectKey, hosted: HostedSet, draining: int | None) -> None:
        """Drain to this number of replicas, or to none: some pods are closed, others open again."""
        hosted.draining = draining
        for ordinal in range(hosted.replicas):
            hosted.refresh(ordinal, self._state.nodes, self._state.now)
        if draining is not None:  # those first that are hardest to place: if one of them stays, nothing has moved
            hosted.dirty = dict.fromkeys(hosted.limited_from(draining)) | hosted.dirty
        self._state.dirty_all(key)

    def _order(self, key: ObjectKey, hosted: HostedSet, replicas: int) -> None:
        state, workload = self._state, hosted.workload
        assert state.term is not None
        assert workload is not None
        state.scaling[key] = order = ScaleWorkload(
            token=state.next_token(),
            namespace=workload.key.namespace,
            name=workload.key.name,
            resource="statefulsets",
            replicas=replicas,
            resource_version=workload.version,
            term=state.term,
        )
        hosted.must_repeat = False
        state.out.append(order)

    # -- reports, and what is seen

    def scaled(self, event: WorkloadScaled) -> None:
        state, outcome = self._state, event.outcome
        key = next((key for key, order in state.scaling.items() if order.token == event.token), None)
        if key is None:
            return
        hosted, order = state.sets[key], state.scaling[key]
        if outcome.kind is OutcomeKind.DONE:
            hosted.scale_failures = 0
            return
        hosted.scale_failures += 1
        if hosted.scale_failures == 1 and outcome.kind is not OutcomeKind.LOST:
            message = f"{order.name}: {order.replicas} replicas: {outcome.kind}: {outcome.detail}"
            state.notice_set(key, NoticeReason.SCALE_FAILED, message, is_warning=True)
        if outcome.kind is OutcomeKind.UNKNOWN:
            hosted.must_repeat = True
        else:
            del state.scaling[key]
        hosted.scale_after = state.now + max(backed_off(hosted.scale_failures), outcome.retry_after)
        state.scales.set(key, hosted.scale_after)

    def workload_seen(self, seen: Workload) -> None:
        state = self._state
        said, seen = seen.replicas, msgspec.structs.replace(seen, replicas=max(0, min(seen.replicas, MOST_PODS)))
        known = state.workloads.get(seen.key)
        if known and older(seen.version, than=known.version):
            return
        state.workloads[seen.key] = seen
        if (key := state.by_workload.get(seen.key)) is None:
            return
        hosted = state.sets[key]
        ordered = state.scaling.get(key)
        if ordered and seen.version != ordered.resource_version:
            # It has happened, or it never will: it names the version for which it was decided.
            del state.scaling[key]
            hosted.scale_after = 0.0
        hosted.workload = seen
        state.touched[key] = None
        if said > MOST_PODS and (known is None or known.replicas < MOST_PODS):
            message = f"{seen.key.name}: spec.replicas is {said}; pods from ordinal {MOST_PODS} on are not used"
            state.notice_set(key, NoticeReason.TOO_MANY_REPLICAS, message, is_warning=True)
        if known is None or known.first != seen.first:
            state.dirty_all(key)
        elif known.replicas == seen.replicas:
            return
        if known is None or known.replicas == seen.replicas:
            pass  # nobody has scaled it
        elif ordered and seen.replicas == ordered.replicas:
            self._happened(key, known, seen)
        else:
            hosted.drains = None
            self._foreign(key, known, seen)
        hosted.low_since = None
        if hosted.draining is not None and seen.replicas <= hosted.draining:
            hosted.draining = None
        hosted.state.replicas = seen.replicas
        for vpod in hosted.state.vpods.values():
            hosted.trust(vpod.committed)
        state.refresh(key)

    def _happened(self, key: ObjectKey, known: Workload, seen: Workload) -> None:
        """Note that a change of replicas that this server ordered has happened."""
        state, hosted = self._state, self._state.sets[key]
        hosted.scale_failures = hosted.drain_failures = 0
        if seen.replicas > known.replicas:
            hosted.grows_after = state.now + hosted.settings.scale_up_seconds
        wanted = hosted.state.total_wanted
        message = f"{seen.key.name}: from {known.replicas} to {seen.replicas} replicas for {wanted} vreplicas"
        state.notice_set(key, NoticeReason.SCALED, message)

    def _foreign(self, key: ObjectKey, known: Workload, seen: Workload) -> None:
        state = self._state
        if state.term is None:
            return  # it may have been the leader
        state.foreign_scales += 1
        message = f"{seen.key.name}: somebody else changed replicas from {known.replicas} to {seen.replicas}"
        state.notice_set(key, NoticeReason.FOREIGN_SCALE, message, is_warning=True)

    def on_time(self) -> None:
        state = self._state
        for key in state.scales.due(state.now):
            state.scales.discard(key)
            if key in state.sets:
                state.touched[key] = None


def _may_begin(hosted: HostedSet) -> bool:
    """Whether a drain may begin: the first ones, or one from fewer replicas than any before."""
    drains = hosted.drains
    return drains is None or hosted.replicas < drains.fewest or drains.again < MOST_AGAIN


def _begun(hosted: HostedSet, target: int) -> Drains:
    """Note that a drain begins."""
    drains = hosted.drains
    if drains is None or hosted.replicas < drains.fewest:
        return Drains(hosted.replicas, target)
    return Drains(drains.fewest, target, drains.again + 1)


def _what_is_emptied(hosted: HostedSet, target: int) -> str:
    first, last = (pod_name(hosted.settings.workload, ordinal) for ordinal in (target, hosted.replicas - 1))
    pods = f"{first} is" if first == last else f"{first} to {last} are"
    enough = "1 replica is" if target == 1 else f"{target} replicas are"
    return f"{pods} emptied: {enough} enough"
