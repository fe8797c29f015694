"""The events and instructions of the engine of claims. Plain data, so that a run can be recorded and replayed."""

from __future__ import annotations

import msgspec

from extender.claims.codes import ClaimCode
from extender.claims.records import Demand, OnEmpty, Pairs, Pool, PoolKey, WarmPod
from extender.claims.writes.advance import AdvancePod, PodAdvanced
from extender.claims.writes.create import CreatePod, PodCreated
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.renew import PodRenewed, RenewPod
from extender.claims.writes.take import PodTaken, TakePod

# -- events from the cluster ----------------------------------------------------------------------------------------


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """The API server showed this version of a pod. Versions older than the newest known one are ignored.

    `is_listed`: it is from a list. The pods of a watch come in the order in which they were written, those of a list do
    not; PodsListed follows the last of them.
    """

    pod: WarmPod
    is_listed: bool = False


class PodsListed(msgspec.Struct, frozen=True, gc=False):
    """The pods of a namespace were listed, and all that the list has changed was told."""

    namespace: str


class PodGone(msgspec.Struct, frozen=True, gc=False):
    uid: str


class NodeSeen(msgspec.Struct, frozen=True, gc=False):
    """`serves`: the node is ready and not cordoned."""

    name: str
    serves: bool


class NodeGone(msgspec.Struct, frozen=True, gc=False):
    name: str


class PoolsConfigured(msgspec.Struct, frozen=True, gc=False):
    """All pools. A claim of a pool that was removed lasts until it is released or its lease expires."""

    pools: tuple[Pool, ...]


class MembersSeen(msgspec.Struct, frozen=True, gc=False):
    """The names of the servers that serve claims side by side, and the name of this one. Each server prefers its own
    share of the idle pods. Servers that see different members are still correct; they only conflict more often."""

    names: tuple[str, ...]
    me: str


class Synced(msgspec.Struct, frozen=True, gc=False):
    """The pods and nodes of the cluster are known: claims can be served."""


# -- events from callers --------------------------------------------------------------------------------------------


class ClaimAsked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A caller asks for `count` pods of a pool, all or none. `request` identifies this call in its answer."""

    request: str
    #: The name that the claim will have.
    claim: str
    pool: PoolKey
    tenant: str = ""
    count: int = 1
    demand: Demand = Demand()
    #: Higher is served first.
    priority: int = 0
    #: How long to wait for a pod, seconds; 0: do not wait.
    wait_seconds: float = 0.0
    #: Seconds; 0: the pool's `lease_seconds`.
    lease_seconds: float = 0.0
    #: The caller's idempotency key, and a digest of the request that it belongs to; "" for none.
    key: str = ""
    digest: str = ""
    #: Set on the claimed pods, and removed when they return to their pool.
    labels: Pairs = ()
    annotations: Pairs = ()
    #: The image that each of these containers is to run; only in pools in mode `recycle`.
    images: Pairs = ()
    on_empty: OnEmpty = OnEmpty.WAIT


class CallerGone(msgspec.Struct, frozen=True, gc=False):
    """The caller of this request has disconnected."""

    request: str


class ReleaseAsked(msgspec.Struct, frozen=True, gc=False):
    """End a claim. A request that has no answer yet is answered CANCELLED. `tenant` None: the caller may act for
    every tenant."""

    request: str
    claim: str
    tenant: str | None = None


class RenewAsked(msgspec.Struct, frozen=True, gc=False):
    """Let the claim's lease end `lease_seconds` from now; 0: the pool's `lease_seconds`. Only with `shorten` may it end
    earlier than before.

    Answered RENEWED with `expires`, UNKNOWN_CLAIM, NOT_YOURS, CLAIM_ENDED, WRITE_REFUSED, or WRITE_UNKNOWN. `tenant`
    None: the caller may act for every tenant.
    """

    request: str
    claim: str
    tenant: str | None = None
    lease_seconds: float = 0.0
    shorten: bool = False


class ShutdownAsked(msgspec.Struct, frozen=True, gc=False):
    """Answer every waiting request SHUTTING_DOWN, and refuse new ones. Writes that were sent are followed to their
    end."""


# -- events from the server -----------------------------------------------------------------------------------------


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """A timer is due: see `ClaimEngine.next_due`."""


ClaimEvent = (
    PodSeen
    | PodGone
    | PodsListed
    | NodeSeen
    | NodeGone
    | PoolsConfigured
    | MembersSeen
    | Synced
    | ClaimAsked
    | CallerGone
    | ReleaseAsked
    | RenewAsked
    | ShutdownAsked
    | PodTaken
    | PodLooked
    | PodGivenBack
    | PodRenewed
    | PodAdvanced
    | PodCreated
    | Ticked
)


# -- instructions ---------------------------------------------------------------------------------------------------


class Answered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The one answer to a request."""

    request: str
    code: ClaimCode
    claim: str = ""
    #: The claimed pods, in the order in which they were chosen.
    pods: tuple[WarmPod, ...] = ()
    #: When the lease ends, seconds since 1970.
    expires: float = 0.0
    #: Seconds after which a retry can succeed; 0: unknown.
    retry_after: float = 0.0
    detail: str = ""


ClaimInstruction = Answered | TakePod | LookAtPod | GivePodBack | RenewPod | AdvancePod | CreatePod
