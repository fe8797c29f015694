"""OpenAPI models of the verbs: they document the bodies and are never used to read or write one.

`described` documents a body that another handler reads itself.
Names and meaning are those of k8s.io/kube-scheduler/extender/v1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, Field, RootModel

from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON

_POD = "The pod as a v1 Pod object; metadata.name and metadata.uid are required"


class ExtenderArgs(BaseModel):
    """The body of filter and prioritize: a pod and the nodes on offer, by name or in full."""

    Pod: dict[str, Any] = Field(description=_POD)
    Nodes: dict[str, Any] | None = Field(None, description="nodeCacheCapable: false: {items: [v1 Node objects]}")
    NodeNames: list[str] | None = Field(None, description="nodeCacheCapable: true: the names; wins if both are given")


class ExtenderFilterResult(BaseModel):
    """Which nodes pass, and for all others why not."""

    Nodes: dict[str, Any] | None = Field(description="The nodes that pass, if the request came with Nodes")
    NodeNames: list[str] | None = Field(description="The nodes that pass, if the request came with NodeNames")
    FailedNodes: dict[str, str] = Field(description="Node to reason, where evicting pods could help")
    FailedAndUnresolvableNodes: dict[str, str] = Field(description="Node to reason, where evicting pods cannot help")
    Error: str = Field(description="Not empty: the request could not be served; names the field at fault")


class HostPriority(BaseModel):
    Host: str
    Score: int = Field(description="0 to 10, more is better")


class HostPriorityList(RootModel[list[HostPriority]]):
    """A score for every offered node."""


class ExtenderPreemptionArgs(BaseModel):
    """A pod and, by node, the pods that kube-scheduler would evict for it there."""

    Pod: dict[str, Any] = Field(description=_POD)
    NodeNameToVictims: dict[str, dict[str, Any]] | None = Field(
        None, description="nodeCacheCapable: false: {node: {Pods: [v1 Pod objects], NumPDBViolations: int}}"
    )
    NodeNameToMetaVictims: dict[str, dict[str, Any]] | None = Field(
        None, description="nodeCacheCapable: true: {node: {Pods: [{UID: text}], NumPDBViolations: int}}; wins"
    )


class MetaPod(BaseModel):
    UID: str


class MetaVictims(BaseModel):
    Pods: list[MetaPod]
    NumPDBViolations: int


class ExtenderPreemptionResult(BaseModel):
    """The nodes on which preemption helps, with the pods to evict there."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


class ExtenderBindingArgs(BaseModel):
    """Bind this pod to this node; filter must have proposed it."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(BaseModel):
    Error: str = Field(description="Empty: the pod is bound to the node. Otherwise why not")


_FILTER = (
    "Names one node at most, and holds its room for the pod for a while (`holds.lease_seconds`). Every other node has "
    "its reason in FailedNodes or FailedAndUnresolvableNodes. Error is set if no answer can be given."
)
_PRIORITIZE = "Scores of 0 to 10, more is better. If the pod has a place already, only that node has one."
_PREEMPT = "Keeps the nodes on which preemption helps this pod, and names the victims there by UID."
_BIND = (
    "Writes the binding to the API server, and answers when its outcome is known. Refused, unless filter has proposed "
    "this node for this pod and the proposal still holds. A caller that hangs up does not stop the write."
)

#: Arguments and result of each verb, its summary, and what a caller has to know about it.
_BODIES: dict[str, tuple[type[BaseModel], type[BaseModel], str, str]] = {
    "filter": (ExtenderArgs, ExtenderFilterResult, "Which of the offered nodes take the pod", _FILTER),
    "prioritize": (ExtenderArgs, HostPriorityList, "How good the offered nodes are for the pod", _PRIORITIZE),
    "preempt": (ExtenderPreemptionArgs, ExtenderPreemptionResult, "Whom to evict for the pod", _PREEMPT),
    "bind": (ExtenderBindingArgs, ExtenderBindingResult, "Bind the pod to the node", _BIND),
}


@cache
def _schema(body: type[BaseModel]) -> dict[str, Any]:
    return body.model_json_schema()


def documented(verb: str, prefix: str) -> dict[str, Any]:
    """The arguments of `add_api_route` that describe a verb."""
    asked, answered, summary, description = _BODIES[verb]
    responses: dict[int, dict[str, Any]] = {200: {"model": answered}}
    if verb in ("prioritize", "preempt"):
        responses |= {status: {"model": ErrorBody} for status in (400, 413)}
    return {
        "operation_id": verb if not prefix else f"{verb}-v1",
        "summary": summary,
        "description": description,
        "responses": responses,
        "openapi_extra": {"requestBody": {"required": True, "content": {JSON: {"schema": _schema(asked)}}}},
    }


def described(model: type[BaseModel]) -> dict[str, Any]:
    """Return the body of a call for /openapi.json: the handlers read it themselves, so FastAPI does not know it."""
    whole = model.model_json_schema()
    return {"requestBody": {"content": {JSON: {"schema": _inlined(whole, whole.pop("$defs", {}))}}}}


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """The schema with its parts in their places: a reference to $defs leads nowhere in the whole document."""
    if isinstance(schema, list):
        return [_inlined(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    part = parts[schema.pop("$ref").rpartition("/")[2]] if "$ref" in schema else {}
    return {name: _inlined(value, parts) for name, value in (part | schema).items()}
