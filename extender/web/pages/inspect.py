"""Pages for people: pods with the reasons why they wait, nodes with their room, the cache, the algorithm's own state.

Every page shows one moment and changes nothing. These routes run in a thread pool and encode their JSON there: ten
thousand pods must not delay kube-scheduler, whose verbs are served by the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from algorithm.interface import InvalidArgument, PageNotFound
from algorithm.model import Pod
from algorithm.reasons import Reason
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.faults import Fault, FaultKind
from extender.scheduling.state.node_info import NodeInfo
from extender.scheduling.state.selector import Selector
from extender.server.readmodel import ReadModel
from extender.server.runtime import Runtime
from extender.server.similar import did_you_mean
from extender.server.views import Explanation, FaultsView, PodView
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON, BadRequest
from extender.web.limits.pool import Pool
from extender.web.pages.authorization import everybody

State = Literal["Waiting", "Preempting", "Binding", "Bound"]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ReasonBody(_Body):
    """Why a pod waits or fails, or why a node does not take it."""

    code: str = Field(description="One of a closed set; the same in Events and metrics")
    text: str


class PodBody(_Body):
    """A pod that waits or takes room."""

    namespace: str
    name: str
    uid: str
    state: str = Field(description="Waiting, Preempting, Binding or Bound")
    node: str = Field(description="Where it is or is proposed for; empty if nowhere")
    reason: ReasonBody | None = Field(description="The dominant reason for which it is not bound")
    attempts: int = Field(description="Scheduling attempts so far")
    gang: str = Field(description="The gang it belongs to; empty if none")
    tenant: str = Field(description="Whose it is (HiveD: virtual cluster); empty: its namespace says that")
    devices: int = Field(description="How many it asks for, or has (HiveD: leaf cells)")
    priority: int = Field(description="The one that counts: the algorithm may have its own")
    since_seconds: float = Field(description="How long it has been in this state")
    kube_scheduler: str = Field(description="What kube-scheduler wrote when it last found no node; empty if nothing")
    summary: str = Field(description="One sentence for people: why it waits. Empty if it does not")


class PodListBody(_Body):
    items: list[PodBody]


class NodeBody(_Body):
    """A node as the extender sees it. Amounts: cpu in thousandths of a core, everything else in units."""

    name: str
    known: bool = Field(description="false: pods are bound to this name, but no such node exists")
    ready: bool
    unschedulable: bool
    labels: dict[str, str]
    allocatable: dict[str, int] = Field(description="What pods may take")
    requested: dict[str, int] = Field(description="What they take, proposals included")
    devices: int = Field(description="How many devices they have, as the algorithm counts them")
    pods: list[str] = Field(description="namespace/name")


class NodeListBody(_Body):
    items: list[NodeBody]


class CachedPodBody(_Body):
    namespace: str
    name: str
    uid: str
    node: str
    requests: dict[str, int]
    labels: dict[str, str]


class CacheBody(_Body):
    """What counts as true: pods that take room, bound or only proposed, and the size of everything."""

    generation: int = Field(description="Grows with every change")
    counts: dict[str, int]
    items: list[CachedPodBody]


class FaultBody(_Body):
    """A fault of the algorithm. The log has the traceback of each distinct one."""

    kind: str = Field(description="raised, broke_contract, unsteady_reason (a text kept changing) or slow")
    call: str = Field(description="The method of the algorithm")
    subject: str = Field(description="The pod or node that it was about; empty if it was about none")
    text: str
    count: int = Field(description="How often this very fault came")
    seconds_ago: float
    event: int = Field(description="The number of the event in which it happened; 0: before the first one")
    replay: str = Field(description="The command that shows that moment; if nothing is recorded, how to record")


class AlgorithmBody(_Body):
    state: dict[str, Any] = Field(description="Whatever the algorithm wants to show; empty if it failed to")
    faults: int = Field(description="How often it raised or broke its contract")
    last_fault: FaultBody | None = Field(description="The last exception or breach")
    fault_counts: dict[str, int] = Field(description="How often, by kind")
    last_of_each_kind: list[FaultBody] = Field(description="The newest first")
    unknown_nodes: list[str] = Field(description="Nodes that it failed to take in: they get no pods")


class IfAskedBody(_Body):
    """What the algorithm would answer if kube-scheduler asked now and offered all nodes that can be used."""

    node: str = Field(description="Where the pod would be placed; empty if nowhere")
    reason: ReasonBody | None = Field(description="Why it would wait")


class ExplanationBody(_Body):
    """Why a pod is where it is, or is nowhere."""

    summary: str = Field(description="One sentence for people; empty if the pod does not wait")
    pod: PodBody
    reason: ReasonBody | None = Field(description="The dominant reason")
    if_asked: IfAskedBody | None = Field(description="Null if the pod has a place, or if that is not known")
    nodes: dict[str, ReasonBody] = Field(description="What the last attempt found about single nodes")
    nearest: list[str] = Field(
        description="The nodes that lack least, if only amounts are lacking and the algorithm does not explain"
    )
    advice: list[str] = Field(description="What the algorithm says about it: what would have to change for it to run")
    story: list[str] = Field(
        description="What happened to the pod, oldest first; events have the same numbers in a recording and in the log"
    )


class _Filters(BaseModel):
    """Parameters of a page. An unknown one is refused: a misspelt filter must not look as if it had matched all."""

    model_config = ConfigDict(extra="forbid")


class _PodFilters(_Filters):
    namespace: str = Field("", description="Only pods of this namespace")
    state: State | None = Field(None, description="Only pods in this state")


class _NodeFilters(_Filters):
    label_selector: str = Field("", alias="labelSelector", description="Only nodes with such labels, as kubectl -l")


class _CacheFilters(_Filters):
    namespace: str = Field("", description="Only pods of this namespace")
    node: str = Field("", description="Only pods on this node")
    label_selector: str = Field("", alias="labelSelector", description="Only pods with such labels, as kubectl -l")


def _knows_no_more(_namespace: str, _pod: str) -> ExplanationBody | None:
    """Start-up ordering is not served."""
    return None


def inspect_routes(
    runtime: Runtime,
    pool: Pool,
    *,
    may_list: Callable[[Request], Awaitable[bool]] = everybody,
    held: Callable[[str, str], ExplanationBody | None] = _knows_no_more,
) -> APIRouter:
    """`may_list` says whether a caller may know which pods there are. `held` returns why a pod is held back that has a
    scheduling gate: kube-scheduler does not ask about it."""
    router = APIRouter(tags=["people"], responses={"4XX": {"model": ErrorBody}})

    @router.get("/v1/inspect/pods", summary="Pods: state, node, reason", response_model=PodListBody)
    @pool.page
    def pods(wanted: Annotated[_PodFilters, Query()]) -> Response:
        states = None if wanted.state is None else (wanted.state,)
        return _json(pod_list(view for view in runtime.model.pods(states) if _matches(view, wanted)))

    @router.get("/v1/inspect/nodes", summary="Nodes: allocatable, requested, pods", response_model=NodeListBody)
    @pool.page
    def nodes(wanted: Annotated[_NodeFilters, Query()]) -> Response:
        selector = _selector(wanted.label_selector)
        return _json(node_list(runtime.model, selector))

    @router.get("/v1/inspect/cache", summary="Pods that take room, bound or proposed", response_model=CacheBody)
    @pool.page
    def cache(wanted: Annotated[_CacheFilters, Query()]) -> Response:
        selector = _selector(wanted.label_selector)
        snapshot = runtime.model.cache_snapshot()
        held: Iterable[Pod] = (pod for info in snapshot.nodes.values() for pod in info.pods)
        items = [
            _cached(pod)
            for pod in held
            if wanted.namespace in ("", pod.namespace)
            and wanted.node in ("", pod.node_name)
            and selector.matches(pod.labels)
        ]
        counts = snapshot.counts._asdict()
        return _json(CacheBody(generation=snapshot.generation, counts=counts, items=items))

    @router.get("/v1/inspect/algorithm", summary="The algorithm's own state", response_model=AlgorithmBody)
    @pool.page
    def algorithm(_none: Annotated[_Filters, Query()]) -> Response:
        state, faults = runtime.model.algorithm_state(), runtime.model.algorithm_faults()
        return Response(msgspec.json.encode(_algorithm(state, faults), enc_hook=str) + b"\n", media_type=JSON)

    @pool.page
    def explanation(namespace: str, pod: str) -> Response | None:
        found = runtime.model.explain(namespace, pod)
        body = held(namespace, pod) if found is None else explanation_body(found)
        return None if body is None else _json(body)

    @pool.page
    def similar_pods(namespace: str, pod: str) -> list[str]:
        return runtime.model.similar_pods(namespace, pod)

    @router.get(
        "/v1/explain/{namespace}/{pod}",
        summary="Why a pod is where it is, or is nowhere",
        response_model=ExplanationBody,
    )
    async def explain(namespace: str, pod: str, request: Request) -> Response:
        found = await explanation(namespace, pod)
        if found is not None:
            return found
        names = await similar_pods(namespace, pod) if await may_list(request) else []
        known = f"GET /v1/inspect/pods?namespace={namespace} lists those that are"
        meant = f". {did_you_mean(names)}" if names else ""
        raise HTTPException(404, f"no pod {namespace}/{pod} is known; {known}{meant}")

    return router


def pod_list(views: Iterable[PodView]) -> PodListBody:
    """Return the page of these pods."""
    return PodListBody(items=[_pod(view) for view in views])


def node_list(model: ReadModel, selector: Selector | None = None) -> NodeListBody:
    """Return the page of the nodes with such labels; None: of all."""
    devices: Counter[str] = Counter()
    for row in model.rows():
        if row.node:
            devices[row.node] += row.devices
    items = [
        _node(name, info, devices[name])
        for name, info in model.cache_snapshot().nodes.items()
        if selector is None or selector.matches(info.node.labels if info.node else ())
    ]
    return NodeListBody(items=items)


def own_page_routes(runtime: Runtime, pool: Pool) -> APIRouter:
    """Routes for the algorithm's own pages. Include them last: they match every path that no other route serves."""
    router = APIRouter(tags=["people"], responses={"4XX": {"model": ErrorBody}})

    @router.get("/v1/inspect/{path:path}", summary="Pages of the algorithm's own")
    @pool.page
    def own_page(path: str, _none: Annotated[_Filters, Query()]) -> Response:
        try:
            return Response(runtime.model.algorithm_page(path), media_type=JSON)
        except PageNotFound as missing:
            raise HTTPException(404, missing.text or None) from missing
        except InvalidArgument as wrong:
            raise HTTPException(400, str(wrong)) from wrong
        except AlgorithmFault as fault:  # it is in the log already
            raise HTTPException(500, f"the algorithm failed to make this page: {fault}") from fault

    return router


