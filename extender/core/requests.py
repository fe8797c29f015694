"""Requests to the API server as plain data, and the paths of its resources. Pure.

/api/v1/namespaces/NAMESPACE/pods/NAME/binding              the core group
/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME      every other group, custom resources included
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

KIB, MIB = 1024, 1024 * 1024

#: Bytes of an object: a response to a read or a write, one line of a watch, an item of a list. etcd accepts 1.5 MiB.
OBJECT = 4 * MIB
#: Bytes of a response that has no object of a user in it: a Status, an Event, a Lease.
SMALL_OBJECT = 256 * KIB

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Request(msgspec.Struct, frozen=True):
    """A request to the API server. `most`: bytes of the response's body that are read."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = JSON
    most: int = OBJECT


def collection_path(resource: str, *, group: str = "", version: str = "v1", namespace: str = "") -> str:
    """Return the path of a collection. `group` "" is the core group; `namespace` "": cluster-wide."""
    root = f"/apis/{_quoted(group)}" if group else "/api"
    within = f"/namespaces/{_quoted(namespace)}" if namespace else ""
    return f"{root}/{_quoted(version)}{within}/{_quoted(resource)}"


def _quoted(name: str) -> str:
    """The name as a segment of a path. Nearly all are plain, and quoting them takes longer than to see that."""
    is_plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
    return name if is_plain else quote(name, safe="")


def object_path(collection: str, name: str, subresource: str = "") -> str:
    """Return the path of one object of a collection, or of its subresource. No name can leave the collection."""
    path = f"{collection}/{_quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of its subresource."""
    return object_path(f"/api/v1/namespaces/{_quoted(namespace)}/pods", name, subresource)


def post_request(path: str, body: Mapping[str, Any]) -> Request:
    """Return a POST whose response is small: a Status, or the small object that was sent."""
    return Request("POST", path, body=msgspec.json.encode(body), most=SMALL_OBJECT)


def patch_request(path: str, body: Mapping[str, Any]) -> Request:
    """Return a PATCH that merges `body` into the object; null removes a field."""
    return Request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH)


def annotation_request(path: str, uid: str, name: str, value: str | None) -> Request:
    """Return a PATCH of one annotation; None removes it. The UID is a precondition (409: another object has the name);
    "" is none."""
    metadata: dict[str, Any] = {"annotations": {name: value}}
    if uid:
        metadata["uid"] = uid
    return patch_request(path, {"metadata": metadata})
