"""For people's programs: claims of warm pods, from asyncio (`Waggle`) or from threads (`SyncWaggle`).

    async with Waggle("http://waggle:9096").pool("sandboxes", "python").claim(timeout=5) as pod:
        print(pod.name, pod.address)

    with SyncWaggle("http://waggle:9096").pool("sandboxes", "python").claim(timeout=5) as pod:
        ...

A claim is renewed while the block runs and released at its end, however it ends. Promises:

* A request that is repeated, because its answer was lost, is the same request: it never gets a second pod.
* A block that is cancelled, wherever that happens, leaves nothing claimed.
* A program that dies leaves its pods claimed for the rest of their lease, two minutes unless it says otherwise.
* Every error is a `WaggleError` with a `code`, the server's own where there is one.

The room imports httpx and msgspec, and nothing of the server.
"""

from extender.client.blocking import SyncClaim, SyncPool, SyncWaggle
from extender.client.errors import (
    BadRequestError,
    ClaimLostError,
    ClaimTimeoutError,
    DeniedError,
    NotFoundError,
    ServerUnavailableError,
    WaggleError,
)
from extender.client.holding import Claim
from extender.client.records import ClaimRecord, Pod, PoolStatus, TenantStatus
from extender.client.transport import Tls
from extender.client.waggle import Pool, Waggle

__all__ = [
    "BadRequestError",
    "Claim",
    "ClaimLostError",
    "ClaimRecord",
    "ClaimTimeoutError",
    "DeniedError",
    "NotFoundError",
    "Pod",
    "Pool",
    "PoolStatus",
    "ServerUnavailableError",
    "SyncClaim",
    "SyncPool",
    "SyncWaggle",
    "TenantStatus",
    "Tls",
    "Waggle",
    "WaggleError",
]
