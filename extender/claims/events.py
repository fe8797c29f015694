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
    """A pod is as the API server said. Older versions than the newest one known are ignored."""

    pod: WarmPod


class PodGone(msgspec.Struct, frozen=True, gc=False):
    uid: str


class NodeSeen(msgspec.Struct, frozen=True, gc=False):
    """`serves`: the node is ready and not cordoned."""

    name: str
    serves: bool


class NodeGone(msgspec.Struct, frozen=True, gc=False):
    name: str


class PoolsConfigured(msgspec.Struct, frozen=True, gc=False):
    """All pools there are. A claim of a pool that is not there any more lasts until its end."""

    pools: tuple[Pool, ...]


class MembersSeen(msgspec.Struct, frozen=True, gc=False):
    """The servers that serve claims side by side, by their names, and the name of this one. Each prefers its own share
    of the idle pods. Nothing is wrong if the servers see different members, or none; they only conflict more often."""

    names: tuple[str, ...]
    me: str


class Synced(msgspec.Struct, frozen=True, gc=False):
    """The pods and nodes of the cluster are known: claims can be served."""


# -- events from callers --------------------------------------------------------------------------------------------


class ClaimAsked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A caller asks for `count` pods of a pool, all or none. `request` names this call; its answer bears the name."""

    request: str
    #: The name of the claim, if there will be one.
    claim: str
    pool: PoolKey
    tenant: str = ""
    count: int = 1
    demand: Demand = Demand()
    #: Higher is served first.
    priority: int = 0
    #: How long to wait for a pod, seconds; 0: not at all.
    wait_seconds: float = 0.0
    #: Seconds; 0: as the pool says.
    lease_seconds: float = 0.0
    key: str = ""
    digest: str = ""
    #: Put on the claimed pods, and removed when they return to their pool.
    labels: Pairs = ()
    annotations: Pairs = ()
    #: The image that each of these containers is to run; only in pools that recycle.
    images: Pairs = ()
    on_empty: OnEmpty = OnEmpty.WAIT


class CallerGone(msgspec.Struct, frozen=True, gc=False):
    """Nobody waits for the answer to this request any more."""

    request: str


class ReleaseAsked(msgspec.Struct, frozen=True, gc=False):
    """The claim ends. A request that has no answer yet is answered CANCELLED. `tenant` None: the caller may speak for
    every tenant."""

    request: str
    claim: str
    tenant: str | None = None


class RenewAsked(msgspec.Struct, frozen=True, gc=False):
    """The claim is to last for `lease_seconds` from now; 0: as the pool says. It never lasts shorter than before,
    unless `shorten`.

    Answered RENEWED with `expires`, UNKNOWN_CLAIM, NOT_YOURS, CLAIM_ENDED, or WRITE_REFUSED. `tenant` None: the caller
    may speak for every tenant.
    """

    request: str
    claim: str
    tenant: str | None = None
    lease_seconds: float = 0.0
    shorten: bool = False


class ShutdownAsked(msgspec.Struct, frozen=True, gc=False):
    """Every request that waits is answered, and new ones are refused. Writes that are sent are seen to their end."""


# -- events from the server -----------------------------------------------------------------------------------------


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """Something is due."""


ClaimEvent = (
    PodSeen
    | PodGone
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
    #: Seconds after which another try makes sense; 0: not said.
    retry_after: float = 0.0
    detail: str = ""


ClaimInstruction = Answered | TakePod | LookAtPod | GivePodBack | RenewPod | AdvancePod | CreatePod
