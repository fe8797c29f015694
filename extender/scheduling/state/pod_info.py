"""What the engine knows about one pod, and where it finds it: the entry, its story, and the roster of all entries.

The roster promises that a pod is found by UID, by name and by the token of its hold, and that no two have one name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from algorithm.interface import Preempt, SuggestedNodes, Victim, Wait
from algorithm.model import Pairs, Pod, PodKey
from algorithm.reasons import Code, Reason
from extender.scheduling.commands import RecordEvent

if TYPE_CHECKING:
    from extender.scheduling.state.preemption_record import Preemption


class State(StrEnum):
    """Where a pod stands. UNKNOWN is virtual: no entry exists."""

    UNKNOWN = "Unknown"
    WAITING = "Waiting"
    PREEMPTING = "Preempting"
    BINDING = "Binding"
    BOUND = "Bound"


#: The states in which the algorithm has been told that the pod takes room.
ALLOCATED = frozenset({State.BINDING, State.BOUND})


class Why(StrEnum):
    """Why a pod is being read live from the API server."""

    #: Its hold's time is up: is it really not bound?
    EXPIRY = "expiry"
    #: A bind was refused or not answered: what happened?
    OUTCOME = "outcome"
    #: Only kube-scheduler has told us of it: does it exist?
    UNSEEN = "unseen"


class Line(NamedTuple):
    """One line of a pod's story. `at` is in seconds of the engine's clock."""

    at: float
    text: str


@dataclass(slots=True, eq=False)
class PodInfo:
    """One pod. Fields that belong to one state only say so; `transitions.py` keeps that true."""

    pod: Pod
    state: State = State.UNKNOWN
    #: The state's beginning, seconds.
    since: float = 0.0
    #: The informer has shown it; before that only kube-scheduler has spoken of it.
    informed: bool = False
    #: The resourceVersion that the API server showed last; a caller may be ahead of it, or wrong.
    shown: str = ""
    #: Token of the hold: its place (BINDING), its preemption (PREEMPTING), or the wait to be informed (WAITING).
    token: int = 0
    #: BINDING and BOUND: the record that the algorithm and the cache were given, node and annotations included.
    placed: Pod | None = None
    #: BINDING: what the binding writes on the pod.
    annotations: Pairs = ()
    #: BINDING: the term in which it was placed.
    term: int = 0
    #: PREEMPTING: who has to go.
    victims: tuple[Victim, ...] = ()
    #: When kube-scheduler was last told them, seconds; it evicts at once, and its informer may be ahead of ours.
    told_at: float = float("-inf")
    #: The dominant reason why it waits, and what was said of single nodes.
    reason: Reason | None = None
    nodes: Mapping[str, Reason] = field(default_factory=dict)
    #: A preemption of ours could not begin before the informer shows this pod.
    balked: bool = False
    #: The nodes that kube-scheduler last spoke of, other than in a trial.
    asked: SuggestedNodes = field(default_factory=SuggestedNodes)
    #: Filter calls, ever; and those answered with a place that no bind has followed yet.
    attempts: int = 0
    unanswered: int = 0
    #: Bind requests that wait for the outcome of the write in flight.
    binds: list[int] = field(default_factory=list)
    #: Why a live read is under way, and its token. None also when its answer is of no interest any more.
    reading: Why | None = None
    read_token: int = 0
    #: A write of its binding was not answered. It may yet arrive, at least until this time, seconds, when the API
    #: server has surely given it up, and is counted with until the hold is verified after that. None: no such write.
    doubt_until: float | None = None
    #: kube-scheduler was refused because we are binding it ourselves: if that fails, only a nudge brings it back.
    insisted: bool = False
    #: An older pod of this name that the informer showed while this one, which it never showed, is being bound.
    rival: Pod | None = None
    #: The node on which a trial was just refused.
    tried: str = ""
    #: PREEMPTING: the preemption that the server carries out by itself; None if kube-scheduler evicts.
    preemption: Preemption | None = None
    #: Its bind was refused because somebody else was first, with this text; read back to see who.
    lost: str = ""
    #: What people were last shown of it as a Kubernetes Event that could come again and again.
    announced: Code | None = None
    nudged_at: float = float("-inf")
    story: deque[Line] = field(default_factory=lambda: deque(maxlen=64))

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def key(self) -> PodKey:
        return self.pod.key

    @property
    def node(self) -> str:
        """The node it is placed on, "" if none."""
        placed = self.placed  # read once: people look at entries without the lock
        return placed.node_name if placed else ""

    def announce(self, why: Reason, *, warning: bool) -> list[RecordEvent]:
        """A Kubernetes Event on the pod: only for what kube-scheduler does not report itself, and once in a row."""
        if why.code is self.announced:
            return []
        self.announced = why.code
        return [RecordEvent(self.key.namespace, self.key.name, self.uid, why, warning)]

    def refuse(self, result: Preempt | Wait, now: float) -> None:
        """Remembers why it has no place now."""
        if result.reason != self.reason:
            self.tell(now, f"refused: {result.reason.text}")
        self.reason = result.reason
        self.nodes = result.nodes if isinstance(result, Wait) else {}

    def tell(self, now: float, text: str) -> None:
        self.story.append(Line(now, text))


class PodIndex:
    """All entries, by UID, by name and by token."""

    def __init__(self) -> None:
        self._by_uid: dict[str, PodInfo] = {}
        self._by_name: dict[PodKey, PodInfo] = {}
        self._by_token: dict[int, PodInfo] = {}

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(list(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> PodInfo | None:
        return self._by_uid.get(uid)

    def named(self, key: PodKey) -> PodInfo | None:
        """The pod that has this name."""
        return self._by_name.get(key)

    def holding(self, token: int) -> PodInfo | None:
        """The pod whose hold has this token; None for a token of the past."""
        return self._by_token.get(token)

    def add(self, entry: PodInfo) -> None:
        self._by_uid[entry.uid] = entry
        self._by_name[entry.key] = entry

    def remove(self, entry: PodInfo) -> None:
        del self._by_uid[entry.uid]
        del self._by_name[entry.key]

    def set_token(self, entry: PodInfo, token: int) -> None:
        """The entry's hold is now this one; 0 is none."""
        self._by_token.pop(entry.token, None)
        entry.token = token
        if token:
            self._by_token[token] = entry

    def validate(self) -> None:
        """Raises AssertionError if the indexes disagree."""
        for uid, entry in self._by_uid.items():
            assert entry.uid == uid, f"{entry.key} is filed under UID {uid}, but has {entry.uid}"
            assert self._by_name.get(entry.key) is entry, f"{entry.key} is not found by its name"
            assert not entry.token or self._by_token.get(entry.token) is entry, f"{entry.key}: {entry.token} is lost"
        assert len(self._by_name) == len(self._by_uid), "two pods have one name"
        for token, entry in self._by_token.items():
            assert self._by_uid.get(entry.uid) is entry, f"token {token} belongs to no entry"
            assert entry.token == token, f"{entry.key} has token {entry.token}, not {token}"
