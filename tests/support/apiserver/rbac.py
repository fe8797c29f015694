"""RBAC as the API server decides it: what a request asks for, and whether rules allow it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, order=True)
class Access:
    """One request's attributes. `resource` has its subresource behind a slash; `name` is "" where there is none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def access(method: str, path: str, query: Mapping[str, str] | None = None) -> Access:
    """What the API server makes of a request."""
    found = _PATH.fullmatch(path)
    assert found, path
    part = {key: value or "" for key, value in found.groupdict().items()}
    read = "get" if part["name"] else "watch" if (query or {}).get("watch") in ("1", "true") else "list"
    resource = part["resource"] + (f"/{part['sub']}" if part["sub"] else "")
    name = part["name"] if not (part["sub"] and method == "POST") else ""
    return Access(_VERBS.get(method, read), part["group"], resource, part["namespace"], name)


def rules_for(asked: Access, rules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the rules that allow it."""
    return [
        rule
        for rule in rules
        if asked.verb in rule["verbs"]
        and asked.group in rule["apiGroups"]
        and asked.resource in rule["resources"]
        and ("resourceNames" not in rule or asked.name in rule["resourceNames"])
    ]


def grants(rules: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """All of (verb, group, resource) that rules allow, whatever the name."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
