"""Authenticates and authorizes callers, and determines their tenant: by mutual TLS or a bearer token.

    authorization: none          the tenant is that of the request, else the first name in the client's certificate
    authorization: kubernetes    the token's user must have the verb on claims.waggle.dev in the pool's namespace;
                                 the tenant is that user, or any other if the user may `impersonate` claims there

Answers of the API server are cached for some seconds (`extender.kube.client.access_review`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from starlette.requests import Request

from extender.claim_settings import ClaimSettings
from extender.kube.client.access_review import MOST_AT_ONCE, Access, Reviewer, Verdict
from extender.web.errors import BadRequest
from extender.web.limits.pool import Pool
from extender.web.rights import STATUS, bearer_token

_GROUP, _RESOURCE = "waggle.dev", "claims"


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """An authorized caller. `tenant`: the tenant that it acts for; None: every tenant."""

    name: str
    tenant: str | None


class Callers:
    """Authorizes every call. Without a `reviewer`, authorization `kubernetes` refuses all calls."""

    def __init__(self, settings: ClaimSettings, reviewer: Reviewer | None) -> None:
        self._reviews = settings.authorization == "kubernetes"
        self._reviewer = reviewer
        self._pool = Pool("claim-rights", MOST_AT_ONCE)

    async def claimant(
        self, request: Request, namespace: str, tenant: str | None, verb: str = "create"
    ) -> CallerIdentity:
        """Return the caller of a new claim, or of a request about a claim by its key. Its `tenant` is never None.
        Raises BadRequest: 401, 403 or 503."""
        if not self._reviews:
            name = _certified(request)
            return CallerIdentity(name, tenant if tenant is not None else name)
        user = await self._may(request, namespace, verb)
        if tenant is None or tenant == user:
            return CallerIdentity(user, user)
        if not await self._can(request, namespace, "impersonate"):
            raise BadRequest(
                f"tenant: {user} may not act for another tenant: that needs the right to impersonate "
                f"{_RESOURCE}.{_GROUP} in {namespace}",
                "tenant",
                status=403,
            )
        return CallerIdentity(user, tenant)

    async def holder(self, request: Request, namespace: str, verb: str) -> CallerIdentity:
        """Return the caller of a request about an existing claim. Raises BadRequest: 401, 403 or 503."""
        if not self._reviews:
            name = _certified(request)
            return CallerIdentity(name, None)
        user = await self._may(request, namespace, verb)
        speaks_for_all = await self._can(request, namespace, "impersonate")
        return CallerIdentity(user, None if speaks_for_all else user)

    async def reader(self, request: Request, namespace: str) -> None:
        """Raise BadRequest with status 401, 403 or 503 unless the caller may see the pools of a namespace."""
        if self._reviews:
            await self._may(request, namespace, "list")

    async def _may(self, request: Request, namespace: str, verb: str) -> str:
        access = await self._review(request, namespace, verb)
        if access.verdict is Verdict.ALLOWED:
            return access.user
        raise BadRequest(access.text, status=STATUS[access.verdict])

    async def _can(self, request: Request, namespace: str, verb: str) -> bool:
        access = await self._review(request, namespace, verb)
        if access.verdict is Verdict.UNKNOWN:
            raise BadRequest(access.text, status=503)
        return access.verdict is Verdict.ALLOWED

    async def _review(self, request: Request, namespace: str, verb: str) -> Access:
        reviewer = self._reviewer
        if reviewer is None:
            return Access(Verdict.UNKNOWN, "claims.authorization: this server cannot ask the API server for reviews")
        token = bearer_token(request)
        if (known := reviewer.known(token, verb, _GROUP, _RESOURCE, namespace)) is not None:
            return known
        found: Access = await self._pool.run(
            (token, namespace, verb), partial(reviewer.may, token, verb, _GROUP, _RESOURCE, namespace)
        )
        return found


def _certified(request: Request) -> str:
    peer = request.scope.get("state", {}).get("peer")
    return peer.names[0] if peer is not None and peer.names else ""
