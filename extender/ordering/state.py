"""The state of the engine of start-up ordering. Its parts share one `EngineState`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from algorithm.reasons import Code, Reason
from extender.core.deadlines import Deadlines
from extender.core.freshness import ShownVersions
from extender.core.wait_index import WaitIndex
from extender.ordering.events import OrderingInstruction
from extender.ordering.records import KINDS, Dependency, PodKey, PodRecord, Target
from extender.ordering.tree import NodeKey, Tree

#: How many objects that are gone are remembered, so that no late event brings one back.
GONE = 1_000
#: Seconds before the first repetition of a write that failed; twice as long each time, up to the last.
AGAIN, SELDOM = 1.0, 300.0
#: Seconds for which a target may be missing, before the settings say another time.
GRACE = 60.0


class Phase(StrEnum):
    """The states of a pod: see the diagram in the package."""

    WAITING = "waiting"
    #: It neither declares nor inherits anything, and has no gate. That may change until it is bound.
    FREE = "free"
    #: Nothing holds it back any more; that is being written.
    RELEASING = "releasing"
    RELEASED = "released"


class Trouble(msgspec.Struct, frozen=True):
    """Why a wait cannot end by itself. `via`: the dependency that leads to `root`; None: the pod itself declares it.

    `detail`: a sentence about the root.
    """

    code: Code
    root: Target
    detail: str
    via: Target | None = None


class Waiting(msgspec.Struct):
    """A pod that is not bound."""

    record: PodRecord
    #: When it was seen first, seconds.
    since: float = 0.0
    phase: Phase = Phase.WAITING
    #: All that it declares and inherits, and what of it is met.
    after: tuple[Dependency, ...] = ()
    met: set[str] = msgspec.field(default_factory=set)
    #: Dependencies that are not met: of each entry one is enough.
    unmet: tuple[tuple[Dependency, ...], ...] = ()
    #: What it belongs to and is not known yet.
    unknown: tuple[NodeKey, ...] = ()
    #: Since when targets are missing, and what it belongs to is not known.
    missing: dict[Target, float] = msgspec.field(default_factory=dict)
    unseen: dict[NodeKey, float] = msgspec.field(default_factory=dict)
    #: Of its own dependencies, and of what these wait for.
    direct: Trouble | None = None
    indirect: Trouble | None = None
    #: Why it waits; None: it does not. And what of that was told: to people, and to the engine of pods.
    reason: Reason | None = None
    told: Reason | None = None
    held: Reason | None = None
    #: Whether the engine of pods was told anything.
    is_judged: bool = False
    #: The write that is under way; 0: none. And writes that failed, one after the other.
    token: int = 0
    failures: int = 0
    error: str = ""

    @property
    def root(self) -> Target | None:
        """The object at the root of its trouble; None: it only waits."""
        trouble = self.direct or self.indirect
        return trouble.root if trouble else None


class EngineState:
    """The state. Times are seconds of the engine's clock."""

    def __init__(self) -> None:
        self.now = 0.0
        #: That of the event.
        self.number = 0
        self.term: int | None = None
        self.is_synced = False
        self.grace = GRACE
        self.kinds: frozenset[str] = frozenset(KINDS)
        self.index = WaitIndex()
        self.tree = Tree(self.touch)
        self.waiting: dict[str, Waiting] = {}
        self.shown: ShownVersions[PodKey] = ShownVersions(gone=GONE, ignored=0)
        self.shown_workloads: ShownVersions[Target] = ShownVersions(gone=GONE, ignored=0)
        #: Pods to look at, and pods whose write is to be sent.
        self.looks: dict[str, None] = {}
        self.sends: dict[str, None] = {}
        #: When grace is over for something that a pod waits for.
        self.graces: Deadlines[str] = Deadlines()
        #: When a write is tried again, and when a pod is read since no watch has shown its write.
        self.retries: Deadlines[str] = Deadlines()
        self.reads: Deadlines[str] = Deadlines()
        #: Whether what waits for what has changed since it was last searched for cycles and causes.
        self.graph_changed = False
        self.out: list[OrderingInstruction] = []
        #: How many pods were released since the start.
        self.released = 0
        self._token = 0

    def next_token(self) -> int:
        self._token += 1
        return self._token

    def touch(self, target: Target) -> None:
        """Look again at the pods that wait for a target."""
        self.looks.update(dict.fromkeys(self.index.touch(str(target))))

    def touch_declaration(self, target: Target) -> None:
        """Look again at the waiting pods that belong to a target: it may declare other dependencies now."""
        self.looks.update(dict.fromkeys(self.index.touch(declaration_key(target))))

    def has_work(self) -> bool:
        return self.is_synced and bool(self.looks or (self.sends and self.term is not None))


def declaration_key(target: Target) -> str:
    """The key on which pods wait for what a target declares."""
    return f"declared by {target}"


def backed_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(SELDOM, AGAIN * 2.0 ** min(failures - 1, 10))
