"""Who may do what: everybody, everything. This server knows no users; clients that ask get an honest yes."""

from __future__ import annotations

from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.resources import Resource

_USER: Object = {"username": "embedded", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING: Object = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_EVERY_PATH: Object = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def review(resource: Resource, question: Object) -> Object:
    """The object with its `status` filled in."""
    metadata = question.get("metadata", {})
    asked = {key: value for key, value in question.items() if key not in ("metadata", "status")}
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return {**head, **asked, "metadata": metadata, "status": _status(resource.kind)}


def _status(kind: str) -> Object:
    if kind == "TokenReview":
        return {"authenticated": True, "user": _USER}
    if kind == "SelfSubjectReview":
        return {"userInfo": _USER}
    if kind == "SelfSubjectRulesReview":
        return {"resourceRules": [_EVERYTHING], "nonResourceRules": [_EVERY_PATH], "incomplete": False}
    return {"allowed": True}
