"""Rights at the API server, and the question whether the caller has one: nothing is tried."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from extender.kube.client import bounds
from extender.kube.client.api import ApiServer

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TIMEOUT: Final = 10.0


class Right(NamedTuple):
    """A right as RBAC has it. `subresource` and `name` are "" for none. `namespaced`: only in the Lease's namespace;
    `namespace`: only in this one."""

    verb: str
    resource: str
    subresource: str = ""
    group: str = ""
    name: str = ""
    namespaced: bool = False
    namespace: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {resource}" + (f" {self.name}" if self.name else "")


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def allowed(api: ApiServer, right: Right, namespace: str = "") -> bool:
    """Ask the API server. `namespace` is the Lease's. Raises ApiError, ValueError and DecodeError without a verdict."""
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "name": right.name,
        "namespace": right.namespace or (namespace if right.namespaced else ""),
    }
    spec = {"resourceAttributes": {name: value for name, value in attributes.items() if value}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    response = api.request("POST", _REVIEWS, body=msgspec.json.encode(body), timeout=_TIMEOUT, most=bounds.SMALL_OBJECT)
    if not response.ok:
        raise ValueError(f"POST {_REVIEWS}: {response.status} {response.message}")
    status = msgspec.json.decode(response.body, type=_Review).status
    return status.allowed and not status.denied