def _json(body: BaseModel) -> Response:
    """JSON with a final newline, for people who read these pages in a terminal."""
    return Response(body.model_dump_json(by_alias=True) + "\n", media_type=JSON)


def _selector(text: str) -> Selector:
    try:
        return Selector.parse(text)
    except ValueError as error:
        raise BadRequest(f"labelSelector: {error}", "labelSelector") from error


def _matches(view: PodView, wanted: _PodFilters) -> bool:
    return wanted.namespace in ("", view.namespace) and wanted.state in (None, view.state)


def _reason(reason: Reason | None) -> ReasonBody | None:
    return None if reason is None else ReasonBody(code=reason.code.value, text=reason.text)


def _pod(view: PodView) -> PodBody:
    return PodBody(
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        state=view.state,
        node=view.node,
        reason=_reason(view.reason),
        attempts=view.attempts,
        gang=view.gang,
        tenant=view.tenant,
        devices=view.devices,
        priority=view.priority,
        since_seconds=round(view.since_seconds, 3),
        kube_scheduler=view.kube_scheduler,
        summary=view.summary,
    )


def _node(name: str, info: NodeInfo, devices: int) -> NodeBody:
    node = info.node
    return NodeBody(
        name=name,
        known=node is not None,
        ready=node is not None and node.ready,
        unschedulable=node is not None and node.unschedulable,
        labels=dict(node.labels) if node else {},
        allocatable=dict(node.allocatable) if node else {},
        requested=dict(info.requested),
        devices=devices,
        pods=[str(pod.key) for pod in info.pods],
    )


