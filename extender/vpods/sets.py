"""One set: its StatefulSet, its pods, and which of them can be used.

A pod can be used if it has a node that serves, is ready, is not closed and is not about to be taken away. A pod that
was ready and is away, or not ready, for a moment *rests*: it keeps its vreplicas and gets no more, since a restart of a
pod is no reason to move what it hosts. A pod that is closed, or on a node that is, *leaves*: its vreplicas are placed
elsewhere, but those for which there is no room work where they are until there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from algorithm.placements.model import Counts, Placement, SetState, VPodState
from algorithm.placements.policy import Policy, PolicyFault
from extender.core.deadlines import Deadlines
from extender.vpods.records import HostNode, HostPod, SetSettings, Workload

#: How many waiting vpods are looked at to find out whether those with a limit per pod lack pods.
FIRST_WAITING = 64


class Drains(msgspec.Struct, frozen=True, gc=False):
    """The drains that began since something else changed.

    `fewest`: the fewest replicas from which one began; `again`: how many began later from no fewer. `target`: to how
    many replicas the last one leads.
    """

    fewest: int
    target: int
    again: int = 0


class HostedSet:
    """The state of one set. Times are seconds of the engine's clock."""

    def __init__(self, settings: SetSettings, policy: Policy | None) -> None:
        self.settings = settings
        #: None: there is no policy of that name, or its settings are wrong.
        self.policy = policy
        #: What was wrong with the policy, or with its last answer; "" if nothing. And how often.
        self.policy_fault = ""
        self.policy_failures = 0
        #: Those that people were told of.
        self.noticed_faults: set[str] = set()
        self.state = SetState(capacity=settings.capacity)
        self.workload: Workload | None = None
        self.pods: dict[int, HostPod] = {}
        #: Ordinals that are no capacity: shut, or away for too long. A pod that has not started yet is not one of them.
        self.out: set[int] = set()
        #: Ordinals whose pods are shut and work, or rest.
        self.leaving: set[int] = set()
        #: When the rest of a pod ends, by ordinal.
        self.rests: Deadlines[int] = Deadlines()
        #: Ordinals that were ready once, under their present or an earlier pod, and until when those that are not rest.
        self._proven: set[int] = set()
        self._rest_until: dict[int, float] = {}
        #: VPods to decide about, in order.
        self.dirty: dict[str, None] = {}
        #: VPods that lack room, in the order in which they began to.
        self.waiting: dict[str, float] = {}
        #: Those of them that have all that they may have on each usable pod: only more pods help them.
        self.capped: set[str] = set()
        #: VPods that would be more even, but for the bound on moves.
        self.postponed: dict[str, None] = {}
        #: VPods that would be more even if some pod had room.
        self.cramped: dict[str, None] = {}
        #: Moves for evenness that are not seen yet, and how many more may begin before they are.
        self.moves_open = 0
        self.moves_left = settings.max_moves
        #: Replicas to which the set is being drained, None if it is not; since when so few are enough.
        self.draining: int | None = None
        self.low_since: float | None = None
        #: Drains that found no room, one after the other.
        self.drain_failures = 0
        self.drains: Drains | None = None
        #: Distinct pods that vpods need, by how many need so many.
        self.spreads: Counter[int] = Counter()
        #: When the replicas may be written again after a failure, how often that failed, and whether the same write is
        #: sent again, since its outcome is unknown.
        self.scale_after = 0.0
        self.scale_failures = 0
        self.must_repeat = False
        #: When the set may grow again.
        self.grows_after = 0.0

    @property
    def replicas(self) -> int:
        return self.workload.replicas if self.workload else 0

    def inherit(self, old: HostedSet) -> None:
        """Go on where the same set was before its settings changed."""
        if self.settings.scales:
            self.draining, self.low_since = old.draining, old.low_since
        self.grows_after, self.drain_failures = old.grows_after, old.drain_failures
        self.scale_after, self.scale_failures, self.must_repeat = old.scale_after, old.scale_failures, old.must_repeat
        if self.settings == old.settings:
            self.drains = old.drains
        self.waiting = dict(old.waiting)
        self.policy_failures = old.policy_failures
        self.restore_rests(*old.rested())

    # -- pods

    def refresh(self, ordinal: int, nodes: Mapping[str, HostNode], now: float) -> bool:
        """Derive anew whether a pod can be used. Return whether that changed."""
        state = self.state
        pod = self.pods.get(ordinal)
        node = nodes.get(pod.node) if pod and pod.node else None
        shut = pod is not None and (pod.closed or (node is not None and not node.hosts(pod.tolerates)))
        works = pod is not None and node is not None and pod.ready and not pod.terminating
        if works:
            self._rest_until.pop(ordinal, None)
            self.rests.discard(ordinal)
            if not shut:
                self._proven.add(ordinal)
        rests = not works and self._rests(ordinal, now)
        is_lost = ordinal in self._proven and not works and not rests
        (self.out.add if shut or is_lost else self.out.discard)(ordinal)
        stays = ordinal < (self.replicas if self.draining is None else min(self.draining, self.replicas))
        if ordinal >= self.replicas:
            self._forget(ordinal)
        changed = state.set_usable(ordinal, stays and not shut and (works or rests))
        if pod is not None and pod.node:
            state.nodes[ordinal] = pod.node
        if node is not None and state.set_zone(ordinal, node.zone if self.settings.zones else ""):
            changed = True
        changed |= _put(self.leaving, ordinal, is_in=stays and shut and (works or rests))
        return _put(state.resting, ordinal, is_in=stays and rests and not shut) or changed

    def pod_changed(self, ordinal: int, nodes: Mapping[str, HostNode], now: float) -> bool:
        """Derive a pod anew since it, its node or the time has changed. Return whether that changed anything."""
        changed = self.refresh(ordinal, nodes, now)
        if changed and self.drains and ordinal < self.drains.target:
            self.drains = None  # later pods come and go with the drains themselves
        return changed

    def _rests(self, ordinal: int, now: float) -> bool:
        if ordinal not in self._proven:
            return False
        until = self._rest_until.get(ordinal)
        if until is None:
            until = self._rest_until[ordinal] = now + self.settings.unready_seconds
            self.rests.set(ordinal, until)
        return now < until

    def _forget(self, ordinal: int) -> None:
        self._proven.discard(ordinal)
        self._rest_until.pop(ordinal, None)
        self.rests.discard(ordinal)
        self.out.discard(ordinal)

    def rested(self) -> tuple[frozenset[int], dict[int, float]]:
        """The ordinals that were ready once, and until when those that are not rest."""
        return frozenset(self._proven), dict(self._rest_until)

    def restore_rests(self, proven: Iterable[int], rest_until: Mapping[int, float]) -> None:
        """Continue with what `rested` said of this set in another engine. Nothing is known of its pods yet."""
        self._proven.update(proven)
        self._rest_until.update(rest_until)
        for ordinal, until in rest_until.items():
            self.rests.set(ordinal, until)

    def trust(self, counts: Counts) -> list[int]:
        """Take pods that host vreplicas for pods that were ready: a server that starts has not seen them so.

        Return those for which this is new.
        """
        found = [ordinal for ordinal in counts if ordinal < self.replicas and ordinal not in self._proven]
        self._proven.update(found)
        return found

    def free(self) -> int:
        """How many more vreplicas the usable pods can take."""
        return sum(max(0, self.state.room(o)) for o in self.state.usable if o not in self.state.resting)

    def fits_below(self, ordinal: int) -> bool:
        """Whether usable pods below this ordinal can hold as much as all pods do."""
        pods = sum(1 for each in self.state.usable if each < ordinal)
        return sum(self.state.held.values()) <= pods * self.settings.capacity

    def pods_lacking(self) -> int | None:
        """How many more pods vpods lack that may have no more on any pod with room. None: no vpod does.

        0 while a pod has not started yet, or rests: it may be enough. Only those that wait for longest are looked at.
        """
        state = self.state
        first = map(state.vpods.__getitem__, islice(self.waiting, FIRST_WAITING))
        limited = [vpod for vpod in first if vpod.max_per_pod]
        if not limited or self.free() <= 0:
            return None
        found = max(self._lacks(vpod) for vpod in limited)
        if not found:
            return None
        serving = sum(1 for ordinal in state.usable if ordinal not in state.resting)
        return found if serving + len(self.out) >= self.replicas else 0

    def _lacks(self, vpod: VPodState) -> int:
        """How many more pods a vpod with `max_per_pod` needs; 0 if some pod has room for it."""
        state, left = self.state, vpod.wanted - sum(vpod.placed.values())
        if left <= 0 or any(state.most_for(vpod, ordinal) > vpod.placed.get(ordinal, 0) for ordinal in state.usable):
            return 0
        return -(-left // min(vpod.max_per_pod, state.capacity))

    def limited_from(self, ordinal: int) -> list[str]:
        """The vpods on pods from this ordinal on that may not be on any number of pods, or not with any number."""
        return [
            name
            for name, vpod in self.state.vpods.items()
            if (vpod.max_per_pod or vpod.spread) and any(each >= ordinal for each in vpod.committed)
        ]

    def is_empty_from(self, ordinal: int) -> bool:
        """Whether no vreplica is, or is going to be, on pods from this ordinal on."""
        return not any(each >= ordinal for each in (*self.state.held, *self.state.committed))

    # -- vpods

    def place(self, vpod: VPodState) -> Placement:
        """Ask the policy. Raises PolicyFault."""
        if self.policy is None:
            raise PolicyFault(self.policy_fault)
        return self.policy(vpod, self.state, self.moves_left)

    def place_undrained(self, vpod: VPodState, nodes: Mapping[str, HostNode], now: float) -> Placement:
        """Ask the policy as if the last pods were open. It takes O(pods that are emptied). Raises PolicyFault."""
        draining, self.draining = self.draining, None
        closed = range(self.replicas if draining is None else draining, self.replicas)
        try:
            for ordinal in closed:
                self.refresh(ordinal, nodes, now)
            return self.place(vpod)
        finally:
            self.draining = draining
            for ordinal in closed:
                self.refresh(ordinal, nodes, now)

    def count_pods_of(self, vpod: VPodState, number: int) -> None:
        """Count, or no longer count, how many distinct pods a vpod needs."""
        limit = -(-vpod.wanted // vpod.max_per_pod) if vpod.max_per_pod else 0
        pods = max(min(vpod.spread, vpod.wanted), limit)
        self.spreads[pods] += number
        if not self.spreads[pods]:
            del self.spreads[pods]  # edits of one vpod must not add up

    def remove(self, name: str) -> None:
        """Forget a vpod."""
        self.state.remove(name)
        self.drains = None
        for each in (self.dirty, self.waiting, self.postponed, self.cramped):
            each.pop(name, None)
        self.capped.discard(name)

    def line(self) -> Iterator[str]:
        """The vpods that wait for room, in their order, but for those that room does not help."""
        return (name for name in self.waiting if name not in self.capped)

    def note_capped(self, vpod: VPodState, counts: Counts) -> None:
        """Note whether a vpod that waits has all that it may have on each usable pod."""
        most = vpod.max_per_pod
        full = sum(1 for o, number in counts.items() if number >= most and self.state.is_usable(o)) if most else -1
        (self.capped.add if full == len(self.state.usable) else self.capped.discard)(vpod.key)

    def lives(self, ordinal: int) -> bool:
        """Whether what is on a pod works, though nothing more may be placed there."""
        pod = self.pods.get(ordinal)
        return pod is not None and pod.ready and not pod.terminating and ordinal < self.replicas

    def begin_moves(self, number: int) -> None:
        self.moves_open += number
        self.moves_left -= number

    def end_moves(self, number: int) -> None:
        """Some moves have been seen, or given up. With the last of them the next round may begin."""
        self.moves_open -= number
        if not self.moves_open:
            self.moves_left = self.settings.max_moves
            self.dirty.update(self.postponed)
            self.postponed.clear()


def _put(ordinals: set[int], ordinal: int, *, is_in: bool) -> bool:
    """Add an ordinal, or take it away. Return whether that changed anything."""
    if is_in == (ordinal in ordinals):
        return False
    (ordinals.add if is_in else ordinals.discard)(ordinal)
    return True
