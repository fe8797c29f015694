"""Writes a Binding: the pod is put on its node, with the annotations of the decision, in one write."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.model import Pairs
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path, post_request


class WriteBinding(msgspec.Struct, frozen=True):
    """POST the Binding with UID and annotations, if the `term` still lasts. Reported by BindFinished.

    It must not be sent later than `valid_for` seconds after it was given; then it is reported as THROTTLED. The engine
    does not wait for ever: a write still queued after its place went to another pod would bind two pods to that place.
    """

    token: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: Pairs = ()
    term: int = 0
    valid_for: float = 20.0


class BindFinished(msgspec.Struct, frozen=True):
    """The report of a WriteBinding."""

    token: int
    outcome: Outcome


def request(write: WriteBinding) -> Request:
    """Build the Binding. Its annotations are merged into the pod in the same write; its UID must be the pod's."""
    metadata: dict[str, Any] = {"name": write.name, "namespace": write.namespace}
    if write.uid:
        metadata["uid"] = write.uid
    if write.annotations:
        metadata["annotations"] = dict(write.annotations)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": write.node},
    }
    return post_request(pod_path(write.namespace, write.name, "binding"), body)


def report(write: WriteBinding, outcome: Outcome, _: None) -> BindFinished:
    return BindFinished(write.token, outcome)


KIND = CommandKind(command=WriteBinding, request=request, report=report, reported_as=BindFinished)
