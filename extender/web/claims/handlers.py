"""The handlers of the HTTP API of claims. docs/claims.md explains it; /openapi.json has every field.

POST   /v1/pools/NAMESPACE/POOL/claims      201 claimed, 202 queued (Prefer: respond-async), 4xx and 5xx with a code
GET    /v1/claims/ID                        the claim, or how its request ended
POST   /v1/claims/ID/renew                  renews the lease
POST   /v1/claims/ID/release, DELETE        releases the claim, or cancels its request
DELETE /v1/pools/NAMESPACE/POOL/claims?key= the same, for a caller that has no answer and therefore no id
GET    /v1/pools, /v1/pools/NAMESPACE/POOL  idle and claimed pods, and waiting requests
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Any, TypeVar

import msgspec
import structlog
from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from extender.claims.codes import ClaimCode
from extender.claims.events import Answered, ClaimAsked, ReleaseAsked, RenewAsked
from extender.claims.records import Demand, PoolKey
from extender.claims.views import ClaimView
from extender.server.claims.service import ClaimService
from extender.server.similar import did_you_mean, similar
from extender.web.claims.bodies import (
    ClaimBody,
    ClaimListBody,
    ClaimRequest,
    PoolBody,
    PoolListBody,
    RenewRequest,
    claim_body,
    error_of,
    moment,
    pod_bodies,
    pool_body,
)
from extender.web.claims.callers import Callers
from extender.web.claims.calls import CallerDisconnected, Calls, Queued, has_disconnected
from extender.web.claims.reading import read_model
from extender.web.error_answers import error_response
from extender.web.errors import JSON, BadRequest
from extender.web.limits.budget import Budget
from extender.web.verbs.body import read_body

_log = structlog.get_logger(__name__)

#: Bytes of a body.
_LARGEST_BODY = 512 * 1024
#: nginx's status for a caller that has disconnected. It reads the answer if it has only stopped sending.
_GONE = Answered(request="", code=ClaimCode.CANCELLED, detail="the caller disconnected before its answer was sent")
#: The largest `Retry-After`, seconds.
_LATEST_RETRY = 30.0
#: How many pools an answer names at most.
_NAMED = 20
_PREFER = re.compile(r"respond-async", re.IGNORECASE)
_PREFER_WAIT = re.compile(r"\bwait\s*=\s*(\d{1,5})", re.IGNORECASE)
_BodyT = TypeVar("_BodyT", bound=BaseModel)


class Which(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespace: str = Field("", max_length=253, description="Only pools of this one")


class Page(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: str = Field("", max_length=253, description="Return claims after the one with this id")
    limit: int = Field(100, ge=1, le=1000)


class Wait(BaseModel):
    model_config = ConfigDict(extra="forbid")

    wait: float = Field(0, ge=0, le=60, description="Seconds to wait for the end of the request before the answer")


class Keyed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, max_length=253, description="The key of the request")
    tenant: str | None = Field(None, max_length=253, description="The tenant of the request, if it named one")


class ClaimHandlers:
    """The handlers of one app, in its event loop."""

    def __init__(self, service: ClaimService, callers: Callers, bodies: Budget) -> None:
        self._service = service
        self._runtime = service.runtime
        self._callers = callers
        self._bodies = bodies
        self._calls = Calls(service.runtime)

    # -- claiming -------------------------------------------------------------------------------------------------

    async def claim(self, request: Request, namespace: str, pool: str) -> Response:
        try:
            wanted = await self._read(request, ClaimRequest)
            caller = await self._callers.claimant(request, namespace, wanted.tenant)
            key = PoolKey(namespace, pool)
            asked = self._asked(key, wanted, caller.tenant or "")
            if self._service.is_coming(key):
                answer = Answered(request=asked.request, code=ClaimCode.NOT_READY, retry_after=1.0)
                return _refusal(answer)
            prefer = ",".join(request.headers.getlist("prefer"))
            if _PREFER.search(prefer):
                response = await self._claim_later(asked, prefer)
                if asked.key or not has_disconnected(request):
                    return response
                self._calls.cancel(asked)  # nobody else knows its id
                return _refusal(_GONE)
            answer = await self._calls.answered(asked, request.receive)
        except (CallerDisconnected, ClientDisconnect):
            return _refusal(_GONE)
        if self._calls.is_lost(asked, answer, request):
            return _refusal(_GONE)
        return self._answer(asked, answer)

    def _asked(self, pool: PoolKey, wanted: ClaimRequest, tenant: str) -> ClaimAsked:
        limits = self._service.settings
        wait = wanted.wait_seconds
        if wait is None:
            found = self._service.find(pool)
            wait = min(found.wait_seconds, limits.max_wait_seconds) if found is not None else 0.0
        for field, value, most in (
            ("wait_seconds", wait, limits.max_wait_seconds),
            ("lease_seconds", wanted.lease_seconds, limits.max_lease_seconds),
        ):
            if value > most:
                raise BadRequest(f"{field}: expected at most {most:g}, got {value:g}", field)
        return ClaimAsked(
            request=self._runtime.new_request(),
            claim=new_claim(),
            pool=pool,
            tenant=tenant,
            count=wanted.count,
            demand=Demand(_pairs(wanted.requires), tuple(sorted(wanted.images))),
            priority=wanted.priority,
            wait_seconds=wait,
            lease_seconds=wanted.lease_seconds,
            key=wanted.key,
            digest=wanted.digest() if wanted.key else "",
            labels=_pairs(wanted.labels),
            annotations=_pairs(wanted.annotations),
            images=_pairs(wanted.images),
            on_empty=wanted.on_empty,
        )

    async def _claim_later(self, asked: ClaimAsked, prefer: str) -> Response:
        """Answer 202 unless the request ends within the `wait` of the Prefer header (RFC 7240)."""
        known = self._calls.queued(asked)
        if known is None:
            detail = "too many requests without a connection are remembered"
            return _refusal(Answered(request="", code=ClaimCode.QUEUE_FULL, retry_after=1.0, detail=detail))
        patience = _PREFER_WAIT.search(prefer)
        answer = await known.wait(float(patience[1]) if patience else 0.0)
        if answer is not None:
            return self._answer(asked, answer)
        body = self._view(known.claim, known)
        headers = {"Location": f"/v1/claims/{known.claim}", "Preference-Applied": "respond-async"}
        return _json(202, body, headers)

    def _answer(self, asked: ClaimAsked, answer: Answered) -> Response:
        if answer.code is not ClaimCode.CLAIMED:
            return _refusal(self._with_advice(asked.pool, self._with_pools(asked.pool, answer)))
        body = ClaimBody(
            id=answer.claim,
            namespace=asked.pool.namespace,
            pool=asked.pool.name,
            tenant=asked.tenant,
            state="claimed",
            code=answer.code.value,
            pods=pod_bodies(answer.pods),
            expires=moment(answer.expires),
        )
        return _json(201, body, {"Location": f"/v1/claims/{answer.claim}"})

    def _with_advice(self, pool: PoolKey, answer: Answered) -> Answered:
        """Add `retry_after` if the engine has not set it: the time until a pod becomes idle at the present rate."""
        if answer.retry_after or answer.code.status not in (429, 503):
            return answer
        rate = self._runtime.look(lambda engine, now: engine.idle_rate(pool, now))
        seconds = min(_LATEST_RETRY, max(1.0, 1.0 / rate)) if rate else 1.0
        return msgspec.structs.replace(answer, retry_after=seconds)

    def _with_pools(self, pool: PoolKey, answer: Answered) -> Answered:
        """Name the namespace's pools in the answer UNKNOWN_POOL."""
        if answer.code is not ClaimCode.UNKNOWN_POOL:
            return answer
        names = sorted(each.key.name for each in self._service.pools() if each.key.namespace == pool.namespace)
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        there = f"the namespace {pool.namespace} has: {shown}" if names else f"{pool.namespace} has no pools"
        meant = did_you_mean(similar(pool.name, names))
        text = f"there is no pool {pool}; {there}. {meant}".rstrip()
        return Answered(request=answer.request, code=answer.code, detail=text)

    # -- claims that exist ----------------------------------------------------------------------------------------

    async def get(self, request: Request, claim: str, wait: float) -> Response:
        known = self._calls.find(claim)
        pool, tenant = self._owner(claim, known)
        caller = await self._callers.holder(request, pool.namespace, "get")
        if caller.tenant is not None and caller.tenant != tenant:
            raise self._unknown(claim)
        if known is not None and known.answer is None and wait:
            await known.wait(wait)
        body = self._view(_name(claim, known), known)
        if body is None:
            raise self._unknown(claim)
        return _json(200, body)

    async def renew(self, request: Request, claim: str) -> Response:
        wanted = await self._read(request, RenewRequest)
        most = self._service.settings.max_lease_seconds
        if wanted.lease_seconds > most:
            raise BadRequest(f"lease_seconds: expected at most {most:g}, got {wanted.lease_seconds:g}", "lease_seconds")
        known = self._calls.find(claim)
        claim = _name(claim, known)
        if self._find(claim) is None and self._runtime.look(lambda engine, _: claim in engine.state.ended):
            return _refusal(Answered(request="", code=ClaimCode.CLAIM_ENDED, claim=claim))
        pool, _ = self._owner(claim, known)
        caller = await self._callers.holder(request, pool.namespace, "update")
        event = RenewAsked(self._runtime.new_request(), claim, caller.tenant, wanted.lease_seconds)
        answer = await self._calls.finished(event)
        if answer.code is not ClaimCode.RENEWED:
            return _refusal(answer)
        view = self._view(claim, None)
        if view is None:
            return _refusal(Answered(request="", code=ClaimCode.CLAIM_ENDED, claim=claim))
        return _json(200, view.model_copy(update={"expires": moment(answer.expires)}))

    async def release(self, request: Request, claim: str) -> Response:
        known = self._calls.find(claim)
        pool, tenant = self._owner(claim, known)
        caller = await self._callers.holder(request, pool.namespace, "delete")
        if caller.tenant is not None and caller.tenant != tenant:
            return _refusal(Answered(request="", code=ClaimCode.NOT_YOURS, claim=claim))
        has_waited = known is not None and known.answer is None
        claim = _name(claim, known)
        answer = await self._calls.finished(ReleaseAsked(self._runtime.new_request(), claim, caller.tenant))
        if answer.code is not ClaimCode.RELEASED:
            return _refusal(answer)
        if known is not None and has_waited:
            return _json(200, _ended(claim, pool, tenant, "failed", ClaimCode.CANCELLED))
        return _json(200, _ended(claim, pool, tenant, "released", answer.code))

    async def release_by_key(self, request: Request, pool: PoolKey, wanted: Keyed) -> Response:
        caller = await self._callers.claimant(request, pool.namespace, wanted.tenant, verb="delete")
        tenant = caller.tenant or ""
        claims = self._runtime.look(lambda engine, _: engine.claims_with_key(pool, tenant, wanted.key))
        if not claims:
            raise self._unknown(f"with the key {wanted.key}")
        # The request that waits first: it would take pods again once the claim that it waits for has ended.
        calls = [ReleaseAsked(self._runtime.new_request(), claim, tenant) for claim in claims]
        answers = [await self._calls.finished(each) for each in calls]
        for answer in answers:
            if answer.code is ClaimCode.RELEASED:
                return _json(200, _ended(answer.claim, pool, tenant, "released", answer.code))
        return _refusal(answers[0])

    def _owner(self, claim: str, known: Queued | None) -> tuple[PoolKey, str]:
        """Return the pool and the tenant of a claim. Raises BadRequest: 404 if it is unknown, 503 if not ready."""
        if known is not None:
            return known.pool, known.tenant
        view = self._find(claim)
        if view is None:
            raise self._unknown(claim)
        return view.pool, view.tenant

    def _unknown(self, claim: str) -> BadRequest:
        """Return 404 for an unknown claim; 503 if this server has not listed all pods and may not know it yet."""
        state = self._service.readiness()
        if not state.ready:
            code = ClaimCode.NOT_READY
            return BadRequest(f"not ready: {state.detail}", status=code.status, code=code.value, retry_after=1.0)
        code = ClaimCode.UNKNOWN_CLAIM
        return BadRequest(f"there is no claim {claim}, or it is over", status=code.status, code=code.value)

    def _find(self, claim: str) -> ClaimView | None:
        return self._runtime.look(lambda engine, now: engine.claim(claim, now))

    def _view(self, claim: str, known: Queued | None) -> ClaimBody | None:
        view = self._find(claim)
        if view is not None:
            return claim_body(view)
        if known is None:
            return None
        pool, tenant, answer = known.pool, known.tenant, known.answer
        if answer is None:
            return _ended(claim, pool, tenant, "waiting", None)
        if answer.code is ClaimCode.CLAIMED:
            return _ended(claim, pool, tenant, "released", ClaimCode.CLAIM_ENDED)
        body = _ended(claim, pool, tenant, "failed", answer.code)
        return body.model_copy(update={"detail": error_of(self._with_pools(pool, answer)).error})

    # -- pools ----------------------------------------------------------------------------------------------------

    async def pools(self, request: Request, namespace: str) -> Response:
        await self._callers.reader(request, namespace)
        keys = [each.key for each in self._service.pools() if not namespace or each.key.namespace == namespace]
        return _json(200, PoolListBody(items=[self._pool(key) for key in sorted(keys)]))

    async def pool(self, request: Request, namespace: str, pool: str) -> Response:
        await self._callers.reader(request, namespace)
        key = PoolKey(namespace, pool)
        if self._service.find(key) is None:
            return _refusal(self._with_pools(key, Answered(request="", code=ClaimCode.UNKNOWN_POOL)))
        return _json(200, self._pool(key))

    async def claims(self, request: Request, namespace: str, pool: str, page: Page) -> Response:
        caller = await self._callers.holder(request, namespace, "list")
        key = PoolKey(namespace, pool)
        names = self._runtime.look(lambda engine, _: engine.claims(key, page.after, page.limit))
        views = [view for view in map(self._find, names) if view is not None]
        items = [claim_body(view) for view in views if caller.tenant is None or caller.tenant == view.tenant]
        return _json(200, ClaimListBody(items=items, next=names[-1] if len(names) == page.limit else ""))

    def _pool(self, key: PoolKey) -> PoolBody:
        found = self._runtime.look(lambda engine, now: engine.snapshot(key, now))
        if found is not None:
            return pool_body(found)
        pool = self._service.find(key)
        mode = pool.mode.value if pool is not None else ""
        return PoolBody(namespace=key.namespace, name=key.name, mode=mode, served=False)

    # -- bodies ---------------------------------------------------------------------------------------------------

    async def _read(self, request: Request, model: type[_BodyT]) -> _BodyT:
        body = await read_body(request, _LARGEST_BODY, self._bodies, advice="")
        try:
            return read_model(body, model)
        except ValidationError as error:
            raise _bad_body(error, model) from error


