"""What is known of each id, and of the nodes among them. Plain state: `graph` and `waiting` change it."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable
from enum import Enum
from typing import Any, Generic

import msgspec

from extender.fixpoint.records import LONGEST_PATH, NAMED, Id, Need, Reason, Status, Verdict, Want


class NodeState(Enum):
    """See the diagram in `graph`."""

    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    ENDED = "ended"


class Answer(Enum):
    """How a need stands."""

    MET = "met"
    FAILED = "failed"
    ABSENT = "absent"
    PENDING = "pending"


# Members as names of the module, since they are asked for all the time: through its class it takes 20 times as long.
QUEUED, RUNNING, PARKED, ENDED = NodeState.QUEUED, NodeState.RUNNING, NodeState.PARKED, NodeState.ENDED
MET, FAILED, ABSENT, PENDING = Answer.MET, Answer.FAILED, Answer.ABSENT, Answer.PENDING
READY_WANTED, _EXISTENCE_WANTED = Want.READY, Want.EXISTS
_IS_READY, _HAS_FAILED = Status.READY, Status.FAILED
#: The answers, the best one first.
_WORST = (MET, PENDING, FAILED, ABSENT)


class Wait(msgspec.Struct, Generic[Id], frozen=True, gc=False):
    """One time in which a node was parked: on what, and from which dispatch of the run to which.

    `woken_by`: the id whose change ended it; None: a verdict, or the end of the run.
    """

    on: tuple[Id, ...]
    since: int
    until: int
    woken_by: Id | None = None


class Cycle(msgspec.Struct, Generic[Id], frozen=True):
    """A cycle as reasons tell it. Members of one large component share it."""

    path: tuple[Id, ...]
    #: All its ids, sorted.
    root: tuple[Id, ...]
    text: str

    @classmethod
    def of(cls, path: tuple[Id, ...]) -> Cycle[Id]:
        """Make it from its ids in order, the first one once more at the end."""
        shown = " -> ".join(str(key) for key in path[: NAMED + 1])
        more = "" if len(path) <= NAMED + 1 else f" -> ... ({len(path) - 1} in all)"
        given = path if len(path) <= LONGEST_PATH + 1 else path[:LONGEST_PATH]
        return cls(given, tuple(sorted(set(path))), f"cycle: {shown}{more}")


class Open(Generic[Id]):
    """The needs of one parked node on one id that are not met."""

    __slots__ = ("absent", "needs")

    def __init__(self, need: Need[Id], absent: bool) -> None:
        self.needs = [need]
        self.absent = absent

    def required(self) -> bool:
        """Whether one of the needs is not optional."""
        return any(not need.optional for need in self.needs)


class Node(Generic[Id]):
    """An id with a body: what has become of it so far."""

    __slots__ = (
        "again", "all_open", "anonymous", "began", "brought_news", "cause", "charge", "charges", "coroutine", "cycle",
        "dispatches", "earlier", "failing", "fresh", "gone", "grouped", "id", "lacking", "needs", "observed", "open",
        "parked_at", "parked_on", "pending", "reason", "recovers_on", "relied", "restart", "retries", "runs", "seen",
        "started", "state", "sweep", "swept", "told", "verdicts", "waits",
    )  # fmt: skip

    def __init__(self, key: Id) -> None:
        self.id = key
        self.state = NodeState.QUEUED
        #: How often its body was started, and how often it was started or went on.
        self.runs = 0
        self.dispatches = 0
        #: How often it was dispatched before it was deleted and came again.
        self.earlier = 0
        #: What was charged so far, and the cause that the next dispatch is charged for ("": it is free).
        self.charges = 0
        self.charge = ""
        self.cause = ""
        #: Why it is to run again as soon as it has ended; "" if not. `charge` says whether that costs.
        self.again = ""
        #: Its content has changed: it starts over, with other needs.
        self.restart = False
        #: The generation when it was dispatched last, and the arrivals that it may have seen.
        self.started = 0
        #: The generation at which its body began; that of a coroutine goes on from there and is not begun anew.
        self.began = 0
        self.seen = 0
        #: Whether it has reported news since then; how many arrivals were nobody's when it was dispatched.
        self.brought_news = False
        self.anonymous = 0
        #: The needs that it has declared since it started over; `fresh`: none yet in this run.
        self.needs: dict[Need[Id], None] = {}
        self.grouped: dict[Id, list[Need[Id]]] | None = None
        self.fresh = True
        #: What its gate has found open, and at which generation; None if some of it has failed.
        self.all_open: tuple[int, tuple[Need[Id], ...]] | None = None
        #: While it is parked: its unmet needs by id, those that have failed, and how many ids are absent (and
        #: required), or pending. `told`: its body knows of a failed need.
        self.open: dict[Id, Open[Id]] = {}
        self.failing: tuple[Id, ...] = ()
        self.lacking = 0
        self.pending = 0
        self.told = False
        self.parked_at = 0
        self.parked_on: tuple[Id, ...] = ()
        #: Decided by the engine, by the id needed; its cycle, if it is in one.
        self.verdicts: dict[Id, Verdict] = {}
        self.cycle: Cycle[Id] | None = None
        #: The ids on whose being met its end relies; the ids that would have to become ready for another run.
        self.relied: tuple[Id, ...] = ()
        self.recovers_on: set[Id] = set()
        self.reason: Reason[Id] | None = None
        #: It is run again when nothing else can run; `swept`: this run is such a one.
        self.sweep = False
        self.swept = False
        #: What it was blocked on when that had already ended, and how often that was unchanged.
        self.observed: Hashable = None
        self.retries = 0
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.gone = False
        self.waits: list[Wait[Id]] = []

    def declare(self, needs: Iterable[Need[Id]]) -> None:
        """Note what it needs."""
        self.needs.update(dict.fromkeys(needs))
        self.grouped = None

    def forget_needs(self) -> None:
        """It starts over."""
        self.needs, self.grouped = {}, None

    def needs_on(self, key: Id) -> list[Need[Id]]:
        """Its needs on one id."""
        if self.grouped is None:
            self.grouped = {}
            for need in self.needs:
                self.grouped.setdefault(need.id, []).append(need)
        return self.grouped.get(key, [])


class Thing(Generic[Id]):
    """What is known of an id, whether it exists or is only waited for."""

    __slots__ = (
        "changed", "content", "dependants", "digest", "dispatches", "emitters", "exists", "failed", "id", "node",
        "status", "waiters",
    )  # fmt: skip

    def __init__(self, key: Id) -> None:
        self.id = key
        self.exists = False
        self.node: Node[Id] | None = None
        #: None: data that never got a status.
        self.status: Status | None = None
        self.digest: Any = None
        #: How often its content has changed; the generation of the last change of any kind.
        self.content = 0
        self.changed = 0
        #: How often nodes of this id that are gone were dispatched.
        self.dispatches = 0
        #: Parked nodes with unmet needs on it; ended nodes that rely on it; ended nodes that failed because of it.
        self.waiters: dict[Id, Node[Id]] = {}
        self.dependants: dict[Id, Node[Id]] = {}
        self.failed: dict[Id, Node[Id]] = {}
        #: The nodes whose bodies have reported it.
        self.emitters: set[Id] = set()


class Things(Generic[Id]):
    """All things by id, and how needs on them stand."""

    def __init__(self) -> None:
        self.by_id: dict[Id, Thing[Id]] = {}
        #: Counts every change of any thing.
        self.generation = 0
        #: The generation when something failed or went last.
        self.lost_at = 0

    def get(self, key: Id) -> Thing[Id]:
        """Return the thing, which may have to be made: then it does not exist so far."""
        thing = self.by_id.get(key)
        if thing is None:
            thing = self.by_id[key] = Thing(key)
        return thing

    def change(self, thing: Thing[Id]) -> None:
        self.generation += 1
        thing.changed = self.generation

    def answer(self, need: Need[Id]) -> Answer:
        """Return how the need stands now."""
        thing = self.by_id.get(need.id)
        if thing is None or not thing.exists:
            return ABSENT
        if need.want is READY_WANTED:
            if thing.status is _IS_READY or thing.status is None:
                return MET
        elif need.want is _EXISTENCE_WANTED or thing.content >= need.generation:
            return MET
        return FAILED if thing.status is _HAS_FAILED else PENDING

    def answer_of(self, node: Node[Id], key: Id) -> Answer:
        """Return how all that the node needs of the id stands; of an undeclared one: whether it is ready."""
        declared = node.needs_on(key) or [Need(key)]
        return max((self.answer(need) for need in declared), key=_WORST.index)

    def nodes(self) -> Iterable[Node[Id]]:
        """All nodes, in no particular order."""
        return (thing.node for thing in self.by_id.values() if thing.node is not None)


def retired(node: Node[Id], need: Need[Id]) -> bool:
    """Whether a verdict on the need stands. A waiver counts for optional needs only."""
    verdict = node.verdicts.get(need.id)
    return verdict is not None and (need.optional or verdict is not Verdict.WAIVED)
