"""The `Changes` of a request: its manifests as objects, and what it names."""

from __future__ import annotations

from extender.embedded.kubescheduler.model import SchedNode
from extender.ordering.records import Target
from extender.plan.reading.documents import Documents, InputError, Source, read_documents
from extender.plan.reading.shapes import DEFAULT, ShapeError, shaped_nodes
from extender.plan.reading.targets import TargetError, read_target
from extender.plan.records import Changes
from extender.server.plans.requests import PlanRequest, RequestError, objects_text

#: Names of nodes that are added begin with this.
NEW_NODES = "new-node-"


def read_changes(request: PlanRequest) -> tuple[Changes, tuple[str, ...]]:
    """Return what is to change, and warnings about the manifests. Raises RequestError, naming the field."""
    documents = _documents(request)
    changes = Changes(
        settings=request.settings,
        algorithm=request.algorithm,
        delete=tuple(_target(request, text, f"delete.{number}") for number, text in enumerate(request.delete)),
        cordon=tuple(request.cordon),
        drain=tuple(request.drain),
        priorities=tuple(
            (_target(request, text, f"priorities.{text}"), priority) for text, priority in request.priorities.items()
        ),
        add_nodes=_nodes(request),
        create=documents.objects,
    )
    return changes, documents.warnings


def _documents(request: PlanRequest) -> Documents:
    sources = [Source("manifests", request.manifests), Source("objects", objects_text(request))]
    try:
        found = read_documents((each for each in sources if each.text), namespace=request.namespace)
        return found.require()
    except InputError as error:
        raise RequestError(str(error), "manifests" if request.manifests else "objects") from error


def _nodes(request: PlanRequest) -> tuple[SchedNode, ...]:
    if not request.add_nodes:
        if request.node_shape:
            raise RequestError("node_shape: expected add_nodes, too", "node_shape")
        return ()
    try:
        return shaped_nodes(request.add_nodes, request.node_shape or DEFAULT, prefix=NEW_NODES)
    except ShapeError as error:
        raise RequestError(str(error), "node_shape") from error


def without_what_ifs(changes: Changes) -> Changes:
    """Only what would be created."""
    return Changes(create=changes.create)


def _target(request: PlanRequest, text: str, field: str) -> Target:
    try:
        return read_target(text, request.namespace)
    except TargetError as error:
        raise RequestError(f"{field}: {error}", field) from error
