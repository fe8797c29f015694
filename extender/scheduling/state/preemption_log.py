"""Who preempted whom: the last preemptions of this process, for people.

    preempting(pod, victims)  a record begins, or gets more victims
    victim_gone(uid)          a victim is gone
    ended(uid, outcome)       the preemptor was placed, waits again, or is gone

No decision depends on it. It has both kinds of preemption: victims that are named to kube-scheduler, and evictions of
our own. A pod that waits for victims of others has no record.

Bounds: MOST records, the oldest go first; SHOWN victims of each by name, and the number of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from algorithm.interface import Victim
from algorithm.model import Pod, PodKey
from extender.scheduling.driver import AlgorithmDriver

#: Records that are kept.
MOST = 200
#: Victims of a record that are kept by name.
SHOWN = 32


class Outcome(StrEnum):
    """The outcome of a preemption."""

    UNDER_WAY = "under way"
    PLACED = "placed"
    GIVEN_UP = "given up"
    GONE = "preemptor is gone"


class NamedVictim(NamedTuple):
    """A victim, as it was when it was named. Its key is empty if the pod was unknown then."""

    uid: str
    key: PodKey
    node: str
    priority: int
    gone: bool = False


class PreemptionRecord(NamedTuple):
    """One preemptor and its victims. `at` is when it began, in seconds of the engine's clock.

    `gang` is the name of the preemptor's gang, "" if it has none; priorities are those of the algorithm.
    """

    at: float
    pod: Pod
    gang: str
    priority: int
    victims: tuple[NamedVictim, ...]
    #: All victims, also those that `victims` has no room for.
    number: int
    outcome: Outcome = Outcome.UNDER_WAY


class PreemptionLog:
    """The records by the UID of the preemptor, oldest first. `driver` knows gangs and priorities."""

    def __init__(self, driver: AlgorithmDriver) -> None:
        self.driver = driver
        self._records: dict[str, PreemptionRecord] = {}
        #: Of each victim that still runs: its preemptors (the pods of a gang have the same victims).
        self._preemptors: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[PreemptionRecord]:
        """All records, oldest first."""
        return list(self._records.values())

    def preempting(self, pod: Pod, victims: Sequence[Victim], known: Iterable[Pod | None], now: float) -> None:
        """Record a plan. `known` are the records of the victims, None for those that are unknown."""
        before = self._records.get(pod.uid)
        if not victims and before is None:
            return
        if before is not None and before.outcome is not Outcome.UNDER_WAY:
            self._drop(pod.uid)
            before = None
        kept = {each.uid: each for each in before.victims} if before is not None else {}
        others = (before.number - len(kept)) if before is not None else 0
        for victim, record in zip(victims, known, strict=True):
            if victim.uid in kept:
                continue
            if len(kept) < SHOWN:
                kept[victim.uid] = self._named(victim, record)
                self._preemptors[victim.uid] = (*self._preemptors.get(victim.uid, ()), pod.uid)
            elif before is None:
                others += 1
        at = now if before is None else before.at
        gang = self.driver.gang(pod)
        self._records[pod.uid] = PreemptionRecord(
            at=at,
            pod=pod,
            gang="" if gang is None else gang.name,
            priority=self.driver.priority(pod),
            victims=tuple(kept.values()),
            number=len(kept) + others,
        )
        while len(self._records) > MOST:
            self._drop(next(iter(self._records)))

    def victim_gone(self, uid: str) -> None:
        """Record that this pod is gone, if it is a victim."""
        for preemptor in self._preemptors.pop(uid, ()):
            record = self._records[preemptor]
            victims = tuple(each._replace(gone=True) if each.uid == uid else each for each in record.victims)
            self._records[preemptor] = record._replace(victims=victims)

    def ended(self, uid: str, outcome: Outcome) -> None:
        """Record what became of the preemption of this pod, if it is one and still under way."""
        record = self._records.get(uid)
        if record is not None and record.outcome is Outcome.UNDER_WAY:
            self._records[uid] = record._replace(outcome=outcome)

    def _drop(self, uid: str) -> None:
        for victim in self._records.pop(uid).victims:
            others = tuple(each for each in self._preemptors.pop(victim.uid, ()) if each != uid)
            if others:
                self._preemptors[victim.uid] = others

    def _named(self, victim: Victim, record: Pod | None) -> NamedVictim:
        if record is None:
            return NamedVictim(victim.uid, PodKey("", ""), victim.node, 0)
        return NamedVictim(victim.uid, record.key, victim.node, self.driver.priority(record))
