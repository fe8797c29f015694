"""Assembles the HTTP layer: one FastAPI app around one runtime."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.kube.client.access_review import Reviewer
from extender.server.cache_comparer import CacheComparer
from extender.server.runtime import Runtime
from extender.server.views import HeldBack
from extender.settings import Settings
from extender.web.error_answers import add_error_handlers
from extender.web.http.certificates import Certificates
from extender.web.http.doors import Doors, Hosts
from extender.web.http.read_only import ABOUT_REPLAY, ReadOnly
from extender.web.limits.pool import Pool
from extender.web.pages.authorization import everybody, guard, may_get
from extender.web.pages.diff import diff_routes
from extender.web.pages.health import health_routes
from extender.web.pages.held_back import held_back_routes, replayed_explanation
from extender.web.pages.inspect import inspect_routes, own_page_routes
from extender.web.pages.ordering import held_explanation, ordering_routes
from extender.web.pages.scrape import scrape_routes
from extender.web.parts import Parts
from extender.web.ui.routes import ui_routes
from extender.web.verbs.handler import VERBS
from extender.web.verbs.routes import verb_routes

if TYPE_CHECKING:
    from extender.server.claims.service import ClaimService
    from extender.server.ordering.service import OrderingService
    from extender.server.plans.service import PlanService
    from extender.server.vpods.service import VPodService

#: Threads that compute pages: each takes its share of the interpreter from the event loop.
_PAGE_THREADS = 2
_SLASHES = re.compile(r"/{2,}")
_ABOUT = "A Kubernetes scheduling server: kube-scheduler calls it as a scheduler extender."
_ABOUT_CLAIMS = "Hands out idle pods of pools, which run already: claims. It serves no verb of kube-scheduler."
_ABOUT_VPODS = "Places virtual replicas on the pods of StatefulSets: vpods. It serves no verb of kube-scheduler."


class Index(BaseModel):
    """What this is and where to go on."""

    name: str = "waggle"
    about: str = _ABOUT
    algorithm: str = Field(description="Empty: this server serves no verb of kube-scheduler")
    verbs: list[str] = Field(description="What kube-scheduler posts to")
    pages: dict[str, str] = Field(description="What people and machines read: path to what is there")


def create_app(
    runtime: Runtime | None,
    settings: Settings,
    comparer: CacheComparer | None = None,
    *,
    claims: ClaimService | None = None,
    vpods: VPodService | None = None,
    plans: PlanService | None = None,
    ordering: OrderingService | None = None,
    certificates: Certificates | None = None,
    reviewer: Reviewer | None = None,
    parts: Parts | None = None,
    replay: str = "",
    held_back: HeldBack | None = None,
) -> FastAPI:
    """Return the HTTP layer of `runtime`, `claims`, `vpods`, `plans` and `ordering`, as far as they are served. With a
    comparer, the app also has the page that compares the cache with the API server.

    `certificates` are those that the server presents: metrics and /readyz report their state. `reviewer` decides who
    may see pages; if the settings require a review and there is no reviewer, nobody may. `parts`: those that a server
    runs with already (lazy.py); then `certificates` are not read. `replay`: the runtime is this moment of a recording;
    pages can be read, and everything else is refused. `held_back` are the pods with a scheduling gate at that moment.
    """
    parts = parts or Parts.of(runtime, settings.server, certificates, claims, vpods, plans, ordering, replay=replay)
    app = _App(parts)
    pages = Pool("pages", _PAGE_THREADS)
    app.include_router(verb_routes(parts.verbs))
    app.include_router(health_routes(parts.probes))
    app.include_router(scrape_routes(parts.metrics))
    is_open = settings.server.inspect_authorization == "none"
    guards = [] if is_open else [Depends(guard(reviewer))]
    may_list = everybody if is_open else may_get(reviewer, "/v1/inspect/pods")
    if runtime is not None:
        held = {} if ordering is None else {"held": partial(held_explanation, ordering.views)}
        if held_back is not None:
            held = {"held": partial(replayed_explanation, held_back)}
            app.include_router(held_back_routes(held_back, pages), dependencies=guards)
        app.include_router(inspect_routes(runtime, pages, may_list=may_list, **held), dependencies=guards)
        if comparer is not None:
            app.include_router(diff_routes(comparer), dependencies=guards)
    algorithm = settings.algorithm.name if runtime is not None else ""
    app.include_router(
        ui_routes(
            runtime, algorithm, pages, claims, vpods, plans=plans is not None, replay=replay, held_back=held_back
        ),
        dependencies=guards,
    )
    if ordering is not None:
        explains = runtime is None
        app.include_router(ordering_routes(ordering.views, pages, explains=explains), dependencies=guards)
    if claims is not None:
        from extender.web.claims.callers import Callers  # noqa: PLC0415 - others start without it
        from extender.web.claims.handlers import ClaimHandlers  # noqa: PLC0415
        from extender.web.claims.routes import claim_routes  # noqa: PLC0415
        from extender.web.claims.shortcut import ClaimShortcut  # noqa: PLC0415

        callers = Callers(settings.claims, reviewer)
        handlers = ClaimHandlers(claims, callers, parts.budgets.bodies)
        app.include_router(claim_routes(handlers))
        app.add_middleware(ClaimShortcut, handlers=handlers)
        if settings.claims.e2b.enabled:
            from extender.web.e2b.routes import e2b_routes  # noqa: PLC0415

            app.include_router(e2b_routes(claims, callers, parts.budgets.bodies, parts.metrics))
    if vpods is not None:
        from extender.web.vpods.callers import VPodCallers  # noqa: PLC0415 - others start without it
        from extender.web.vpods.handlers import VPodHandlers  # noqa: PLC0415
        from extender.web.vpods.routes import vpod_routes  # noqa: PLC0415

        lookers = VPodCallers(reviewer, reviews=not is_open)
        app.include_router(vpod_routes(VPodHandlers(vpods, lookers, parts.budgets.bodies)))
    if plans is not None:
        from extender.web.plans.callers import PlanCallers  # noqa: PLC0415 - others start without it
        from extender.web.plans.handlers import PlanHandlers  # noqa: PLC0415
        from extender.web.plans.routes import plan_routes  # noqa: PLC0415

        planners = PlanCallers(reviewer, reviews=not is_open)
        app.include_router(plan_routes(PlanHandlers(plans, planners, parts.budgets.bodies)))
    if runtime is not None:  # after all others: the algorithm's own pages may have any path
        app.include_router(own_page_routes(runtime, pages), dependencies=guards)
    about = _ABOUT if algorithm else _ABOUT_CLAIMS if claims is not None else _ABOUT_VPODS
    _add_index(app, algorithm, ABOUT_REPLAY.format(replay) if replay else about)
    add_error_handlers(app, app.verbs)
    if replay:
        app.add_middleware(ReadOnly, replay=replay)
    app.add_middleware(
        Doors,
        verbs=app.verbs,
        hosts=Hosts(settings.server, parts.certificates.names),
        refusals=parts.refusals,
        turnstile=parts.turnstile,
    )
    app.add_middleware(_TidyPath)
    return app


class _App(FastAPI):
    """FastAPI with four attributes. `verbs` are kube-scheduler's, by path, for the fast path in protocol.py. The health
    port serves `probes`, too.

    `metrics` also collects the metrics of the app's server. `budgets` bound the memory of all its connections.
    """

    def __init__(self, parts: Parts) -> None:
        # No /docs: its page would load scripts from a public CDN into the browser of a user inside the cluster.
        super().__init__(
            title="Waggle", description=_ABOUT, version="1", docs_url=None, redoc_url=None, redirect_slashes=False
        )
        self.verbs = parts.verbs.endpoints
        self.probes = parts.probes
        self.metrics = parts.metrics
        self.budgets = parts.budgets


def _add_index(app: _App, algorithm: str, about: str) -> None:
    @app.get("/", tags=["people"], summary="What this is")
    async def index() -> Index:
        verbs = [f"/{verb.name}" for verb in VERBS if f"/{verb.name}" in app.verbs]
        return Index(about=about, algorithm=algorithm, verbs=verbs, pages=_pages(app))


def _pages(app: FastAPI) -> dict[str, str]:
    """Every page that can be read, as OpenAPI lists it."""
    paths = app.openapi()["paths"].items()
    found = {path: methods["get"]["summary"] for path, methods in paths if "get" in methods and path != "/"}
    return found | {"/openapi.json": "All of this for machines"}


class _TidyPath:
    """Serves /filter/ and //filter as /filter.

    kube-scheduler joins urlPrefix and verb with a slash, even if the verb begins with one. It would follow a redirect,
    but then every call would cost two.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if "//" in path or (path.endswith("/") and path != "/"):
                scope["path"] = _SLASHES.sub("/", path).rstrip("/") or "/"
        await self._app(scope, receive, send)
