"""The engine's record of one pod with its history, and the index of all pods.

The index finds a pod by UID, by name and by the token of its hold. No two pods in it have the same name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from algorithm.interface import Preempt, SuggestedNodes, Victim, Wait
from algorithm.model import Pairs, Pod, PodKey
from algorithm.reasons import Code, Reason
from algorithm.tables import Table
from extender.scheduling.commands import RecordEvent
from extender.scheduling.events import FilterAnswer
from extender.scheduling.state.preemption_record import PreemptionOf


class State(StrEnum):
    """The state of a pod. UNKNOWN is virtual: such a pod has no PodInfo."""

    UNKNOWN = "Unknown"
    WAITING = "Waiting"
    PREEMPTING = "Preempting"
    BINDING = "Binding"
    BOUND = "Bound"


_NONE_OFFERED = SuggestedNodes()

#: The states in which the pod is allocated for the algorithm.
ALLOCATED = frozenset({State.BINDING, State.BOUND})


class Why(StrEnum):
    """Why a pod is being read live from the API server."""

    #: Its hold is due: is the pod really not bound?
    EXPIRY = "expiry"
    #: A bind was refused or not answered: what happened?
    OUTCOME = "outcome"
    #: The pod is known only from kube-scheduler: does it exist?
    UNSEEN = "unseen"


class HistoryLine(NamedTuple):
    """One line of a pod's history. `at` is in seconds of the engine's clock; `event` is the number of the event."""

    at: float
    text: str
    event: int


class LastRefusal(msgspec.Struct, frozen=True):
    """A refusal, when the window began in which changes are counted, seconds, and how many there were.

    `is_held`: refusals of this window that differ are not passed on any more.
    """

    answer: FilterAnswer
    since: float
    changes: int = 0
    is_held: bool = False


@dataclass(slots=True, eq=False)
class PodInfo:
    """One pod. A field that is used in one state only says so; `transitions.py` keeps the fields consistent."""

    pod: Pod
    #: Those of every record of this pod.
    uid: str = field(init=False)
    key: PodKey = field(init=False)
    state: State = State.UNKNOWN
    #: When this state began, seconds.
    since: float = 0.0
    #: The informer has reported the pod; before that it is known only from kube-scheduler.
    informed: bool = False
    #: Token of its hold: on its place (BINDING), its preemption (PREEMPTING), or until it is `informed` (others).
    token: int = 0
    #: BINDING and BOUND: the record that algorithm and cache have, with node and annotations.
    placed: Pod | None = None
    #: BINDING: the annotations that the binding writes on the pod.
    annotations: Pairs = ()
    #: BINDING: the term in which it was placed.
    term: int = 0
    #: PREEMPTING: the victims.
    victims: tuple[Victim, ...] = ()
    #: When they were last named to kube-scheduler, seconds; it evicts at once, and its informer may be ahead of ours.
    named_at: float = float("-inf")
    #: The dominant reason why the pod waits, and the reasons of single nodes.
    reason: Reason | None = None
    nodes: Mapping[str, Reason] = field(default_factory=dict)
    #: A preemption of ours was deferred because the informer has not reported this pod yet.
    deferred: bool = False
    #: The nodes that kube-scheduler last offered, other than in a trial.
    offered: SuggestedNodes = _NONE_OFFERED
    #: The number of all filter calls, and of those that were answered with a place and not followed by a bind yet.
    attempts: int = 0
    unanswered: int = 0
    #: Bind requests that wait for the outcome of the write in flight.
    binds: list[int] = field(default_factory=list)
    #: Why a live read is in flight, and its token. None also if its result is not needed any more.
    reading: Why | None = None
    read_token: int = 0
    #: A write of its binding was not answered, and may still arrive. After this time, seconds, the API server has
    #: certainly given it up; the write is reckoned with until the hold is verified after that. None: no such write.
    doubt_until: float | None = None
    #: kube-scheduler was refused because we are binding the pod ourselves: if that fails, nothing else requeues it.
    place_pinned: bool = False
    #: An older pod of this name that the informer reported while this pod, never reported itself, was being bound.
    older_namesake: Pod | None = None
    #: The node on which a trial was just refused.
    tried: str = ""
    #: PREEMPTING: the preemption that this server carries out; None if kube-scheduler evicts.
    preemption: Preemption | None = None
    #: The text of a bind refused because another write was first; the pod is read back to see which.
    lost: str = ""
    #: The code of the last Kubernetes Event by `announce`, so that it is not repeated.
    announced: Code | None = None
    #: It was refused or queued, so the requeuer and the wait index may know it. It is never taken back.
    requeuable: bool = False
    requeued_at: float = float("-inf")
    #: The refusal that kube-scheduler was given last (`verbs/steady.py`).
    last_refusal: LastRefusal | None = None
    history: deque[HistoryLine] = field(default_factory=lambda: deque(maxlen=64))

    def __post_init__(self) -> None:
        self.uid, self.key = self.pod.uid, self.pod.key

    @property
    def node(self) -> str:
        """The node that the pod is placed on; "" if none."""
        return self.placed.node_name if self.placed else ""

    def announce(self, why: Reason, *, warning: bool) -> list[RecordEvent]:
        """Return a Kubernetes Event on the pod, unless the last one had the same code.

        Only for reasons that kube-scheduler does not report itself.
        """
        if why.code is self.announced:
            return []
        self.announced = why.code
        return [RecordEvent(self.key.namespace, self.key.name, self.uid, why, warning)]

    def refuse(self, result: Preempt | Wait, now: float, event: int) -> None:
        """Record why the pod has no place now, by which event."""
        if result.reason != self.reason:
            self.record(now, f"refused: {result.reason.text}", event)
        self.reason = result.reason
        self.nodes = result.nodes if isinstance(result, Wait) else {}

    def record(self, now: float, text: str, event: int) -> None:
        """Add a line to the pod's history: what happened at the event of this number."""
        self.history.append(HistoryLine(now, text, event))


