"""Asks the API server who a caller is and whether it may read a path: TokenReview, then SubjectAccessReview.

    token --TokenReview--> user --SubjectAccessReview (get, path)--> allowed
              |                          |
       unauthenticated              forbidden            unknown: the API server could not be asked, or did not say

A path is a non-resource URL, as in the rules of a ClusterRole. Answers are cached for some seconds, so that a page that
reloads itself costs nothing; a revoked right expires here that much later. *Unknown* is never cached, and never counts
as allowed. Only the hash of a token is kept.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer

#: Seconds for which an answer is cached.
KEPT_SECONDS = 10.0
#: Answers that are cached; the least recently used one makes room.
MOST_KEPT = 1024
#: Bytes of a user, with all groups, that is cached.
_LARGEST_KEPT = 16 * 1024
#: Reviews in flight at once: a caller that invents tokens must not keep the API server busy.
MOST_AT_ONCE = 8
#: Seconds that one review may take.
_TIMEOUT = 5.0

_WHO_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_Kept = TypeVar("_Kept")


class Verdict(Enum):
    ALLOWED = "allowed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, and unless it is *allowed*, the text for the caller."""

    verdict: Verdict
    text: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class _Undecided(Exception):  # noqa: N818  a finding, not a fault of ours
    """The API server gave no verdict; the message is for the caller."""


class Reviewer:
    """Reviews callers. Thread-safe."""

    def __init__(self, api: ApiServer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: _Brief[_User | None] = _Brief(clock, lambda user: len(msgspec.json.encode(user)) <= _LARGEST_KEPT)
        self._accesses: _Brief[bool] = _Brief(clock, lambda _allowed: True)
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)

    def may_get(self, token: str, path: str) -> Decision:
        """Whether the holder of `token` may GET `path`."""
        if not token:
            return Decision(Verdict.UNAUTHENTICATED, "needs the header Authorization: Bearer TOKEN")
        identity = hashlib.sha256(token.encode()).digest()
        try:
            user = self._users.get(identity, lambda: self._user(token))
            if user is None:
                return Decision(Verdict.UNAUTHENTICATED, "the API server does not know this token, or it has expired")
            allowed = self._accesses.get((identity, path), lambda: self._access(user, path))
        except _Undecided as undecided:
            return Decision(Verdict.UNKNOWN, str(undecided))
        if allowed:
            return Decision(Verdict.ALLOWED)
        return Decision(Verdict.FORBIDDEN, f"{user.username} may not get the non-resource URL {path}")

    def _user(self, token: str) -> _User | None:
        review = self._review(_WHO_REVIEWS, "TokenReview", {"token": token}, _TokenReview)
        return review.status.user if review.status.authenticated else None

    def _access(self, user: _User, path: str) -> bool:
        """Ask for a SubjectAccessReview."""
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"verb": "get", "path": path},
        }
        status = self._review(_ACCESS_REVIEWS, "SubjectAccessReview", spec, _AccessReview).status
        return status.allowed and not status.denied

    def _review(self, path: str, kind: str, spec: dict[str, Any], answer: type[_Kept]) -> _Kept:
        """Post one review and decode the answer. Raises _Undecided."""
        group = path.removeprefix("/apis/").rpartition("/")[0]
        body = msgspec.json.encode({"apiVersion": group, "kind": kind, "spec": spec})
        if not self._slots.acquire(blocking=False):
            raise _Undecided("too many rights are being asked for at once; try again")
        try:
            response = self._api.request("POST", path, body=body, timeout=_TIMEOUT, most=bounds.SMALL_OBJECT)
        except ApiError as error:
            raise _Undecided("the API server cannot be asked for your rights") from error
        finally:
            self._slots.release()
        if not response.ok:
            raise _Undecided(f"the API server refuses a {kind} (HTTP {response.status}): {response.message}")
        try:
            return msgspec.json.decode(response.body, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _Undecided(f"the API server's {kind} cannot be read: {error}") from error


class _Brief(Generic[_Kept]):
    """A cache of answers, each for some seconds, limited to the most recently used ones. Exceptions are not cached."""

    def __init__(self, clock: Callable[[], float], may_keep: Callable[[_Kept], bool]) -> None:
        self._clock = clock
        self._may_keep = may_keep
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, _Kept]] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], _Kept]) -> _Kept:
        """Return the cached answer for a key, or ask for one and cache it."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and self._clock() < kept[0]:
                self._kept.move_to_end(key)
                return kept[1]
        fresh = ask()
        if not self._may_keep(fresh):
            return fresh
        with self._lock:
            self._kept[key] = (self._clock() + KEPT_SECONDS, fresh)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return fresh
