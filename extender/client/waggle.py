"""The client for asyncio: a server and its pools."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

from extender.client.errors import ClaimLostError
from extender.client.holding import OWN_KEY, Background, Claim
from extender.client.records import ClaimRecord, Plan, PlanAnswer, PoolList, PoolStatus
from extender.client.requesting import claim_path, claims_path, release
from extender.client.transport import Tls, Transport

#: The default lease, seconds. The client renews it; if the program dies, its pods stay claimed for at most this time.
LEASE = 120.0


class Waggle:
    """A server of claims, or several replicas behind one address. For one event loop at a time.

    `url`: http(s)://host:port. `token`: a bearer token, or a function that returns the current one. `tls`: a CA or a
    client certificate. `http`: a transport of httpx, instead of the network. Raises ValueError for an invalid URL, and
    OSError for certificates that cannot be read.

    As a context manager it keeps connections open, and waits for running releases when it ends. Otherwise connections
    are closed when they are not in use.
    """

    def __init__(
        self, url: str, *, token: str | Callable[[], str] = "", tls: Tls | None = None, http: Any = None
    ) -> None:
        self._transport = Transport(url, token, tls, http)
        self._background = Background()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.finish()
        finally:
            await self._transport.__aexit__(kind, error, trace)

    async def finish(self) -> None:
        """Wait for running withdrawals and releases."""
        await self._background.finish()

    def pool(self, namespace: str, name: str) -> Pool:
        """Return a pool. Nothing is sent: only the first request shows whether the pool exists."""
        return Pool(self._transport, self._background, namespace, name)

    async def pools(self, namespace: str = "") -> tuple[PoolStatus, ...]:
        """Return the status of all pools, or of those in a namespace. Raises WaggleError."""
        query = {"namespace": namespace} if namespace else {}
        async with self._transport:
            return (await self._transport.ask(PoolList, "GET", "/v1/pools", query=query)).items

    async def get(self, claim: str) -> ClaimRecord:
        """Return a claim by its id. Raises WaggleError: NotFoundError if there is none."""
        async with self._transport:
            return await self._transport.ask(ClaimRecord, "GET", claim_path(claim))

    async def renew(self, claim: str, lease: float = 0.0) -> ClaimRecord:
        """Renew a claim for `lease` seconds from now; 0: the pool's `lease_seconds`. Raises WaggleError."""
        async with self._transport:
            path = f"{claim_path(claim)}/renew"
            return await self._transport.ask(ClaimRecord, "POST", path, body={"lease_seconds": lease})

    async def release(self, claim: str) -> None:
        """Release a claim. It is no error if the claim has already ended. Raises WaggleError."""
        async with self._transport:
            problem = await release(self._transport, claim)
        if problem is not None:
            raise problem

    async def plan(
        self,
        manifests: str = "",
        *,
        objects: Sequence[Mapping[str, object]] = (),
        changes: Mapping[str, object] | None = None,
        timeout: float = 90.0,
    ) -> Plan:
        """Return what would happen if these objects were created. Nothing is changed.

        `manifests`: YAML or JSON, any number of documents. `objects`: the same as mappings. `changes`: further fields
        of the body of POST /v1/plan: `drain`, `cordon`, `delete`, `add_nodes`, `node_shape`, `priorities`, `settings`,
        `algorithm`, `namespace`, `seed`. `timeout`: seconds for the answer.

        Raises WaggleError: BadRequestError if something cannot be read or the plan is too large, DeniedError without
        the right to ask for plans, ServerUnavailableError if the server cannot make one now.
        """
        body = {"manifests": manifests, "objects": [dict(each) for each in objects], **(changes or {})}
        async with self._transport:
            return (await self._transport.ask(PlanAnswer, "POST", "/v1/plan", body=body, patience=timeout)).plan


class Pool:
    """A pool of warm pods."""

    def __init__(self, transport: Transport, background: Background, namespace: str, name: str) -> None:
        self._transport = transport
        self._background = background
        self.namespace = namespace
        self.name = name

    async def status(self) -> PoolStatus:
        """Return the pool's present status. Raises WaggleError: NotFoundError if there is no such pool."""
        path = f"/v1/pools/{quote(self.namespace, safe='')}/{quote(self.name, safe='')}"
        async with self._transport:
            return await self._transport.ask(PoolStatus, "GET", path)

    def claim(
        self,
        *,
        timeout: float = 30.0,
        count: int = 1,
        key: str = "",
        requires: Mapping[str, str] | None = None,
        images: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        tenant: str | None = None,
        priority: int = 0,
        lease: float = LEASE,
        on_empty: Literal["wait", "fail", "cold"] = "wait",
        on_lost: Callable[[ClaimLostError], object] | None = None,
    ) -> Claim:
        """Return a claim to use as `async with ... as pod`. Nothing is sent before that.

        `timeout`: seconds to wait for pods; 0: do not wait. `count`: the number of pods, all or none. `key`: an
        idempotency key: the same key gets the same claim, also in another run of the program. `requires`: labels that
        the pods must have. `images`: the image that each of these containers is to run. `labels`, `annotations`: set on
        the pods. `tenant`: the tenant to claim for. `priority`: higher numbers are served first. `lease`: seconds that
        the claim lasts after the last renewal. `on_empty`: what happens if too few pods are idle. `on_lost`: called in
        the event loop if the claim is lost.

        Raises ValueError for a negative `timeout`, or a `lease` that is not positive. Entering the block raises
        WaggleError: ClaimTimeoutError if no pod became idle in time, BadRequestError, NotFoundError, DeniedError, or
        ServerUnavailableError.
        """
        if not timeout >= 0 or not lease > 0:
            raise ValueError(f"expected timeout >= 0 and lease > 0 seconds, got {timeout} and {lease}")
        wanted: dict[str, object] = {
            "count": count,
            "key": key or f"{OWN_KEY}{secrets.token_hex(12)}",
            "requires": dict(requires or {}),
            "images": dict(images or {}),
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "tenant": tenant,
            "priority": priority,
            "lease_seconds": lease,
            "on_empty": on_empty,
        }
        body = {name: value for name, value in wanted.items() if value not in (None, {})}
        path = claims_path(self.namespace, self.name)
        return Claim(self._transport, self._background, path, body, timeout=timeout, lease=lease, on_lost=on_lost)
