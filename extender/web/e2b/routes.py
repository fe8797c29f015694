"""E2B's API under /e2b. docs/e2b.md says what is the same and what is not.

POST   /sandboxes, /v2/sandboxes                      claims one pod
GET    /sandboxes, /v2/sandboxes                      lists the caller's sandboxes, by page
GET    /sandboxes/ID
POST   /sandboxes/ID/timeout                          sets the end of the lease, earlier or later than before
POST   /sandboxes/ID/refreshes                        the same, but never earlier
POST   /sandboxes/ID/connect, /v2/sandboxes/ID/connect   the same, and returns the sandbox
DELETE /sandboxes/ID
all others                                            501, counted
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from extender.claims.codes import ClaimCode
from extender.claims.events import ClaimAsked, ReleaseAsked, RenewAsked
from extender.claims.records import PoolKey
from extender.claims.views import ClaimStage, ClaimView
from extender.claims.writes.names import SANDBOX_ANNOTATION
from extender.server.claims.service import ClaimService
from extender.server.similar import did_you_mean, similar
from extender.web.claims.bodies import ClaimRequest
from extender.web.claims.callers import Callers
from extender.web.claims.calls import CallerDisconnected, Calls
from extender.web.claims.handlers import new_claim
from extender.web.claims.reading import read_model
from extender.web.e2b.bodies import NewSandbox, Note, Refresh, Timeout, detail_body, note_of, sandbox_body
from extender.web.e2b.errors import bad_request, error, refusal
from extender.web.e2b.metrics import E2bMetrics
from extender.web.errors import JSON, BadRequest
from extender.web.limits.budget import Budget
from extender.web.pages.metrics import Metrics
from extender.web.verbs.body import read_body

PREFIX = "/e2b"
_LARGEST_BODY = 64 * 1024
_LARGEST_PAGE = 100
_GONE = 499
#: How many claims of a list are handled before the event loop runs other tasks: some 2 ms.
_IN_ONE_GO = 50
_BodyT = TypeVar("_BodyT", bound=BaseModel)
_Handler = Callable[..., Awaitable[Response]]


class E2bHandlers:
    """The handlers of one app, in its event loop. All may raise BadRequest."""

    def __init__(self, service: ClaimService, callers: Callers, bodies: Budget) -> None:
        self._service = service
        self._settings = service.settings.e2b
        self._runtime = service.runtime
        self._callers = callers
        self._bodies = bodies
        self._calls = Calls(service.runtime)

    async def create(self, request: Request) -> Response:
        wanted = await self._read(request, NewSandbox)
        pool = self._named(wanted.templateID)
        caller = await self._callers.claimant(request, pool.namespace, None)
        self._check_there(pool)
        if self._service.is_coming(pool):
            return error(503, "the pods of this pool are not known yet", 1.0)
        note = Note(wanted.templateID, round(time.time(), 3), wanted.metadata or {})
        key = request.headers.get("idempotency-key", "")[:253]
        lease = self._lease(wanted.timeout)
        asked = ClaimAsked(
            request=self._runtime.new_request(),
            claim=new_claim(),
            pool=pool,
            tenant=caller.tenant or "",
            wait_seconds=min(self._settings.wait_seconds, self._service.settings.max_wait_seconds),
            lease_seconds=lease,
            key=key,
            digest=_digest(note, lease) if key else "",
            annotations=((SANDBOX_ANNOTATION, note.text()),),
        )
        answer = await self._calls.answered(asked, request.receive)
        if self._calls.is_lost(asked, answer, request):
            raise CallerDisconnected
        if answer.code is not ClaimCode.CLAIMED:
            return refusal(answer)
        (pod,) = answer.pods
        return _json(201, sandbox_body(answer.claim, pod.name, wanted.templateID, self._settings.domain))

    async def get(self, request: Request, sandbox: str) -> Response:
        view, note, _ = await self._mine(request, sandbox, "get")
        return _json(200, detail_body(view, note, self._settings.domain))

    async def delete(self, request: Request, sandbox: str) -> Response:
        _, _, tenant = await self._mine(request, sandbox, "delete")
        call = ReleaseAsked(self._runtime.new_request(), sandbox, tenant)
        answer = await asyncio.shield(self._calls.ask(call))
        return Response(status_code=204) if answer.code is ClaimCode.RELEASED else refusal(answer)

    async def timeout(self, request: Request, sandbox: str) -> Response:
        wanted = await self._read(request, Timeout)
        if wanted.timeout is None:
            raise BadRequest("timeout: expected seconds", "timeout")
        return await self._renew(request, sandbox, wanted.timeout, shorten=True)

    async def refresh(self, request: Request, sandbox: str) -> Response:
        wanted = await self._read(request, Refresh)
        return await self._renew(request, sandbox, wanted.duration)

    async def connect(self, request: Request, sandbox: str) -> Response:
        wanted = await self._read(request, Timeout)
        view, note, _ = await self._mine(request, sandbox, "get")
        if wanted.timeout is not None:
            renewed = await self._renew(request, sandbox, wanted.timeout)
            if renewed.status_code != 204:
                return renewed
        return _json(200, sandbox_body(view.name, view.pods[0].name, note.template, self._settings.domain))

    async def page(self, request: Request) -> Response:
        query = request.query_params
        limit = _limit(query.get("limit"))
        names = await self._names(request)
        ascending = query.get("order") == "asc"
        names.sort(reverse=not ascending)
        if after := query.get("nextToken"):
            names = [name for name in names if (name > after if ascending else name < after)]
        if "running" not in query.get("state", "running").split(","):
            names = []
        wanted = _metadata(query.get("metadata", ""))
        template, since = query.get("template"), _moment(query.get("startedAfter"))
        found: list[dict[str, Any]] = []
        token = ""
        for index, name in enumerate(names):
            if index % _IN_ONE_GO == _IN_ONE_GO - 1:
                await asyncio.sleep(0)  # let other tasks run
            view = self._find(name)
            note = note_of(view) if view is not None else None
            if view is None or note is None or view.stage is not ClaimStage.CLAIMED:
                continue
            if (
                note.started < since
                or template not in (None, note.template)
                or not wanted.items() <= note.metadata.items()
            ):
                continue
            if len(found) == limit:
                token = found[-1]["sandboxID"]
                break
            found.append(detail_body(view, note, self._settings.domain))
        return _json(200, found, {"X-Next-Token": token} if token else None)

    # -- what they share ------------------------------------------------------------------------------------------

    async def _renew(self, request: Request, sandbox: str, seconds: int, *, shorten: bool = False) -> Response:
        _, _, tenant = await self._mine(request, sandbox, "update")
        lease = self._lease(seconds)
        call = RenewAsked(self._runtime.new_request(), sandbox, tenant, lease, shorten=shorten)
        answer = await asyncio.shield(self._calls.ask(call))
        return Response(status_code=204) if answer.code is ClaimCode.RENEWED else refusal(answer)

    def _lease(self, seconds: int) -> float:
        most = self._service.settings.max_lease_seconds
        if seconds > most:
            raise BadRequest(f"timeout: expected at most {most:g} seconds, got {seconds}", "timeout")
        return float(max(1, seconds))

    async def _mine(self, request: Request, sandbox: str, verb: str) -> tuple[ClaimView, Note, str | None]:
        """Return the sandbox, and the caller's tenant. Raises BadRequest: 404 unless it is the caller's sandbox."""
        view = self._find(sandbox)
        note = note_of(view) if view is not None else None
        if view is None or note is None or view.stage is ClaimStage.ENDING:
            state = self._service.readiness()
            if not state.ready:
                raise BadRequest(f"not ready: {state.detail}", status=503)
            raise BadRequest(f"there is no sandbox {sandbox}, or it is over", status=404)
        caller = await self._callers.holder(request, view.pool.namespace, verb)
        if caller.tenant is not None and caller.tenant != view.tenant:
            raise BadRequest(f"there is no sandbox {sandbox}, or it is over", status=404)
        return view, note, caller.tenant

    def _find(self, sandbox: str) -> ClaimView | None:
        return self._runtime.look(lambda engine, now: engine.claim(sandbox, now))

    async def _names(self, request: Request) -> list[str]:
        """Return the names of the claims that the caller may list, unsorted."""
        tenants: dict[str, str | None] = {}
        refused: BadRequest | None = None
        for namespace in sorted({pool.key.namespace for pool in self._service.pools()}):
            try:
                tenants[namespace] = (await self._callers.holder(request, namespace, "list")).tenant
            except BadRequest as problem:
                if problem.status != 403:
                    raise
                refused = problem
        if not tenants and refused is not None:
            raise refused
        return self._runtime.look(
            lambda engine, _: [
                name
                for name, claim in engine.state.claims.items()
                if claim.pool.namespace in tenants and tenants[claim.pool.namespace] in (None, claim.tenant)
            ]
        )

    def _named(self, template: str) -> PoolKey:
        namespace, slash, name = template.partition("/")
        return PoolKey(namespace, name) if slash else PoolKey(self._settings.namespace, template)

    def _check_there(self, wanted: PoolKey) -> None:
        """Raise BadRequest if there is no such pool. It names others of the namespace in which the caller may claim."""
        pools = [pool.key for pool in self._service.pools() if pool.key.namespace == wanted.namespace]
        if wanted not in pools:
            meant = did_you_mean(similar(str(wanted), [str(each) for each in pools]))
            raise BadRequest(f"templateID: there is no pool {wanted}. {meant}".rstrip(), "templateID")

    async def _read(self, request: Request, model: type[_BodyT]) -> _BodyT:
        body = await read_body(request, _LARGEST_BODY, self._bodies, advice="")
        try:
            return read_model(body, model)
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            text = first["msg"].removeprefix("Value error, ")
            raise BadRequest(f"{field}: {text}" if field else text, field or None) from problem


def _digest(note: Note, lease: float) -> str:
    same = msgspec.structs.replace(note, started=0.0)  # a repeated request has another time
    return ClaimRequest(lease_seconds=lease, annotations={"sandbox": same.text()}).digest()


def _limit(text: str | None) -> int:
    if text is None:
        return _LARGEST_PAGE
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _LARGEST_PAGE:
        raise BadRequest(f"limit: expected 1 to {_LARGEST_PAGE}, got {text}", "limit")
    return int(text)


def _moment(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        raise BadRequest(f"startedAfter: expected an RFC 3339 time, got {text}", "startedAfter") from None


def _metadata(query: str) -> dict[str, str]:
    """Return the filter by metadata, which E2B's package quotes twice."""
    return {unquote(name): unquote(value) for name, value in parse_qsl(query, keep_blank_values=True)}


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type=JSON)


