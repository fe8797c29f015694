"""/openapi: documents without a single schema. Clients take that for "cannot be checked here", and go on.

kubectl reads them before it applies or creates: without schemas it neither checks fields nor needs `--validate=false`,
and merges by the Go types that it has built in. `kubectl explain` has nothing to explain.
"""

from __future__ import annotations

from extender.embedded.apiserver.discovery import VERSION
from extender.embedded.apiserver.objects import encode

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def openapi(path: str, accept: str) -> tuple[bytes, str] | None:
    """The body at `path` and its media type; None if nothing is there."""
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    if path == "/openapi/v2":
        if _V2_PROTOBUF in accept:
            # No bytes at all are a protobuf message whose fields are all unset. Nothing parses a media type with @.
            return b"", _V2_PROTOBUF.replace("@", ".")
        return encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}), "application/json"
    if path == "/openapi/v3":
        return encode({"paths": {}}), "application/json"
    return None
