"""A preemption that the server carries out by itself: its record, and the annotation of it on the preemptors.

                every victim may go       every preemptor shows the plan,     every victim
                (dry runs)                which is still what is needed       is gone
    CHECKING ----------------> RECORDING ----------------------> EVICTING -----------> CLEARED --> over: they are placed
       ^  ^                        |                                |                     |
       |  +------------------------+--------------------------------+---------------------+
       |    planned anew: a victim may not go, does not go, the cluster changed, the room was lost
       |
     (after a restart: what remains on the preemptors, planned anew)

    any --> over: given up with a reason; not needed any more; the preemptors are gone

It follows the common pattern (decide, hold, commit, confirm). The algorithm holds the room from the first moment. The
plan is written on the preemptors as an annotation, and *shown by the informer*, before any pod is evicted. By then the
informer has shown everything that happened before the write, so one check of the plan shows whether it is still right.

The annotations are read again when a term begins. Other clients may write annotations on a waiting pod, so they are
trusted for one purpose only: to keep room for that very pod where recorded victims are gone or terminating. A pod that
still runs is evicted only if the algorithm names it again, on the recorded nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from algorithm.interface import MemberPlan, SuggestedNodes, Victim
from algorithm.model import Pod, PodKey
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.events import Event, NodeGone, PodGone, PodSeen
from extender.scheduling.policy import Policy
from extender.scheduling.writes.preemption_mark import ANNOTATION, LONGEST_RECORD

_LONGEST_NUMBER = 12


def gone_by(pod: Pod | None, now: float, policy: Policy) -> float:
    """Return when a pod that is evicted now should be gone, seconds. `pod` is None if it is gone."""
    return now + policy.patience + (min(pod.grace_period, policy.limits.most_grace) if pod is not None else 0)


class Stage(StrEnum):
    """See the module's diagram."""

    CHECKING = "checking"
    RECORDING = "recording"
    EVICTING = "evicting"
    CLEARED = "cleared"


@dataclass(slots=True, eq=False)
class VictimProgress:
    """The progress of one victim's eviction. Times in seconds of the engine's clock."""

    key: PodKey
    victim: Victim
    #: Its dry run was accepted.
    allowed: bool = False
    #: The API server has accepted its eviction, or the pod was being deleted anyway.
    evicted: bool = False
    #: Its eviction was sent.
    sent: bool = False
    tries: int = 0
    #: Its eviction or dry run is not sent (again) before this time.
    retry_at: float = float("-inf")
    #: When it should be gone after its eviction.
    stays_until: float = float("inf")

    @property
    def uid(self) -> str:
        return self.victim.uid

    def goes(self, pod: Pod | None, now: float, policy: Policy) -> None:
        """Record that its eviction was accepted, or that others delete it.

        `pod` is the informer's record, None if it is gone.
        """
        if not self.evicted:
            self.evicted, self.stays_until = True, gone_by(pod, now, policy)


class Preemptor(Protocol):
    """A pod's record, as far as a preemption reads it. `pod_info.Preemption` is the preemption of PodInfos."""

    @property
    def key(self) -> PodKey: ...


PodT = TypeVar("PodT", bound=Preemptor)


