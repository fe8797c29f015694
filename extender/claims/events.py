"""The events and instructions of the engine of claims. Plain data, so that a run can be recorded and replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.claims.codes import ClaimCode
from extender.claims.records import Demand, Pool, PoolKey, WarmPod
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.take import PodTaken, TakePod

# -- events from the cluster ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod is as the API server said. Older versions than the newest one known are ignored."""

    pod: WarmPod


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: str


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """`serves`: the node is ready and not cordoned."""

    name: str
    serves: bool


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class PoolsConfigured:
    """All pools there are. A claim of a pool that is not there any more lasts until its end."""

    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Synced:
    """The pods and nodes of the cluster are known: claims can be served."""


# -- events from callers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAsked:
    """A caller asks for `count` pods of a pool, all or none. `request` names this call; its answer bears the name."""

    request: str
    #: The name of the claim, if there will be one.
    claim: str
    pool: PoolKey
    tenant: str = ""
    count: int = 1
    demand: Demand = field(default_factory=Demand)
    #: Higher is served first.
    priority: int = 0
    #: How long to wait for a pod, seconds; 0: not at all.
    wait_seconds: float = 0.0
    #: Seconds; 0: as the pool says.
    lease_seconds: float = 0.0
    key: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class CallerGone:
    """Nobody waits for the answer to this request any more."""

    request: str


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """`tenant` None: the caller may speak for every tenant."""

    request: str
    claim: str
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """Every request that waits is answered, and new ones are refused. Writes that are sent are seen to their end."""


# -- events from the server -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticked:
    """Something is due."""


ClaimEvent = (
    PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | PoolsConfigured
    | Synced
    | ClaimAsked
    | CallerGone
    | ReleaseAsked
    | ShutdownAsked
    | PodTaken
    | PodLooked
    | PodGivenBack
    | Ticked
)


# -- instructions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
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


ClaimInstruction = Answered | TakePod | LookAtPod | GivePodBack
