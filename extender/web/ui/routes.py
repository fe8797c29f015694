"""Serves the page and the data that it draws.

The page loads nothing from elsewhere, and its Content-Security-Policy allows nothing else: it names this server alone,
no inline script and no inline style. Files are read and compressed once; a browser that has them asks with their ETag.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from algorithm.interface import PageNotFound
from extender.server.runtime import Runtime
from extender.server.views import HeldBack, Readiness
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON
from extender.web.limits.pool import Pool
from extender.web.ui.increments import Increments
from extender.web.ui.nodes import NodePieces
from extender.web.ui.past import history_piece, preemptions_piece
from extender.web.ui.tables import GroupsWanted, PodsWanted, Tables
from extender.web.ui.waiting import PENDING, waiting_pieces

if TYPE_CHECKING:
    from extender.server.claims.service import ClaimService
    from extender.server.vpods.service import VPodService

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_GUARDED = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding, Authorization",
    "Cache-Control": "no-cache",
}
#: Bytes below which compression is not worth while.
_SMALL = 1024


class _File(NamedTuple):
    body: bytes
    compressed: bytes
    type: str
    tag: str


class _Since(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: str = Field("", max_length=64, description="The version of an earlier answer: only what changed since")


class MapBody(BaseModel):
    """What changed. `pieces` are documented in docs/web-page.md."""

    version: str
    size: int = Field(description="How many pieces there are; those from here on are gone")
    pieces: dict[str, dict[str, object]] = Field(description="By number, those that are new since `since`")


class PodRowBody(BaseModel):
    """A pod that waits or takes room. `age` is in seconds, null if unknown."""

    namespace: str
    name: str
    state: str
    node: str
    code: str = Field(description="Why it waits; empty if it does not")
    group: str = Field(description="What it runs with; empty if it runs alone")
    tenant: str = Field(description="Whose it is (HiveD: virtual cluster); empty: its namespace says that")
    priority: int
    devices: int
    age: int | None


class GroupRowBody(BaseModel):
    """Pods that run together, or one pod that is `alone`. `devices` and `nodes` are those of its pods with a place."""

    namespace: str
    name: str
    tenant: str
    alone: bool
    pods: int
    running: int
    binding: int = Field(description="Pods that have a place and are not bound yet")
    waiting: int
    preempting: int
    devices: int
    nodes: int
    priority: int
    code: str = Field(description="Why most of its waiting pods wait")
    example: str = Field(description="One of those, or any pod, for /v1/explain")
    age: int | None = Field(description="Of the oldest pod")


class _PageBody(BaseModel):
    total: int = Field(description="How many there are without any filter")
    matching: int = Field(description="How many the filters let pass")
    offset: int
    namespaces: list[str] = Field(description="To choose from: those with most pods, by name")
    tenants: list[str]


class PodPageBody(_PageBody):
    """A page of pods."""

    items: list[PodRowBody]


class GroupPageBody(_PageBody):
    """A page of groups."""

    items: list[GroupRowBody]


def ui_routes(
    runtime: Runtime | None,
    algorithm: str,
    pool: Pool,
    claims: ClaimService | None = None,
    vpods: VPodService | None = None,
    *,
    plans: bool = False,
    replay: str = "",
    held_back: HeldBack | None = None,
) -> APIRouter:
    """The routes. `algorithm` is its configured name. The map is computed in `pool`. Without a runtime the page shows
    the pools of `claims`, the sets of `vpods`, and nothing else. `plans`: this server makes plans. `replay`: what is
    shown is this moment of a recording; "": it is live. `held_back` are the pods that had a scheduling gate then."""
    router = APIRouter(tags=["people"], responses={"4XX": {"model": ErrorBody}})
    served = _files()
    reader = _Reader(runtime, algorithm, claims, vpods, plans=plans, replay=replay, held_back=held_back or HeldBack())
    increments = Increments(reader.pieces)

    @router.get("/ui", summary="The cluster, or its pools, as a picture, for a browser", response_class=Response)
    async def page(request: Request) -> Response:
        if request.scope.get("raw_path", b"").endswith(b"/"):
            return Response(status_code=307, headers={"Location": "../ui"})  # its links are relative
        return _answer(request, served["index.html"])

    @router.get("/ui/{file}", summary="What the page consists of", response_class=Response)
    async def part(request: Request, file: str) -> Response:
        found = served.get(file)
        if found is None:
            raise HTTPException(404, f"/ui has no part {file!r}; it has {', '.join(sorted(served))}")
        return _answer(request, found)

    @router.get("/v1/inspect/map", summary="What /ui draws: what changed since a version", response_model=MapBody)
    @pool.page
    def changes(request: Request, wanted: Annotated[_Since, Query()]) -> Response:
        return _data(request, increments.since(wanted.since))

    if runtime is not None:
        _add_tables(router, Tables(runtime.model.rows, wall=runtime.model.wall), pool)
    return router


def _add_tables(router: APIRouter, tables: Tables, pool: Pool) -> None:
    @router.get("/v1/inspect/table/pods", summary="Pods by the page: find, filter, sort", response_model=PodPageBody)
    @pool.page
    def pods(request: Request, wanted: Annotated[PodsWanted, Query()]) -> Response:
        return _data(request, msgspec.json.encode(tables.pods(wanted)))

    @router.get(
        "/v1/inspect/table/groups",
        summary="Groups of pods by the page: find, filter, sort",
        response_model=GroupPageBody,
    )
    @pool.page
    def groups(request: Request, wanted: Annotated[GroupsWanted, Query()]) -> Response:
        return _data(request, msgspec.json.encode(tables.groups(wanted)))


def _data(request: Request, body: bytes) -> Response:
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if len(body) > _SMALL and _takes_gzip(request):
        body = gzip.compress(body, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type=JSON)


class _Reader:
    """Reads everything that is drawn, in pieces: a head, the last hour, preemptions, the cells or the nodes, the
    waiting pods, the pools of claims, and the sets of vpods."""

    def __init__(
        self,
        runtime: Runtime | None,
        algorithm: str,
        claims: ClaimService | None,
        vpods: VPodService | None,
        *,
        plans: bool,
        replay: str,
        held_back: HeldBack,
    ) -> None:
        self._plans, self._replay, self._held_back = plans, replay, held_back
        self._runtime, self._algorithm, self._claims, self._vpods = runtime, algorithm, claims, vpods
        self._nodes = NodePieces()
        self._has_cells = True

    def pieces(self) -> list[bytes]:
        if self._runtime is not None:
            return [*self._cluster(self._runtime), *self._others()]
        served = self._claims or self._vpods
        assert served is not None
        return [_head("", served.readiness(), 0.0, plans=False), *self._others()]

    def _others(self) -> list[bytes]:
        pieces: list[bytes] = []
        if self._claims is not None:
            from extender.web.ui.pools import pool_pieces  # noqa: PLC0415 - others start without it

            pieces += pool_pieces(self._claims)
        if self._vpods is not None:
            from extender.web.ui.vpods import vpod_pieces  # noqa: PLC0415 - others start without it

            pieces += vpod_pieces(self._vpods.runtime)
        return pieces

    def _cluster(self, runtime: Runtime) -> list[bytes]:
        model = runtime.model
        return [
            _head(
                self._algorithm,
                runtime.readiness(),
                model.api_silence(),
                plans=self._plans,
                replay=(self._replay, model.wall(), self._held_back.unknown) if self._replay else None,
                faults=runtime.fault_sentences(),
            ),
            history_piece(model.usage.samples()),
            preemptions_piece(model.preemptions(), model.wall()),
            *self._hardware(runtime),
            *waiting_pieces([*model.pods(PENDING), *self._held_back.pods]),
        ]

    def _hardware(self, runtime: Runtime) -> list[bytes]:
        if self._has_cells:
            try:
                return _elements(runtime.model.algorithm_pieces("cells"))
            except PageNotFound:
                self._has_cells = False
            except Exception:
                # The read model has counted it as a fault, which this page shows: so it must not fail as well.
                self._has_cells = False
        return self._nodes.of(runtime.model.cache_snapshot())


def _head(
    algorithm: str,
    found: Readiness,
    silent: float,
    *,
    plans: bool,
    replay: tuple[str, float, str] | None = None,
    faults: Sequence[str] = (),
) -> bytes:
    """`algorithm` is "" where there is none: then there is no cluster to show, but only pools and sets of vpods.

    `replay`: which moment of a recording this is, that moment in seconds since 1970, and what of it is unknown.
    `faults` are sentences about what the algorithm did wrong."""
    head: dict[str, object] = {
        "algorithm": algorithm,
        "ready": found.ready,
        "detail": found.detail,
        "silent": int(silent),
        "plans": plans,
        "faults": faults,
    }
    if replay is not None:
        head |= {"replay": replay[0], "now": replay[1], "unknown": replay[2]}
    return msgspec.json.encode(head)


def _elements(array: list[bytes]) -> list[bytes]:
    """The elements of a JSON array one by one: each has `[` or `,` in front, and `]` comes last."""
    return [piece[1:] for piece in array[:-1]]


@cache
def _files() -> Mapping[str, _File]:
    """The files of the page by name."""
    return {item.name: _file(item.name, item.read_bytes()) for item in (files(__package__) / "static").iterdir()}


def _file(name: str, body: bytes) -> _File:
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return _File(body, gzip.compress(body, mtime=0), _TYPES[name.rpartition(".")[2]], tag)


def _answer(request: Request, file: _File) -> Response:
    headers = _GUARDED | {"ETag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if _takes_gzip(request):
        return Response(file.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.type)
    return Response(file.body, headers=headers, media_type=file.type)


def _takes_gzip(request: Request) -> bool:
    wanted = request.headers.get("accept-encoding", "").replace(" ", "").lower().split(",")
    return any(each == "gzip" or (each.startswith("gzip;q=") and each != "gzip;q=0") for each in wanted)
