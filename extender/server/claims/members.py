"""Tells the engine which servers serve claims side by side, so that each claims pods of its own share first.

    renew this server's Lease --> list all Leases --> MembersSeen(names, me)      every few seconds
          |  failed                                        ^
          +--> after the lease duration: MembersSeen((), me) -+   this server knows of no others

Each server has a Lease with its name, and a label by which the others find it. A member counts as alive if its Lease
has changed within the lease duration *by this server's clock*: the clocks of other machines are not trusted.

Correctness does not depend on this. Servers that see different members, or none, only try for the same pod more often,
and the API server decides. A Lease that has not changed for a long time is deleted by any server.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from extender.claims.events import MembersSeen
from extender.core.requests import collection_path, object_path
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Response
from extender.server.repeating import RepeatingThread

log = structlog.get_logger(__name__)

LABEL = "waggle.dev/claims"
#: Seconds between two renewals, and after which a member whose Lease was not renewed counts as dead.
_RENEW, _LENGTH = 5.0, 15.0
#: Seconds after which a Lease that was not renewed is deleted.
_FORGOTTEN = 600.0
_TIMEOUT = 4.0
#: The limit of members, which is far above any useful number of replicas.
_MOST = 256


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct):
    metadata: _Meta


class _Leases(msgspec.Struct):
    items: list[_Lease] | None = None


class _FailedError(Exception):
    pass


@dataclass(slots=True)
class _Seen:
    """A Lease, and when this server saw it change last, seconds of its own clock."""

    version: str
    uid: str
    changed_at: float


class Membership:
    """Runs this in a thread. `me` is a valid name of a Lease that no other process has."""

    def __init__(
        self,
        api: ApiServer,
        *,
        namespace: str,
        group: str,
        me: str,
        tell: Callable[[MembersSeen], None],
        clock: Callable[[], float] = time.monotonic,
        renew: float = _RENEW,
        length: float = _LENGTH,
    ) -> None:
        self._api = api
        self._collection = collection_path("leases", group="coordination.k8s.io", namespace=namespace)
        self.metadata = {"name": me, "namespace": namespace, "labels": {LABEL: group}}
        self._group = group
        self.me = me
        self._tell = tell
        self._clock = clock
        self._renew, self._length = renew, length
        self._known: dict[str, _Seen] = {}
        self._told: MembersSeen | None = None
        self._succeeded_at = clock()
        self._trouble = ""
        self._thread = RepeatingThread(
            "waggle-claims-members", self._turn, pause=renew, last_turn=_TIMEOUT + 1, at_end=self._leave
        )
        self.start = self._thread.start

    @property
    def trouble(self) -> str:
        """Why the Leases cannot be read or written; "" if they can."""
        return self._trouble

    @property
    def members(self) -> tuple[str, ...]:
        """The servers that the engine knows."""
        return self._told.names if self._told is not None else ()

    def look(self) -> None:
        """Renew and list now, without waiting for the next interval."""
        self._thread.wake()

    def stop(self) -> None:
        """Stop, and delete this server's Lease: the others take over its share. Also works without a start."""
        self._thread.stop()

    def _turn(self) -> float:
        self._look()
        return self._renew * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, not a secret

    def _leave(self) -> None:
        try:
            self._call("DELETE", self._path(self.me))
        except ApiError as error:
            log.info("the Lease of this server could not be deleted and stays until it expires", error=str(error))

    def _look(self) -> None:
        """Renew and list once, and tell the engine."""
        try:
            self._write()
            self._take_in(self._list())
        except (ApiError, _FailedError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._failed(str(error))
        else:
            self._trouble = ""
            self._succeeded_at = self._clock()

    def _failed(self, why: str) -> None:
        if not self._trouble:
            log.warning(
                "the Leases of replicas cannot be read or written; claims continue with more conflicts", error=why
            )
        self._trouble = why
        if self._clock() - self._succeeded_at >= self._length:
            self._say(())

    def _take_in(self, leases: list[_Lease]) -> None:
        now = self._clock()
        found: dict[str, _Seen] = {}
        for lease in leases[:_MOST]:
            meta = lease.metadata
            before = self._known.get(meta.name)
            is_same = before is not None and before.version == meta.resource_version
            found[meta.name] = before if before is not None and is_same else _Seen(meta.resource_version, meta.uid, now)
        self._known = found
        living = [name for name, seen in found.items() if now - seen.changed_at < self._length]
        self._say(tuple(sorted({*living, self.me})))
        for name, seen in found.items():
            if now - seen.changed_at >= _FORGOTTEN:
                self._call("DELETE", self._path(name), {"preconditions": {"uid": seen.uid}})

    def _say(self, names: tuple[str, ...]) -> None:
        seen = MembersSeen(names, self.me)
        if seen != self._told:
            self._told = seen
            log.info("replicas that serve claims", names=list(names), me=self.me)
            self._tell(seen)

    # -- the Leases -----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Renew this server's Lease; create it if it does not exist."""
        patch = {"metadata": {"labels": {LABEL: self._group}}, "spec": self._spec()}
        response = self._call("PATCH", self._path(self.me), patch)
        if response.status == 404:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self.metadata}
            response = self._call("POST", self._collection, {**body, "spec": self._spec()})
        if not response.ok:
            raise _FailedError(f"writing the Lease {self.me}: {response.status} {response.message}")

    def _spec(self) -> dict[str, object]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"holderIdentity": self.me, "leaseDurationSeconds": round(self._length), "renewTime": now}

    def _list(self) -> list[_Lease]:
        query = {"labelSelector": f"{LABEL}={self._group}", "limit": str(_MOST)}
        response = self._api.request("GET", self._collection, query=query, timeout=_TIMEOUT, most=bounds.OBJECT)
        if not response.ok:
            raise _FailedError(f"listing Leases: {response.status} {response.message}")
        return msgspec.json.decode(response.body, type=_Leases).items or []

    def _path(self, name: str) -> str:
        return object_path(self._collection, name)

    def _call(self, method: str, path: str, body: object = None) -> Response:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = msgspec.json.encode(body) if body is not None else None
        return self._api.request(
            method, path, body=data, content_type=content, timeout=_TIMEOUT, most=bounds.SMALL_OBJECT
        )
