"""Asks the API server who a caller is and whether it may read a path: TokenReview, then SubjectAccessReview.

    token --TokenReview--> user --SubjectAccessReview (verb, path)-> allowed
              |                          |
       unauthenticated              forbidden            unknown: the API server could not be asked, or did not say

A path is a non-resource URL, as in the rules of a ClusterRole; the same is asked for a verb on a resource in a
namespace. Answers are cached for some seconds, so that a page that reloads itself costs nothing; a revoked right
expires here that much later. *Unknown* is never cached, and never counts as allowed. Only the hash of a token is kept.
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

#: The attributes of a SubjectAccessReview, as pairs: the key of its cached answer.
_Question = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

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


@dataclass(frozen=True, slots=True)
class Access:
    """The verdict about a resource, the text for the caller unless it is *allowed*, and the user's name if known."""

    verdict: Verdict
    text: str = ""
    user: str = ""


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
        return self.may_use(token, "get", path)

    def may_use(self, token: str, verb: str, path: str) -> Decision:
        """Whether the holder of `token` has this verb on a path: an HTTP method in lower case."""
        found = self._decide(token, (("nonResourceAttributes", (("verb", verb), ("path", path))),))
        if found.verdict is not Verdict.FORBIDDEN:
            return Decision(found.verdict, found.text)
        return Decision(Verdict.FORBIDDEN, f"{found.user} may not {verb} the non-resource URL {path}")

    def may(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access:
        """Whether the holder of `token` has this verb on a resource in a namespace, and who it is."""
        found = self._decide(token, _resource_question(verb, group, resource, namespace))
        if found.verdict is not Verdict.FORBIDDEN:
            return found
        text = f"{found.user} may not {verb} {resource}.{group} in the namespace {namespace}"
        return Access(Verdict.FORBIDDEN, text, found.user)

    def known(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access | None:
        """The same, if the API server need not be asked, else None. Never blocks."""
        if not token:
            return self.may(token, verb, group, resource, namespace)
        identity = _identity(token)
        user = self._users.known(identity)
        allowed = self._accesses.known((identity, _resource_question(verb, group, resource, namespace)))
        return Access(Verdict.ALLOWED, user=user.username) if user is not None and allowed else None

    def _decide(self, token: str, question: _Question) -> Access:
        if not token:
            return Access(Verdict.UNAUTHENTICATED, "needs the header Authorization: Bearer TOKEN")
        identity = _identity(token)
        try:
            user = self._users.get(identity, lambda: self._user(token))
            if user is None:
                return Access(Verdict.UNAUTHENTICATED, "the API server does not know this token, or it has expired")
            allowed = self._accesses.get((identity, question), lambda: self._access(user, question))
        except _Undecided as undecided:
            return Access(Verdict.UNKNOWN, str(undecided))
        return Access(Verdict.ALLOWED if allowed else Verdict.FORBIDDEN, user=user.username)

    def _user(self, token: str) -> _User | None:
        review = self._review(_WHO_REVIEWS, "TokenReview", {"token": token}, _TokenReview)
        return review.status.user if review.status.authenticated else None

    def _access(self, user: _User, question: _Question) -> bool:
        """Ask for a SubjectAccessReview."""
        spec: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        }
        spec |= {name: dict(attributes) for name, attributes in question}
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


def _identity(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _resource_question(verb: str, group: str, resource: str, namespace: str) -> _Question:
    attributes = (("verb", verb), ("group", group), ("resource", resource), ("namespace", namespace))
    return (("resourceAttributes", attributes),)


class _Brief(Generic[_Kept]):
    """A cache of answers, each for some seconds, limited to the most recently used ones. Exceptions are not cached."""

    def __init__(self, clock: Callable[[], float], may_keep: Callable[[_Kept], bool]) -> None:
        self._clock = clock
        self._may_keep = may_keep
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, _Kept]] = OrderedDict()

    def known(self, key: Hashable) -> _Kept | None:
        """Return the cached answer for a key; None if there is none."""
        with self._lock:
            kept = self._kept.get(key)
            return kept[1] if kept is not None and self._clock() < kept[0] else None

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
