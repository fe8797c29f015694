"""The handlers of the HTTP API of vpods. docs/vpods.md explains it; /openapi.json has every field.

GET  /v1/vpods                          all sets, in numbers
GET  /v1/vpods/NAMESPACE/SET            a set: its pods, and a page of its vpods
POST /v1/vpods/NAMESPACE/SET/plan       a dry run: what would happen if something changed
GET, POST /v1/vpods/NAMESPACE/SET/explain    why a vpod is where it is, why it waits, what would help

None of them changes anything. Answers are computed in threads of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from algorithm.suggest import near
from extender.server.cpu_share import PlannerBusy
from extender.server.views import Readiness
from extender.server.vpods.planner import Looked, Planner
from extender.vpods import views
from extender.vpods.copies import SetCopy, copy_sets
from extender.vpods.planning import ChangeError, Changes, VPodChange
from extender.vpods.records import ObjectKey
from extender.web.errors import JSON, BadRequest
from extender.web.limits.budget import Budget
from extender.web.limits.pool import Pool
from extender.web.verbs.body import read_body
from extender.web.vpods.answers import ExplanationBody, PlanBody, explanation_body, plan_body
from extender.web.vpods.bodies import (
    ExplainRequest,
    PlanRequest,
    SetDetailBody,
    SetListBody,
    VPodChangeBody,
    detail_body,
    set_body,
)
from extender.web.vpods.callers import VPodCallers

#: Bytes of a body.
_LARGEST_BODY = 512 * 1024
#: nginx's status for a caller that has disconnected. It appears in metrics only.
_GONE = 499
#: How many names an answer lists at most.
_NAMED = 20
#: How many names are compared with a misspelt one: each takes some 10 µs.
_COMPARED = 1000
_BodyT = TypeVar("_BodyT", bound=BaseModel)


class Which(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespace: str = Field("", max_length=253, description="Only sets of this one")


class Page(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: str = Field("", max_length=640, description="VPods after the one with this name")
    limit: int = Field(100, ge=0, le=500, description="How many vpods")
    waiting: bool = Field(False, description="Only vpods that lack room, or have a problem")
    from_pod: int = Field(0, ge=0, le=2**31 - 1, description="Pods from this ordinal on")
    pod_limit: int = Field(1000, ge=0, le=1000, description="How many pods")


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    vpod: str = Field(min_length=1, max_length=640, description="NAME, NAMESPACE/NAME or SOURCE:NAMESPACE/NAME")


class VPodSource(Protocol):
    """What is served: `extender.server.vpods.service.VPodService`."""

    @property
    def runtime(self) -> Looked: ...

    def readiness(self) -> Readiness: ...


class VPodHandlers:
    """The handlers of one app, in its event loop."""

    def __init__(self, service: VPodSource, callers: VPodCallers, bodies: Budget) -> None:
        self._service = service
        self._planner = Planner(service.runtime)
        self._callers = callers
        self._bodies = bodies
        self._pages = Pool("pages of vpods", 1)
        self._plans = Pool("dry runs", 1)

    async def sets(self, request: Request, namespace: str) -> Response:
        await self._callers.check(request, namespace, "list")
        found: SetListBody = await self._pages.run(("sets", namespace), partial(self._sets, namespace))
        return _json(found)

    def _sets(self, namespace: str) -> SetListBody:
        keys = sorted(key for key in self._keys() if not namespace or key.namespace == namespace)
        copies = self._service.runtime.look(lambda engine, now: copy_sets(engine, keys, now))
        return SetListBody(items=[set_body(copy) for copy in copies])

    async def one(self, request: Request, namespace: str, name: str, wanted: Page) -> Response:
        await self._callers.check(request, namespace)
        key = ObjectKey(namespace, name)
        found: SetDetailBody = await self._pages.run((key, repr(wanted)), partial(self._one, key, wanted))
        return _json(found)

    def _one(self, key: ObjectKey, wanted: Page) -> SetDetailBody:
        copy = self._copy(key)
        shown = views.page(copy, after=wanted.after, limit=wanted.limit, waiting=wanted.waiting) if wanted.limit else []
        return detail_body(copy, shown, limit=wanted.limit, from_pod=wanted.from_pod, pod_limit=wanted.pod_limit)

    async def plan(self, request: Request, namespace: str, name: str) -> Response:
        try:
            await self._callers.check(request, namespace)
            wanted = await self._read(request, PlanRequest)
        except ClientDisconnect:
            return Response(status_code=_GONE)
        key = ObjectKey(namespace, name)
        found: PlanBody = await self._plans.run((key, repr(wanted)), partial(self._plan, key, wanted))
        return _json(found)

    def _plan(self, key: ObjectKey, wanted: PlanRequest) -> PlanBody:
        copy = self._copy(key)
        try:
            plan = self._planner.plan(copy, _changes(wanted), limit=wanted.limit)
        except ChangeError as error:
            raise BadRequest(str(error), error.field) from error
        except PlannerBusy as busy:
            raise _busy(busy) from busy
        return plan_body(copy, plan)

    async def explain(self, request: Request, namespace: str, name: str, vpod: str | None) -> Response:
        """`vpod` None: the body names it."""
        try:
            await self._callers.check(request, namespace)
            vpod = (await self._read(request, ExplainRequest)).vpod if vpod is None else vpod
        except ClientDisconnect:
            return Response(status_code=_GONE)
        key = ObjectKey(namespace, name)
        found: ExplanationBody = await self._plans.run((key, vpod), partial(self._explain, key, vpod))
        return _json(found)

    def _explain(self, key: ObjectKey, name: str) -> ExplanationBody:
        copy = self._copy(key)
        vpod = views.find(copy, name)
        if vpod is None:
            raise _no_vpod(copy, name)
        try:
            return explanation_body(copy, self._planner.explain(copy, vpod))
        except PlannerBusy as busy:
            raise _busy(busy) from busy

    # -- sets -----------------------------------------------------------------------------------------------------

    def _keys(self) -> list[ObjectKey]:
        keys = self._service.runtime.look(lambda engine, _: list(engine.sets))
        if not keys and not (state := self._service.readiness()).ready:
            raise BadRequest(f"not ready: {state.detail}", status=503, code="NotReady", retry_after=1.0)
        return keys

    def _copy(self, key: ObjectKey) -> SetCopy:
        """Raises BadRequest: 404 with the sets that are there, or 503 while they are not known yet."""
        copy = self._planner.copy(key)
        if copy is not None:
            return copy
        state = self._service.readiness()
        if not state.ready:
            raise BadRequest(f"not ready: {state.detail}", status=503, code="NotReady", retry_after=1.0)
        names = sorted(each.name for each in self._keys() if each.namespace == key.namespace)
        there = f"the namespace {key.namespace} has: {_listed(names)}" if names else f"{key.namespace} has no sets"
        raise BadRequest(f"there is no set {key}; {there}{near(key.name, names)}", status=404, code="UnknownSet")

    async def _read(self, request: Request, model: type[_BodyT]) -> _BodyT:
        body = await read_body(request, _LARGEST_BODY, self._bodies, advice="")
        try:
            return model.model_validate_json(body if body.strip() else b"{}")
        except ValidationError as error:
            raise _bad_body(error, model) from error


def _changes(wanted: PlanRequest) -> Changes:
    settings = {
        "capacity": wanted.capacity,
        "policy": wanted.policy,
        "policy_settings": wanted.policy_settings,
        "min_replicas": wanted.min_replicas,
        "max_replicas": wanted.max_replicas,
        "scales": wanted.autoscale,
    }
    return Changes(
        vpods=[VPodChange(**dict(each)) for each in wanted.vpods],
        settings={name: value for name, value in settings.items() if value is not None},
        replicas=wanted.replicas,
        lost_pods=wanted.lost_pods,
        closed_pods=wanted.closed_pods,
        lost_nodes=wanted.lost_nodes,
        cordoned_nodes=wanted.cordoned_nodes,
    )


def _bad_body(error: ValidationError, model: type[BaseModel]) -> BadRequest:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    text = first["msg"]
    if first["type"] == "extra_forbidden":
        fields = VPodChangeBody.model_fields if len(first["loc"]) > 1 else model.model_fields
        text = f"there is no such field; there are: {', '.join(fields)}{near(str(first['loc'][-1]), fields)}"
    return BadRequest(f"{field or 'body'}: {text}", field or "body")


def _no_vpod(copy: SetCopy, name: str) -> BadRequest:
    own = f"{copy.key.namespace}/"
    names = [vpod.name.removeprefix(own) for vpod in copy.vpods]
    text = f"vpod: {name} is not a vpod of {copy.key}; it has: {_listed(sorted(names)) or 'none'}"
    meant = near(name, [*names[:_COMPARED], *(vpod.name for vpod in copy.vpods[:_COMPARED])])
    return BadRequest(f"{text}{meant}", "vpod", status=404, code="UnknownVPod")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _busy(busy: PlannerBusy) -> BadRequest:
    return BadRequest(str(busy), status=503, retry_after=max(1.0, busy.seconds))


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json(), 200, media_type=JSON)
