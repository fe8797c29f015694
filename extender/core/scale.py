"""Sets the replicas of a workload through its scale sub-resource.

The resourceVersion for which the decision was made is a precondition: if the workload has changed since, the API server
answers 409 (LOST), and the engine decides again.
"""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path, patch_request


class ScaleWorkload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the scale of a workload. `resource`: the plural, such as deployments. Reported by WorkloadScaled."""

    token: int
    namespace: str
    name: str
    replicas: int
    resource_version: str
    group: str = "apps"
    version: str = "v1"
    resource: str = "deployments"
    term: int = 0
    valid_for: float = 20.0


class WorkloadScaled(msgspec.Struct, frozen=True, gc=False):
    """The report of a ScaleWorkload."""

    token: int
    outcome: Outcome


def request(scale: ScaleWorkload) -> Request:
    path = collection_path(scale.resource, group=scale.group, version=scale.version, namespace=scale.namespace)
    body = {"metadata": {"resourceVersion": scale.resource_version}, "spec": {"replicas": scale.replicas}}
    return patch_request(object_path(path, scale.name, "scale"), body)


def report(scale: ScaleWorkload, outcome: Outcome, _: None) -> WorkloadScaled:
    return WorkloadScaled(scale.token, outcome)


def kind(*, delays_handover: bool) -> CommandKind[ScaleWorkload, None, WorkloadScaled]:
    """`delays_handover`: whether the next leader must have seen what this one scaled."""
    return CommandKind(
        command=ScaleWorkload,
        request=request,
        report=report,
        reported_as=WorkloadScaled,
        delays_handover=delays_handover,
    )
