"""Pages of start-up ordering: the pods that are held back, with the reason and its root, and why one of them is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from extender.server.loop import LoopBusy
from extender.server.ordering.views import HeldExplanation, HeldPod, OrderingViews
from extender.server.views import Explanation, PodView
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON
from extender.web.limits.pool import Pool
from extender.web.pages.inspect import ExplanationBody, ReasonBody, explanation_body

#: Pods on one page.
MOST = 10_000


class HeldPodBody(BaseModel):
    """A pod that is held back."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    namespace: str
    name: str
    uid: str
    reason: ReasonBody
    gated: bool = Field(description="Whether it has the scheduling gate; if not, filter refuses it")
    root: str = Field(
        description="Kind/namespace/name of the object because of which it would wait for ever; empty if it only waits"
    )
    after: list[str] = Field(description="What it waits for")
    since_seconds: float = Field(description="How long it has been known")


class HeldPodListBody(BaseModel):
    total: int = Field(description="How many there are; the list ends at `limit`")
    items: list[HeldPodBody]


class _Filters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespace: str = Field("", description="Only pods of this namespace")
    limit: int = Field(1000, ge=0, le=MOST, description="How many pods")


def held_explanation(views: OrderingViews, namespace: str, pod: str) -> ExplanationBody | None:
    """Return why a pod is held back of which the engine of pods knows nothing, as it has a gate; None: it is not."""
    found = _explained(views, namespace, pod)
    return None if found.pod is None else explanation_body(_explanation(found.pod, found))


def ordering_routes(views: OrderingViews, pool: Pool, *, explains: bool) -> APIRouter:
    """`explains`: no verbs are served here, whose pages would explain pods."""
    router = APIRouter(tags=["people"], responses={"4XX": {"model": ErrorBody}})

    @router.get("/v1/inspect/ordering", summary="Pods that wait for others, and why", response_model=HeldPodListBody)
    @pool.page
    def held(wanted: Annotated[_Filters, Query()]) -> Response:
        try:
            found = views.held(wanted.namespace)
        except LoopBusy as error:
            raise _busy() from error
        items = [_body(each) for each in found[: wanted.limit]]
        return _json(HeldPodListBody(total=len(found), items=items))

    if explains:

        @router.get("/v1/explain/{namespace}/{pod}", summary="Why a pod is held back", response_model=ExplanationBody)
        @pool.page
        def explain(namespace: str, pod: str) -> Response:
            body = held_explanation(views, namespace, pod)
            if body is None:
                raise HTTPException(404, f"pod {namespace}/{pod} does not wait for others, or does not exist")
            return _json(body)

    return router


def _explained(views: OrderingViews, namespace: str, pod: str) -> HeldExplanation:
    try:
        return views.explain(namespace, pod)
    except LoopBusy as error:
        raise _busy() from error


def _busy() -> HTTPException:
    return HTTPException(503, "the engine of start-up ordering is busy; try again", {"Retry-After": "1"})


def _explanation(pod: HeldPod, found: HeldExplanation) -> Explanation:
    view = PodView(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        state="Waiting",
        reason=pod.reason,
        since_seconds=pod.seconds,
        summary=next(iter(found.sentences), pod.reason.text),
    )
    return Explanation(pod=view, reason=pod.reason, advice=list(found.sentences))


def _body(pod: HeldPod) -> HeldPodBody:
    return HeldPodBody(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        reason=ReasonBody(code=pod.reason.code.value, text=pod.reason.text),
        gated=pod.is_gated,
        root=pod.root,
        after=list(pod.after),
        since_seconds=round(pod.seconds, 3),
    )


def _json(body: BaseModel) -> Response:
    """JSON with a final newline, for people who read these pages in a terminal."""
    return Response(body.model_dump_json(by_alias=True) + "\n", media_type=JSON)
