"""What the heart knows about one pod, and where it finds it: the entry, its story, and the roster of all entries.

The roster promises that a pod is found by UID, by name and by the token of its hold, that two pods that follow one
another under one name are never mixed up, and that a pod known to be gone is not raised from the dead by a late event.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from algorithm.interface import Victim
from algorithm.model import Pairs, Pod, PodKey
from algorithm.reasons import Reason


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
    """One line of a pod's story. `at` is in seconds of the heart's clock."""

    at: float
    text: str


@dataclass(slots=True, eq=False)
class Entry:
    """One pod. Fields that belong to one state only say so; `transitions.py` keeps that true."""

    pod: Pod
    state: State = State.UNKNOWN
    #: The state's beginning, seconds.
    since: float = 0.0
    #: The informer has shown it; before that only kube-scheduler has spoken of it.
    informed: bool = False
    #: Token of the hold: its place (BINDING), its preemption (PREEMPTING), or the wait to be informed (WAITING).
    token: int = 0
    #: BINDING and BOUND: the record that the algorithm and the cache were given, node and annotations included.
    placed: Pod | None = None
    #: BINDING: what the binding writes on the pod.
    annotations: Pairs = ()
    #: PREEMPTING: who has to go.
    victims: tuple[Victim, ...] = ()
    #: The dominant reason why it waits, and what was said of single nodes.
    reason: Reason | None = None
    nodes: dict[str, Reason] = field(default_factory=dict)
    #: Filter calls, ever; and those answered with a place that no bind has followed yet.
    attempts: int = 0
    unanswered: int = 0
    #: Bind requests that wait for the outcome of the write in flight.
    binds: list[int] = field(default_factory=list)
    #: Why a live read is under way. None also when its answer is of no interest any more.
    reading: Why | None = None
    #: Its bind was refused because somebody else was first, with this text; read back to see who.
    lost: str = ""
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
        return self.placed.node_name if self.placed else ""

    def tell(self, now: float, text: str) -> None:
        self.story.append(Line(now, text))


class Roster:
    """All entries, by UID, by name and by token, and the UIDs that are known to be gone."""

    #: How many UIDs of gone pods are remembered: enough to outlast any delay of events, and bounded.
    REMEMBERED = 20_000

    def __init__(self) -> None:
        self._by_uid: dict[str, Entry] = {}
        self._by_name: dict[PodKey, list[Entry]] = {}
        self._by_token: dict[int, Entry] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Entry | None:
        return self._by_uid.get(uid)

    def named(self, key: PodKey) -> list[Entry]:
        """The pods of this name, the one heard of last at the end. More than one only until the informer has spoken."""
        return list(self._by_name.get(key, ()))

    def holding(self, token: int) -> Entry | None:
        """The pod whose hold has this token; None for a token of the past."""
        return self._by_token.get(token)

    def add(self, entry: Entry) -> None:
        self._by_uid[entry.uid] = entry
        self._by_name.setdefault(entry.key, []).append(entry)

    def remove(self, entry: Entry) -> None:
        del self._by_uid[entry.uid]
        namesakes = self._by_name[entry.key]
        namesakes.remove(entry)
        if not namesakes:
            del self._by_name[entry.key]

    def set_token(self, entry: Entry, token: int) -> None:
        """The entry's hold is now this one; 0 is none."""
        self._by_token.pop(entry.token, None)
        entry.token = token
        if token:
            self._by_token[token] = entry

    def bury(self, uid: str) -> None:
        """This UID is gone for good: whatever is still said of it is late."""
        if uid:
            self._gone[uid] = None
            self._gone.move_to_end(uid)
            if len(self._gone) > self.REMEMBERED:
                self._gone.popitem(last=False)

    def is_gone(self, uid: str) -> bool:
        return uid in self._gone

    def validate(self) -> None:
        """Raises AssertionError if the indexes disagree."""
        assert sorted(e.uid for es in self._by_name.values() for e in es) == sorted(self._by_uid)
        for uid, entry in self._by_uid.items():
            assert entry.uid == uid, f"{entry.key} is filed under UID {uid}, but has {entry.uid}"
            assert not self.is_gone(uid), f"{entry.key} ({uid}) is gone, but still has an entry"
            assert not entry.token or self._by_token.get(entry.token) is entry, f"{entry.key}: token {entry.token} is lost"
        for token, entry in self._by_token.items():
            assert self._by_uid.get(entry.uid) is entry, f"token {token} belongs to no entry"
            assert entry.token == token, f"{entry.key} has token {entry.token}, not {token}"


def older(one: str, other: str) -> bool:
    """Whether resourceVersion `one` is surely older than `other`.

    Comparable as integers since Kubernetes 1.35 (KEP-5504) and in every etcd-backed server before it; versions that are
    no numbers are never called older.
    """
    return one.isdigit() and other.isdigit() and int(one) < int(other)
