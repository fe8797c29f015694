"""What this server knows about each Claim object, and the claims on pods that belong to it."""

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
    """One Claim object, or the claims of a deleted one."""

    uid: str
    namespace: str
    #: None: it was deleted, or is not known yet.
    obj: ClaimObject | None = None
    is_deleted: bool = False
    own: Own | None = None
    #: The call of `own`.
    request: str = ""
    #: How often this server has asked for pods.
    tries: int = 0
    since: float | None = None
    written_at: float = float("-inf")
    put_finalizer: bool = False
    renewed: tuple[int, str] | None = None
    is_renewing: bool = False
    #: Claims that are being given back, or have failed.
    leaving: set[str] = field(default_factory=set)
    #: Claims that this server has seen on pods.
    stood: set[str] = field(default_factory=set)
    #: The token of the write in flight; None if there is none.
    writing: int | None = None
    #: Failed writes in a row, and the end of the back-off, seconds of the engine's clock.
    failures: int = 0
    paused_until: float = 0.0


class StandingClaims:
    """The claims on pods that belong to Claim objects, by the object's UID. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The claim of each pod that belongs to an object, by the pod's UID.
        self._claims: dict[str, str] = {}
        self._pods: dict[str, Counter[str]] = {}
        self._namespaces: dict[str, str] = {}

    def changed(self, changes: Iterable[Change[WarmPod]]) -> set[str]:
        """Handle changes of pods. Return the UIDs of the objects that they concern."""
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
        """Return the sorted names of this object's claims."""
        with self._lock:
            return sorted(self._pods.get(uid, ()))

    def objects(self) -> dict[str, str]:
        """Return the namespaces of all objects that have claims, by UID."""
        with self._lock:
            return dict(self._namespaces)
