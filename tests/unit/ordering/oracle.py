"""Start-up ordering, naively: everything is derived anew from the objects that exist, by the words of the rules."""

from __future__ import annotations

from collections.abc import Iterable

from extender.ordering.records import GROUP, POD, RELEASED, Dependency, PodRecord, State, Target, WorkloadRecord
from extender.ordering.state import GRACE

#: What a target has reached: None, it does not exist; or the states, and whether it has failed.
Reached = tuple[set[State], bool] | None
ALL = set(State)


class Oracle:
    """Remembers what no object shows: what was met and released, and since when something is missing."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.workloads: dict[Target, WorkloadRecord] = {}
        self.now = 0.0
        self.met: dict[str, set[str]] = {}
        self.released: set[str] = set()
        self.missing: dict[tuple[str, Target], float] = {}
        self.unseen: dict[tuple[str, str], float] = {}

    def step(self, pods: Iterable[PodRecord], workloads: dict[Target, WorkloadRecord], now: float) -> None:
        """This is the world now."""
        self.pods = {each.uid: each for each in pods}
        self.workloads, self.now = workloads, now
        self.released &= self.pods.keys()
        for uid, record in self.pods.items():
            if self.is_candidate(record) and self._is_held(record) and self._may_go(record):
                self.released.add(uid)

    def restart(self) -> None:
        """Only what stands on the objects is left."""
        self.met, self.missing, self.unseen = {}, {}, {}
        self.released = {uid for uid, each in self.pods.items() if RELEASED in each.met}

    @staticmethod
    def is_candidate(record: PodRecord) -> bool:
        return not record.node and not record.terminating and record.phase == "Pending"

    def waits(self) -> set[str]:
        found = ((uid, each) for uid, each in self.pods.items() if self.is_candidate(each) and uid not in self.released)
        return {uid for uid, each in found if not self._may_go(each)}

    def _is_held(self, record: PodRecord) -> bool:
        """Whether there is anything to release it from: a gate, or a declaration. Else it is free as long as that."""
        return bool(record.gates or record.declares or self.after(record) or RELEASED in record.met)

    # -- one pod

    def above(self, record: PodRecord) -> list[WorkloadRecord]:
        found = []
        owner = self.workloads.get(record.owner) if record.owner else None
        if owner and owner.uid == record.owner_uid:
            found.append(owner)
        if record.group and record.group in self.workloads:
            found.append(self.workloads[record.group])
        return found

    def after(self, record: PodRecord) -> list[Dependency]:
        return [*record.after, *(each for above in self.above(record) for each in above.after)]

    def unmet(self, record: PodRecord) -> list[Dependency]:
        return [each for each in dict.fromkeys(self.after(record)) if not self._is_met(each, record)]

    def _is_unknown(self, record: PodRecord) -> bool:
        if record.owner is None or any(each.target == record.owner for each in self.above(record)):
            return False
        since = self.unseen.setdefault((record.uid, record.owner_uid), self.now)
        return self.now < since + GRACE

    def _may_go(self, record: PodRecord) -> bool:
        if RELEASED in record.met:
            return True
        unmet, unknown = self.unmet(record), self._is_unknown(record)
        return not unmet and not unknown and not record.bad_after

    def _is_met(self, each: Dependency, record: PodRecord) -> bool:
        met = self.met.setdefault(record.uid, set())
        met |= record.met
        reached = self.reached(each.target)
        key = (record.uid, each.target)
        if each.key in met:
            return True
        if reached is None:
            self.missing.setdefault(key, self.now)
            return each.optional and self.is_overdue(each, record)
        self.missing.pop(key, None)
        if each.state in reached[0]:
            met.add(each.key)
            return True
        return False

    def is_overdue(self, each: Dependency, record: PodRecord) -> bool:
        since = self.missing.get((record.uid, each.target))
        grace = GRACE if each.grace is None else each.grace
        return since is not None and self.now >= since + grace

    # -- targets

    def members(self, target: Target) -> list[PodRecord]:
        found = self.pods.values()
        if target.kind == POD:
            return [each for each in found if each.key.target == target]
        if target.kind == GROUP:
            return [each for each in found if each.group == target]
        known = self.workloads.get(target)
        return [each for each in found if each.owner == target and known and each.owner_uid == known.uid]

    def needs(self, target: Target) -> int:
        if target.kind == POD:
            return 1
        if target in self.workloads:
            return self.workloads[target].pods
        return max((each.minimum for each in self.members(target)), default=1)

    def reached(self, target: Target) -> Reached:
        members, known, needed = self.members(target), self.workloads.get(target), self.needs(target)
        if known is None and (target.kind not in (POD, GROUP) or not members):
            return None
        if known and known.complete:
            return ALL, False
        if known and known.failed:
            return set(), True
        succeeded = [each for each in members if each.phase == "Succeeded"]
        failed = [each for each in members if each.phase == "Failed"]
        living = [each for each in members if each.phase not in ("Succeeded", "Failed") and not each.terminating]
        if target.kind in (POD, GROUP):
            if len(succeeded) >= needed and len(succeeded) == len(succeeded + failed + living):
                return ALL, False
            if failed and len(living + succeeded) < needed and self._is_lost(members, target):
                return set(), True
        states = set()
        if needed and len([each for each in living if each.node]) + len(succeeded) >= needed:
            states.add(State.SCHEDULED)
        if needed and len([each for each in living if each.ready]) + len(succeeded) >= needed:
            states.add(State.READY)
        return states, False

    def _is_lost(self, members: list[PodRecord], target: Target) -> bool:
        """Whether no controller replaces pods that failed."""
        if target.kind == POD:
            return True
        owners = [self.workloads.get(each.owner) for each in members if each.owner]
        uids = {(each.owner, each.owner_uid) for each in members}
        alive = [each for each in owners if each and (each.target, each.uid) in uids]
        return all(each.failed and not each.complete for each in alive)

    # -- troubles

    def direct(self, record: PodRecord) -> bool:
        """Whether what the pod waits for has failed or is missing for too long, or is declared wrongly."""
        if record.bad_after:
            return True
        for each in self.unmet(record):
            reached = self.reached(each.target)
            if self.is_overdue(each, record) if reached is None else reached[1]:
                return True
        return False

    def stuck(self) -> set[str]:
        """The pods that cannot go on as things are: the largest set of pods that wait for each other or for trouble."""
        waits = self.waits()
        stuck = set(waits)
        while True:
            free = {
                uid
                for uid in stuck
                if not self.direct(self.pods[uid])
                and not any(self._is_blocked(each, stuck) for each in self.unmet(self.pods[uid]))
            }
            if not free:
                return stuck
            stuck -= free

    def _is_blocked(self, each: Dependency, stuck: set[str]) -> bool:
        if self.reached(each.target) is None:
            return False
        members = self.members(each.target)
        blocked = sum(member.uid in stuck for member in members)
        counted = [each for each in members if not each.terminating or each.phase in ("Succeeded", "Failed")]
        needed = self.needs(each.target)
        return blocked > 0 and max(needed, len(counted)) - blocked < needed

    def in_cycle(self, stuck: set[str]) -> set[str]:
        """The pods that wait for themselves, through others that are stuck."""
        edges = {
            uid: {
                member.uid
                for each in self.unmet(self.pods[uid])
                if self._is_blocked(each, stuck)
                for member in self.members(each.target)
                if member.uid in stuck
            }
            for uid in stuck
        }
        return {uid for uid in stuck if uid in _reachable(uid, edges)}


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    queue = [start]
    while queue:
        for other in edges[queue.pop()] - found:
            found.add(other)
            queue.append(other)
    return found