@dataclass(slots=True, eq=False)
class PreemptionOf(Generic[PodT]):
    """The plan, its members by UID (first the one that it was planned for), its victims, and its stage."""

    number: int
    #: The nodes on which victims may run: those that kube-scheduler has offered.
    nodes: SuggestedNodes
    stage: Stage
    #: When the stage began, seconds.
    since: float
    members: dict[str, PodT] = field(default_factory=dict)
    member_plans: dict[str, MemberPlan] = field(default_factory=dict)
    victims: dict[str, VictimProgress] = field(default_factory=dict)
    #: The names of all members and victims: events of these pods matter.
    keys: frozenset[PodKey] = frozenset()
    #: The reason that the preemptors get meanwhile.
    reason: Reason | None = None
    #: RECORDING: the plan's name on the preemptors, and which of them show it.
    plan: str = ""
    shown: set[str] = field(default_factory=set)
    #: RECORDING: how many writes were not answered or not accepted, and when they are retried.
    tries: int = 0
    rewrite_at: float = float("inf")
    #: UIDs of the pods on which the annotation was ever written.
    marked: set[str] = field(default_factory=set)
    revisions: int = 0
    #: A victim's eviction was accepted.
    eviction_started: bool = False
    #: A seat is gone: the plan has to be made again.
    stale: bool = False
    over: bool = False

    @property
    def leader(self) -> PodT:
        """The preemptor for which the algorithm is asked."""
        return next(iter(self.members.values()))

    def follow(
        self, members: dict[str, PodT], member_plans: dict[str, MemberPlan], victims: dict[str, VictimProgress]
    ) -> None:
        """Replace the plan by this one."""
        self.members, self.member_plans, self.victims = members, member_plans, victims
        self.keys = frozenset([pod_info.key for pod_info in members.values()] + [v.key for v in victims.values()])
        self.reason = waiting_for(victim.key for victim in victims.values())
        self.stale = False


def next_look(preemption: PreemptionOf[PodT], remaining: list[VictimProgress], policy: Policy) -> float:
    """Return when the preemption is due if no event comes before. `remaining` are the victims that still run."""
    match preemption.stage:
        case Stage.CHECKING:
            times = [victim.retry_at for victim in remaining if not victim.allowed]
            return min([*times, preemption.since + policy.patience])
        case Stage.RECORDING:
            return min(preemption.rewrite_at, preemption.since + policy.patience)
        case Stage.EVICTING:
            return min((v.stays_until if v.evicted else v.retry_at for v in remaining), default=float("inf"))
        case _:
            return preemption.since + policy.lease


def waiting_for(victims: Iterable[PodKey]) -> Reason:
    """Return the reason for preemptors. It has the names of all victims, also of those that are gone: the text must not
    change by itself."""
    return reason(Code.WAITING_FOR_VICTIMS, victims=[str(key) for key in victims] or "none is left")


def hears(preemption: PreemptionOf[PodT], event: Event) -> bool:
    """Whether the event may matter to the preemption. Records what the event shows."""
    match event:
        case PodSeen(pod=pod):
            intention = read(pod) if pod.uid in preemption.members else None
            if intention is not None and intention.plan == preemption.plan:
                preemption.shown.add(pod.uid)
            return pod.key in preemption.keys
        case PodGone():
            return event.key in preemption.keys
        case NodeGone(name=name):
            preemption.stale |= any(member_plan.node == name for member_plan in preemption.member_plans.values())
            return preemption.stale
        case _:
            return False


# -- on the pods --------------------------------------------------------------------------------------------------


class _Written(msgspec.Struct, frozen=True, omit_defaults=True):
    plan: str
    node: str
    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True)
class Intention:
    """The preemption recorded on a waiting pod: the plan's name, and the pod's part of it."""

    plan: str
    member_plan: MemberPlan


_decoder = msgspec.json.Decoder(_Written)


def written(plan: str, member_plan: MemberPlan) -> str:
    """Return the annotation's value. It may name only some victims: they only show a restart which pods are leaving."""
    number, text = len(member_plan.victims), ""
    while not text or (len(text) > LONGEST_RECORD and number):
        text = msgspec.json.encode(_Written(plan, member_plan.node, member_plan.victims[:number])).decode()
        number //= 2
    return text


def read(pod: Pod) -> Intention | None:
    """Return the preemption recorded on the pod; None if there is none, or it cannot be read."""
    text = pod.annotation(ANNOTATION)
    if not text or len(text) > LONGEST_RECORD:
        return None
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Intention(found.plan, MemberPlan(pod.uid, found.node, found.victims))


def generation(pod: Pod) -> int:
    """Return the number in the name of the plan recorded on the pod; 0 if there is none."""
    intention = read(pod)
    number = intention.plan.rpartition("/")[2] if intention is not None else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < _LONGEST_NUMBER else 0
