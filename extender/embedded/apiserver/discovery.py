"""What clients ask about the server itself: /version, /api, /apis and the resources of each group version."""

from __future__ import annotations

from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.resources import Resource, ResourceTable

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+embedded",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "python",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
#: In the order in which the real server has them.
_VERBS_OF_CUSTOM = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
_READ_AND_WRITE = ["get", "patch", "update"]
_BY_SUBRESOURCE = {"status": _READ_AND_WRITE, "scale": _READ_AND_WRITE}
#: The group and version of subresources that take a kind from elsewhere.
_ELSEWHERE = {"Eviction": ("policy", "v1"), "Scale": ("autoscaling", "v1")}


def discover(table: ResourceTable, path: str) -> Object | None:
    """The document at `path`, None if there is none."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return VERSION
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["apis"]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(table, name) for name in _groups(table)]}
    if parts[0] == "api" and len(parts) == 2:
        return _resources(table, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups(table):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(table, parts[1])}
    if parts[0] == "apis" and len(parts) == 3:
        return _resources(table, parts[1], parts[2])
    return None


def _groups(table: ResourceTable) -> list[str]:
    return sorted({row.group for row in table if row.group})


def _group(table: ResourceTable, name: str) -> Object:
    versions = [
        {"groupVersion": api_version, "version": api_version.rpartition("/")[2]}
        for api_version in dict.fromkeys(row.api_version for row in table if row.group == name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(table: ResourceTable, group: str, version: str) -> Object | None:
    rows = [row for row in table if (row.group, row.version) == (group, version)]
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].api_version,
        "resources": [entry for row in rows for entry in _entries(row)],
    }


def _entries(row: Resource) -> list[Object]:
    main = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": ["create"] if row.is_review else _VERBS_OF_CUSTOM if row.custom else _VERBS,
        **({"categories": list(_categories(row))} if _categories(row) else {}),
        **({"storageVersionHash": row.custom.storage_hash} if row.custom else {}),
        **({"shortNames": list(row.short_names)} if row.short_names else {}),
    }
    return [main, *(_subresource(row, name, kind) for name, kind in row.subresources.items())]


def _categories(row: Resource) -> tuple[str, ...]:
    if row.custom:
        return row.custom.categories
    return ("all",) if row.in_all else ()


def _subresource(row: Resource, name: str, kind: str) -> Object:
    group, version = _ELSEWHERE.get(kind, ("", ""))
    return {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": kind,
        "verbs": _BY_SUBRESOURCE.get(name, ["create"]),
        **({"group": group, "version": version} if group else {}),
    }
