"""The client library: claims of warm pods, and plans, from asyncio (`Waggle`) or from threads (`SyncWaggle`).

    async with Waggle("http://waggle:9096").pool("sandboxes", "python").claim(timeout=5) as pod:
        print(pod.name, pod.address)

    with SyncWaggle("http://waggle:9096").pool("sandboxes", "python").claim(timeout=5) as pod:
        ...

    print(SyncWaggle("http://waggle:9096").plan(open("job.yaml").read()).total)

A claim is renewed while the block runs and released when it ends, also by an exception. Promises:

* A request whose answer was lost is retried with the same key, so it never gets a second claim.
* A block that is cancelled, at any point, leaves nothing claimed.
* If the program dies, its pods stay claimed until their lease expires, after two minutes by default.
* Every error is a `WaggleError` with a `code`, the server's if there is one.

The package imports httpx and msgspec, and no part of the server.
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
from extender.client.records import ClaimRecord, Plan, PlanRow, PlanTotal, Pod, PoolStatus, TenantStatus
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
    "Plan",
    "PlanRow",
    "PlanTotal",
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
