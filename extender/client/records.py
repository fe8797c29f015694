"""The server's answers as records. Unknown fields, which newer servers may add, are ignored."""

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
    """The server's answer about a claim. `state`: waiting, claiming, claimed, ending, released or failed."""

    id: str
    namespace: str
    pool: str = ""
    tenant: str = ""
    state: str
    code: str = ""
    pods: tuple[Pod, ...] = ()
    #: When the lease ends, by the server's clock; None: it has not begun.
    expires: datetime | None = None
    #: While it waits: its position in the queue, 1 is next, and estimated seconds until it is served; None: unknown.
    position: int | None = None
    estimate_seconds: float | None = None
    detail: str = ""


class TenantStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant of a pool: its waiting requests, seconds that the oldest has waited, its pods."""

    tenant: str
    waiting: int = 0
    oldest_seconds: float = 0.0
    pods: int = 0


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pool at one moment. The numbers up to `unmet` are pods, those from `pending` to `refused` are requests."""

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
    #: Pods that the waiting requests lack, beyond idle and unready ones.
    unmet: int = 0
    pending: int = 0
    accepted: int = 0
    succeeded: int = 0
    failed: dict[str, int] = {}
    refused: dict[str, int] = {}
    #: Pods that became idle per second, over the last five minutes.
    idle_rate: float = 0.0
    #: Why the oldest request in the queue waits; "" if none waits.
    first_waits: str = ""
    tenants: tuple[TenantStatus, ...] = ()


class PoolList(msgspec.Struct, frozen=True):
    items: tuple[PoolStatus, ...]


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to one object. `sign`: + runs, ~ moves, - is evicted, ? waits, = stays. `node`: where it would
    be, `before`: where it is. `code` and `text`: the one reason for which it waits or is evicted. `fix`: the smallest
    change that would help, as a sentence."""

    sign: str
    kind: str
    namespace: str
    name: str
    node: str = ""
    before: str = ""
    workload: str = ""
    group: str = ""
    tenant: str = ""
    code: str = ""
    text: str = ""
    fix: str = ""
    wave: int = 0


class PlanTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of rows by sign, of all of them, or of one group or tenant."""

    name: str = ""
    runs: int = 0
    moves: int = 0
    evicted: int = 0
    waits: int = 0
    stays: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen. `stopped`: the bound that ended it early, "" if it is complete. `warnings`: what it does not
    consider."""

    rows: tuple[PlanRow, ...] = ()
    total: PlanTotal = PlanTotal()
    groups: tuple[PlanTotal, ...] = ()
    tenants: tuple[PlanTotal, ...] = ()
    algorithm: str = ""
    fingerprint: str = ""
    waves: int = 0
    critical_path: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stopped: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing waits and nothing is evicted."""
        return not (self.total.waits or self.total.evicted or self.stopped)


class PlanAnswer(msgspec.Struct, frozen=True):
    """The body of a plan."""

    plan: Plan


class ErrorRecord(msgspec.Struct, frozen=True):
    """The body of every error."""

    error: str
    field: str | None = None
    code: str = ""
    retry_after: float | None = None
