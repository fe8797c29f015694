"""A preemption that the server carries out by itself: its record, and what of it is written on the preemptors.

                every victim may go       every preemptor shows the plan,     every victim
                (dry runs)                which is still what is needed       is gone
    CHECKING ----------------> RECORDING ----------------------> EVICTING -----------> CLEARED --> over: they are placed
       ^  ^                        |                                |                     |
       |  +------------------------+--------------------------------+---------------------+
       |    planned anew: a victim may not go, does not go, the cluster changed, the room was lost
       |
     (after a restart: what stands on the preemptors, planned anew)

    any --> over: given up with a reason; not needed any more; the preemptors are gone

It follows the one idea (decide, hold, commit, confirm): the algorithm holds the room from the first moment; the
intention is written on the preemptors and *shown by the informer* before anybody is evicted. By then the informer has
shown everything that happened before the write, so that one look at the plan tells whether it is still right.

What stands on the pods is read again when a term begins. Anybody may write annotations on a pod that waits, so it is
believed for one thing only: to keep room for that very pod where recorded victims are gone or going. Whoever still runs
is evicted only if the algorithm names him again, on the nodes that were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from algorithm.interface import Share, SuggestedNodes, Victim
from algorithm.model import Pod, PodKey
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.events import Event, NodeGone, PodGone, PodSeen
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo

#: On every preemptor, from before the first eviction until it is over.
ANNOTATION = "waggle.dev/preemption"

#: Characters of it. It names so many victims as go into that.
LONGEST_RECORD = 4096

_LONGEST_NUMBER = 12
#: Of a victim's grace period, which its author chooses, so much is waited for, seconds.
MOST_GRACE = 3600


def gone_by(pod: Pod | None, now: float, patience: float) -> float:
    """When a pod that is evicted now should be gone, seconds. `pod` is None if it is gone."""
    return now + patience + (min(pod.grace_period, MOST_GRACE) if pod is not None else 0)


class Stage(StrEnum):
    """See the module's diagram."""

    CHECKING = "checking"
    RECORDING = "recording"
    EVICTING = "evicting"
    CLEARED = "cleared"


@dataclass(slots=True, eq=False)
class VictimProgress:
    """One victim on its way out. Times in seconds of the engine's clock."""

    key: PodKey
    victim: Victim
    #: Its dry run was accepted.
    allowed: bool = False
    #: The API server has accepted its eviction, or it was being deleted anyway.
    evicted: bool = False
    #: Its eviction was sent before, and did not succeed so far.
    sent: bool = False
    tries: int = 0
    #: Not to be asked for (again) before.
    retry_at: float = float("-inf")
    #: Evicted, it should be gone by then.
    stays_until: float = float("inf")

    @property
    def uid(self) -> str:
        return self.victim.uid

    def goes(self, pod: Pod | None, now: float, patience: float) -> None:
        """Its eviction was accepted, or others delete it. `pod` is what the informer shows, None if it is gone."""
        if not self.evicted:
            self.evicted, self.stays_until = True, gone_by(pod, now, patience)


@dataclass(slots=True, eq=False)
class Preemption:
    """The plan, who preempts (by UID, the one whom it is planned for first), who has to go, and how far it is."""

    number: int
    #: Where victims may run: what kube-scheduler has offered.
    nodes: SuggestedNodes
    stage: Stage
    #: The stage's beginning, seconds.
    since: float
    members: dict[str, PodInfo] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    victims: dict[str, VictimProgress] = field(default_factory=dict)
    #: The names of them all: what happens to these pods matters.
    keys: frozenset[PodKey] = frozenset()
    #: What the preemptors are told meanwhile.
    reason: Reason | None = None
    #: RECORDING: the plan's name on the preemptors, and which of them show it.
    plan: str = ""
    shown: set[str] = field(default_factory=set)
    #: RECORDING: writes that were not answered or not taken; and when they are tried again.
    tries: int = 0
    rewrite_at: float = float("inf")
    #: On whom something was ever written.
    marked: set[str] = field(default_factory=set)
    revisions: int = 0
    #: Somebody was evicted for it.
    spilled: bool = False
    #: A seat is gone: the plan has to be made anew.
    stale: bool = False
    over: bool = False
    #: When to look at it again, if nothing happens before.
    due: float = float("inf")

    @property
    def leader(self) -> PodInfo:
        """The preemptor whom the algorithm is asked about."""
        return next(iter(self.members.values()))

    def follow(self, members: dict[str, PodInfo], shares: dict[str, Share], victims: dict[str, VictimProgress]) -> None:
        """This is the plan from now on."""
        self.members, self.shares, self.victims = members, shares, victims
        self.keys = frozenset([entry.key for entry in members.values()] + [v.key for v in victims.values()])
        self.reason = waiting_for(victim.key for victim in victims.values())
        self.stale = False


def next_look(preemption: Preemption, standing: list[VictimProgress], policy: Policy) -> float:
    """When time alone changes something, if nothing happens before. `standing` are the victims that still run."""
    match preemption.stage:
        case Stage.CHECKING:
            times = [victim.retry_at for victim in standing if not victim.allowed]
            return min([*times, preemption.since + policy.patience])
        case Stage.RECORDING:
            return min(preemption.rewrite_at, preemption.since + policy.patience)
        case Stage.EVICTING:
            return min((v.stays_until if v.evicted else v.retry_at for v in standing), default=float("inf"))
        case _:
            return preemption.since + policy.lease


def waiting_for(victims: Iterable[PodKey]) -> Reason:
    """What preemptors are told. All names, also of those that are gone already: a text must not change by itself."""
    return reason(Code.WAITING_FOR_VICTIMS, victims=[str(key) for key in victims] or "none is left")


def hears(preemption: Preemption, event: Event) -> bool:
    """Whether the event may matter to it; notes what the event shows."""
    match event:
        case PodSeen(pod=pod):
            intention = read(pod) if pod.uid in preemption.members else None
            if intention is not None and intention.plan == preemption.plan:
                preemption.shown.add(pod.uid)
            return pod.key in preemption.keys
        case PodGone():
            return event.key in preemption.keys
        case NodeGone(name=name):
            preemption.stale |= any(share.node == name for share in preemption.shares.values())
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
    """What a waiting pod says of its preemption: which plan, and its share of it."""

    plan: str
    share: Share


_decoder = msgspec.json.Decoder(_Written)


def written(plan: str, share: Share) -> str:
    """The annotation's value. It names as many victims as are read again: they only tell a restart who is leaving."""
    number, text = len(share.victims), ""
    while not text or (len(text) > LONGEST_RECORD and number):
        text = msgspec.json.encode(_Written(plan, share.node, share.victims[:number])).decode()
        number //= 2
    return text


def read(pod: Pod) -> Intention | None:
    """What stands on the pod; None if that is nothing, or nothing that can be read."""
    text = pod.annotation(ANNOTATION)
    if not text or len(text) > LONGEST_RECORD:
        return None
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Intention(found.plan, Share(pod.uid, found.node, found.victims))


def generation(pod: Pod) -> int:
    """The number in the name of the plan that the pod shows; 0 if there is none."""
    intention = read(pod)
    number = intention.plan.rpartition("/")[2] if intention is not None else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < _LONGEST_NUMBER else 0