def _bad_body(error: ValidationError, model: type[BaseModel]) -> BadRequest:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    text = first["msg"]
    if first["type"] == "extra_forbidden":
        known, meant = ", ".join(model.model_fields), did_you_mean(similar(field, model.model_fields))
        text = f"there is no such field; there are: {known}. {meant}".rstrip()
    return BadRequest(f"{field}: {text}" if field else f"body: {text}", field or "body")


def _name(claim: str, known: Queued | None) -> str:
    """The claim that a request without a connection got: with a key, it can be another than the one it was told of."""
    answer = known.answer if known is not None else None
    return answer.claim if answer is not None and answer.code is ClaimCode.CLAIMED else claim


def _ended(claim: str, pool: PoolKey, tenant: str, state: Any, code: ClaimCode | None) -> ClaimBody:
    shown = code.value if code is not None else ""
    return ClaimBody(id=claim, namespace=pool.namespace, pool=pool.name, tenant=tenant, state=state, code=shown)


def _pairs(texts: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(texts.items()))


def new_claim() -> str:
    """Return a new name for a claim, which is a valid label value. Names sort by time."""
    return f"c-{time.time_ns() // 1_000_000:011x}-{secrets.token_hex(8)}"


def _json(status: int, body: BaseModel | None, headers: dict[str, str] | None = None) -> Response:
    text = body.model_dump_json() if body is not None else "{}"
    return Response(text, status, headers, media_type=JSON)


def _refusal(answer: Answered) -> Response:
    body = error_of(answer)
    return error_response(answer.code.status, body.error, body.field, code=body.code, retry_after=body.retry_after)
