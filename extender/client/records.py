"""What the server answers, as records. Fields that a newer server adds are ignored."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Pod(msgspec.Struct, frozen=True):
    """A claimed pod."""

    name: str
    uid: str
    node: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Its first IP address; "" if it has none."""
        return self.addresses[0] if self.addresses else ""


class ClaimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as the server shows it. `state`: waiting, claiming, claimed, ending, released or failed."""

    id: str
    namespace: str
    pool: str = ""
    tenant: str = ""
    state: str
    code: str = ""
    pods: tuple[Pod, ...] = ()
    #: When the lease ends, by the server's clock; None: it has not begun.
    expires: datetime | None = None
    #: While it waits: its place in the line, and the seconds until it may be served, if that can be told.
    position: int | None = None
    estimate_seconds: float | None = None
    detail: str = ""


class TenantStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant of a pool: its requests in line, seconds that the first has waited, its pods."""

    tenant: str
    waiting: int = 0
    oldest_seconds: float = 0.0
    pods: int = 0


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pool at one moment. The numbers are pods, except `pending` and those below it, which are requests."""

    namespace: str
    name: str
    mode: str = ""
    #: False: its pods are not known yet.
    served: bool = True
    idle: int = 0
    in_flight: int = 0
    claimed: int = 0
    starting: int = 0
    stopping: int = 0
    unready: int = 0
    surplus: int = 0
    terminating: int = 0
    #: Pods that the requests in line lack, beyond those that are coming.
    unmet: int = 0
    pending: int = 0
    accepted: int = 0
    succeeded: int = 0
    failed: dict[str, int] = {}
    refused: dict[str, int] = {}
    #: Pods that became idle lately, each second.
    idle_rate: float = 0.0
    #: Why the first in line waits; "" if nobody does.
    first_waits: str = ""
    tenants: tuple[TenantStatus, ...] = ()


class PoolList(msgspec.Struct, frozen=True):
    items: tuple[PoolStatus, ...]


class ErrorRecord(msgspec.Struct, frozen=True):
    """The server's one error shape."""

    error: str
    field: str | None = None
    code: str = ""
    retry_after: float | None = None