#: A preemption that this server carries out.
Preemption: TypeAlias = PreemptionOf[PodInfo]


class PodIndex:
    """All PodInfos, by UID, by name and by token."""

    def __init__(self) -> None:
        self._by_uid: Table[str, PodInfo] = Table()
        self._by_name: dict[PodKey, PodInfo] = {}
        self._by_token: Table[int, PodInfo] = Table()
        #: Hears of every new PodInfo while the state is copied (`scheduling/fork.py`).
        self.watch: set[PodInfo] | None = None

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(list(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> PodInfo | None:
        return self._by_uid.get(uid)

    def keys(self) -> list[PodKey]:
        """The names of all pods."""
        return list(self._by_name)

    def named(self, key: PodKey) -> PodInfo | None:
        """The pod with this name; None if there is none."""
        return self._by_name.get(key)

    def holding(self, token: int) -> PodInfo | None:
        """The pod whose hold has this token; None for an old token."""
        return self._by_token.get(token)

    def add(self, pod_info: PodInfo) -> None:
        self._by_uid[pod_info.uid] = pod_info
        self._by_name[pod_info.key] = pod_info
        if self.watch is not None:
            self.watch.add(pod_info)

    def replace(self, copies: Mapping[PodInfo, PodInfo]) -> None:
        """Put copies in the place of all PodInfos, in a copy of the index."""
        self._by_uid = Table((uid, copies[pod_info]) for uid, pod_info in self._by_uid.items())
        self._by_name = {pod_info.key: pod_info for pod_info in self._by_uid.values()}
        self._by_token = Table((token, copies[pod_info]) for token, pod_info in self._by_token.items())

    def remove(self, pod_info: PodInfo) -> None:
        del self._by_uid[pod_info.uid]
        del self._by_name[pod_info.key]

    def set_token(self, pod_info: PodInfo, token: int) -> None:
        """Set the token of the hold of this PodInfo; 0 for none."""
        self._by_token.pop(pod_info.token, None)
        pod_info.token = token
        if token:
            self._by_token[token] = pod_info

    def validate(self) -> None:
        """Raises AssertionError if the indexes disagree."""
        for uid, pod_info in self._by_uid.items():
            assert pod_info.uid == uid, f"{pod_info.key} is filed under UID {uid}, but has {pod_info.uid}"
            assert (pod_info.pod.uid, pod_info.pod.key) == (uid, pod_info.key), (
                f"{pod_info.key} has a record of {pod_info.pod.key}"
            )
            assert self._by_name.get(pod_info.key) is pod_info, f"{pod_info.key} is not found by its name"
            assert not pod_info.token or self._by_token.get(pod_info.token) is pod_info, (
                f"{pod_info.key}: {pod_info.token} is lost"
            )
        assert len(self._by_name) == len(self._by_uid), "two pods have one name"
        for token, pod_info in self._by_token.items():
            assert self._by_uid.get(pod_info.uid) is pod_info, f"token {token} belongs to no pod"
            assert pod_info.token == token, f"{pod_info.key} has token {pod_info.token}, not {token}"
