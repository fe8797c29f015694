"""What Waggle asked of the API server in a test run, and what that decided, from the API server's own audit log.

Waggle runs in every test under the service account, the roles and the bindings of manifests/base/rbac.yaml and has
nothing else; claims have those of manifests/claims. At the end of a run no request of it may have been refused; see
conftest.py. While an API server starts, it knows no roles yet and refuses everything: that does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.e2e.cluster import ControlPlane
from tests.support.apiserver.rbac import Access

#: How Waggle introduces itself; tests that ask under its name, to be refused, do not.
_AGENT = "waggle"
#: What the authorizer said. The status does not tell: what is refused for a namespace that ends is a 403, too.
_DECISION = "authorization.k8s.io/decision"


def refused(plane: ControlPlane) -> list[Access]:
    """What Waggle asked for and may not, each once."""
    lines = (line for line in _lines(plane) if line["annotations"].get(_DECISION) != "allow")
    return sorted({_access(line) for line in lines if not _while_starting(plane, line)})


def _while_starting(plane: ControlPlane, line: dict[str, Any]) -> bool:
    at = datetime.fromisoformat(line["requestReceivedTimestamp"]).timestamp()
    return any(begun <= at <= ended for begun, ended in plane.restarts)


def used(plane: ControlPlane, *, namespace: str = "", account: str = "waggle") -> set[tuple[str, str, str]]:
    """Verb, group and resource of all that Waggle was allowed, of one namespace only if one is named."""
    lines = (line for line in _lines(plane) if line["user"]["username"].endswith(f":{account}"))
    asked = [_access(line) for line in lines if line["annotations"].get(_DECISION) == "allow"]
    return {(each.verb, each.group, each.resource) for each in asked if namespace in ("", each.namespace)}


def groups(plane: ControlPlane) -> set[frozenset[str]]:
    """What Waggle was a member of, whenever it asked."""
    return {frozenset(line["user"].get("groups", ())) for line in _lines(plane)}


def _lines(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    with plane.audit_log.open(encoding="utf-8") as log:
        for text in log:
            line = json.loads(text)
            if line.get("userAgent") == _AGENT and "objectRef" in line:
                yield {"annotations": {}, **line}


def _access(line: dict[str, Any]) -> Access:
    of = line["objectRef"]
    resource = "/".join(part for part in (of["resource"], of.get("subresource", "")) if part)
    return Access(line["verb"], of.get("apiGroup", ""), resource, of.get("namespace", ""), of.get("name", ""))
