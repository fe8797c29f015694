"""Events that the engine of start-up ordering handles, and its instructions."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from algorithm.reasons import Reason
from extender.ordering.records import PodKey, PodRecord, Target, WorkloadRecord
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.ordering.writes.met import MarkMet, MetMarked
from extender.ordering.writes.read import PodRead, ReadPod


class Configured(msgspec.Struct, frozen=True):
    """`grace`: seconds for which a target may be missing. `kinds`: those of `records.KINDS` that informers follow."""

    grace: float
    kinds: frozenset[str]


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """A pod, from a watch or from a live read."""

    pod: PodRecord


class PodGone(msgspec.Struct, frozen=True, gc=False):
    key: PodKey
    uid: str


class WorkloadSeen(msgspec.Struct, frozen=True, gc=False):
    """An object that makes pods, or a PodGroup."""

    workload: WorkloadRecord


class WorkloadGone(msgspec.Struct, frozen=True, gc=False):
    target: Target
    uid: str


class Synced(msgspec.Struct, frozen=True, gc=False):
    """All informers have delivered their first lists."""


class TermBegun(msgspec.Struct, frozen=True, gc=False):
    """This server decides, from now on. `term` 0: there is no leader election."""

    term: int


class TermEnded(msgspec.Struct, frozen=True, gc=False):
    """This server no longer decides. Writes that it has sent may still arrive."""


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """The time that `next_due` named has come."""


class TellPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Record an Event on a pod: `reason` has changed. Only the leader tells."""

    key: PodKey
    uid: str
    reason: Reason
    #: Not for a pod that only waits.
    is_warning: bool = False
    term: int = 0


class HoldBack(msgspec.Struct, frozen=True, gc=False):
    """A pod waits for this reason, until LetGo: refuse it. For the engine of pods, in any term and in none.

    It comes for pods with a gate as well, which kube-scheduler does not ask about, so that people see the reason.
    """

    key: PodKey
    uid: str
    reason: Reason
    #: That of the event. Instructions of two events may arrive in another order: the one with the higher number counts.
    number: int = 0


class LetGo(msgspec.Struct, frozen=True, gc=False):
    """Stop refusing a pod, and have it tried again. Also for a pod that declares dependencies, or may inherit some, and
    was never held back: the engine of pods refuses such a pod until this comes."""

    key: PodKey
    uid: str
    #: As that of HoldBack.
    number: int = 0


class Forget(msgspec.Struct, frozen=True, gc=False):
    """A pod is bound or gone: what HoldBack or LetGo said about it matters no more."""

    uid: str


OrderingEvent: TypeAlias = (
    Configured
    | PodSeen
    | PodGone
    | WorkloadSeen
    | WorkloadGone
    | Synced
    | TermBegun
    | TermEnded
    | GateRemoved
    | MetMarked
    | PodRead
    | Ticked
)
OrderingCommand: TypeAlias = RemoveGate | MarkMet | ReadPod
OrderingInstruction: TypeAlias = OrderingCommand | TellPod | HoldBack | LetGo | Forget
