"""What this server knows about each Claim object, and which claims stand on pods in its name."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from extender.claims.records import WarmPod
from extender.kube.informers.reflector import Change, ChangeKind
from extender.server.claims.objects.claims import Own
from extender.server.claims.objects.records import ClaimObject, object_of


@dataclass(slots=True)
class Tracked:
    """One Claim object, or the claims that one has left behind."""

    uid: str
    namespace: str
    #: None: it is gone, or not known yet.
    obj: ClaimObject | None = None
    is_deleted: bool = False
    own: Own | None = None
    #: The call of `own`.
    request: str = ""
    #: How often this server has asked.
    tries: int = 0
    since: float | None = None
    written_at: float = float("-inf")
    put_finalizer: bool = False
    renewed: tuple[int, str] | None = None
    is_renewing: bool = False
    #: Claims that are given back, or have failed.
    leaving: set[str] = field(default_factory=set)
    #: Claims that stood here once, on pods that this server has seen.
    stood: set[str] = field(default_factory=set)
    #: The write that is under way; None if there is none.
    writing: int | None = None
    #: Writes in a row that did not end well, and until when there is a pause.
    failures: int = 0
    paused_until: float = 0.0


class StandingClaims:
    """The claims of objects that stand on pods, by the object's UID. Thread-safe: informers tell it of changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The claim of each pod that has one of an object.
        self._claims: dict[str, str] = {}
        self._pods: dict[str, Counter[str]] = {}
        self._namespaces: dict[str, str] = {}

    def changed(self, changes: Iterable[Change[WarmPod]]) -> set[str]:
        """Take in changes of pods. Return the UIDs of the objects that they concern."""
        touched: set[str] = set()
        with self._lock:
            for change in changes:
                pod = change.obj
                mark = pod.mark if change.kind is ChangeKind.SEEN else None
                claim = mark.claim if mark is not None and object_of(mark.claim) else ""
                before = self._claims.get(pod.uid, "")
                if before and before != claim:
                    self._leave(pod.uid, before)
                    touched.add(object_of(before))
                if not claim:
                    continue
                uid = object_of(claim)
                touched.add(uid)
                self._namespaces[uid] = pod.namespace
                if claim != before:
                    self._claims[pod.uid] = claim
                    self._pods.setdefault(uid, Counter())[claim] += 1
        return touched

    def _leave(self, pod: str, claim: str) -> None:
        del self._claims[pod]
        uid = object_of(claim)
        counts = self._pods[uid]
        counts[claim] -= 1
        if not counts[claim]:
            del counts[claim]
        if not counts:
            del self._pods[uid], self._namespaces[uid]

    def of(self, uid: str) -> list[str]:
        """The names of the claims that stand in the name of this object, in order."""
        with self._lock:
            return sorted(self._pods.get(uid, ()))

    def objects(self) -> dict[str, str]:
        """The UIDs of all objects in whose name claims stand, with the namespaces."""
        with self._lock:
            return dict(self._namespaces)