def _with_token(request: Request) -> Request:
    """Use E2B's API key as the bearer token, unless the request has an Authorization header."""
    key = request.headers.get("x-api-key")
    if key and "authorization" not in request.headers:
        headers = [*request.scope["headers"], (b"authorization", b"Bearer " + key.encode("latin-1"))]
        return Request({**request.scope, "headers": headers}, request.receive)
    return request


def e2b_routes(service: ClaimService, callers: Callers, bodies: Budget, metrics: Metrics) -> APIRouter:
    """Return the routes. They are not in /openapi.json, because E2B documents its API."""
    handlers = E2bHandlers(service, callers, bodies)
    counted = E2bMetrics()
    metrics.sources.append(counted.metrics)
    router = APIRouter(prefix=PREFIX, include_in_schema=False)

    async def answer(call: str, handler: _Handler, request: Request, *arguments: str) -> Response:
        try:
            found = await handler(_with_token(request), *arguments)
        except BadRequest as problem:
            found = bad_request(problem)
        except (CallerDisconnected, ClientDisconnect):
            found = error(_GONE, "the caller disconnected before its answer was sent")
        counted.count(call, found.status_code)
        return found

    def of_all(call: str, handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return await answer(call, handler, request)

        return serve

    def of_one(call: str, handler: _Handler) -> Callable[[Request, str], Awaitable[Response]]:
        async def serve(request: Request, sandbox: str) -> Response:
            return await answer(call, handler, request, sandbox)

        return serve

    async def rest(request: Request) -> Response:
        path = request.url.path.removeprefix(f"{PREFIX}/")
        counted.count_unserved(path)
        return error(501, f"{request.method} /{path} is not served: docs/e2b.md lists the calls that are")

    router.add_api_route("/sandboxes/metrics", rest, methods=["GET"])  # no sandbox has this name
    for version in ("", "/v2"):
        router.add_api_route(f"{version}/sandboxes", of_all("create", handlers.create), methods=["POST"])
        router.add_api_route(f"{version}/sandboxes", of_all("list", handlers.page), methods=["GET"])
        one = f"{version}/sandboxes/{{sandbox}}"
        router.add_api_route(one, of_one("get", handlers.get), methods=["GET"])
        router.add_api_route(one, of_one("delete", handlers.delete), methods=["DELETE"])
        router.add_api_route(f"{one}/timeout", of_one("timeout", handlers.timeout), methods=["POST"])
        router.add_api_route(f"{one}/refreshes", of_one("refreshes", handlers.refresh), methods=["POST"])
        router.add_api_route(f"{one}/connect", of_one("connect", handlers.connect), methods=["POST"])

    router.add_api_route("/{path:path}", rest, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    return router