def _cached(pod: Pod) -> CachedPodBody:
    return CachedPodBody(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node_name,
        requests=dict(pod.requests),
        labels=dict(pod.labels),
    )


def _algorithm(state: msgspec.Raw, faults: FaultsView) -> dict[str, Any]:
    """AlgorithmBody, but for `state`: only msgspec encodes what an algorithm shows."""
    recent = sorted(faults.last_of.values(), key=lambda fault: -fault.at)
    return {
        "state": state,
        "faults": faults.total,
        "lastFault": _fault(faults.last, faults) if faults.last is not None else None,
        "faultCounts": {kind.value: faults.counts.get(kind, 0) for kind in FaultKind},
        "lastOfEachKind": [_fault(each, faults) for each in recent],
        "unknownNodes": faults.unknown_nodes,
    }


def _fault(fault: Fault, faults: FaultsView) -> dict[str, Any]:
    body = FaultBody(
        kind=fault.kind.value,
        call=fault.call,
        subject=fault.subject,
        text=fault.text,
        count=fault.count,
        seconds_ago=round(faults.now - fault.at, 3),
        event=fault.number,
        replay=faults.replay(fault.number),
    )
    return body.model_dump(by_alias=True)


def explanation_body(found: Explanation) -> ExplanationBody:
    """Return the page that explains one pod."""
    return ExplanationBody(
        summary=found.pod.summary,
        pod=_pod(found.pod),
        if_asked=_if_asked(found),
        reason=_reason(found.reason),
        nodes={name: ReasonBody(code=why.code.value, text=why.text) for name, why in sorted(found.nodes.items())},
        nearest=list(found.nearest),
        advice=list(found.advice),
        story=list(found.story),
    )


def _if_asked(found: Explanation) -> IfAskedBody | None:
    if not found.node_if_asked and found.reason_if_asked is None:
        return None
    return IfAskedBody(node=found.node_if_asked, reason=_reason(found.reason_if_asked))
