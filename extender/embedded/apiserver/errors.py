"""Every way in which a request can fail, as the Kubernetes API says it: an HTTP status and a `Status` body.

Functions here build ApiError with the real server's reason, details and wording (k8s.io/apimachinery/pkg/api/errors),
because clients decide by `reason` and people search for the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from extender.embedded.apiserver.resources import Resource


class ApiError(Exception):
    """A refused request. `code` is the HTTP status, `body` the Status object that the client gets."""

    def __init__(self, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
        }
        if details is not None:
            self.body["details"] = details
        self.body["code"] = code


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field at fault: its path, the kind of fault (FieldValueRequired, ...) and the text after the path."""

    path: str
    reason: str
    text: str

    @property
    def message(self) -> str:
        return f"{self.path}: {self.text}"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {_quote(value)}: {detail}")


def duplicate(path: str, value: object) -> FieldError:
    return FieldError(path, "FieldValueDuplicate", f"Duplicate value: {_quote(value)}")


def unsupported_value(path: str, value: object, supported: Sequence[str]) -> FieldError:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return FieldError(
        path, "FieldValueNotSupported", f"Unsupported value: {_quote(value)}: supported values: {choices}"
    )


def forbidden_field(path: str, detail: str) -> FieldError:
    return FieldError(path, "FieldValueForbidden", f"Forbidden: {detail}")


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{_qualified(resource)} "{name}" not found', details=_details(resource, name))


def unknown_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{_qualified(resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> ApiError:
    """409 Conflict. `subresource` appears as the real server shows it, e.g. `pods/binding`."""
    kind = resource.plural + (f"/{subresource}" if subresource else "")
    details = {"name": name, **({"group": resource.group} if resource.group else {}), "kind": kind}
    shown = f"{kind}.{resource.group}" if resource.group else kind
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {shown} "{name}": {why}', details=details)


def modified(resource: Resource, name: str) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(
    resource: Resource, name: str, faults: Sequence[FieldError], *, kind: str = "", group: str = ""
) -> ApiError:
    """422: the object can be read but must not be stored. Names every field at fault."""
    return _invalid(kind or resource.kind, group or resource.group, name, faults)


def options_invalid(kind: str, fault: FieldError) -> ApiError:
    """422: a query parameter (of ListOptions, PatchOptions) must not be like this."""
    return _invalid(kind, "meta.k8s.io", "", [fault])


def _invalid(kind: str, group: str, name: str, faults: Sequence[FieldError]) -> ApiError:
    texts = [fault.message for fault in faults]
    shown = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details = {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": kind,
        "causes": [{"reason": f.reason, "message": f.text, "field": f.path} for f in faults],
    }
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {shown}', details=details)


def manager_required() -> ApiError:
    """422: server-side apply without the name of who applies."""
    return options_invalid("PatchOptions", required("fieldManager", "is required for apply patch"))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    message = f'{_qualified(resource)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details=_details(resource, name))


def denied_by_policy(resource: Resource, name: str, why: str) -> ApiError:
    """422, although it says forbidden: what a ValidatingAdmissionPolicy refuses."""
    message = f'{_qualified(resource)} "{name}" is forbidden: {why}'
    return ApiError(422, "Invalid", message, details={**_details(resource, name), "causes": [{"message": why}]})


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_old(asked: int, floor: int) -> ApiError:
    return expired(f"too old resource version: {asked} ({floor})")


def too_large(asked: int, current: int) -> ApiError:
    """A resourceVersion from the future: this server was restarted, or the client mixes up two servers."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details=details)


def method_not_allowed(
    message: str = "the server does not allow this method on the requested resource",
) -> ApiError:
    return ApiError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return ApiError(415, "UnsupportedMediaType", message, details={})


def body_too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_many_requests(message: str, *, causes: list[dict[str, str]]) -> ApiError:
    return ApiError(429, "TooManyRequests", message, details={"causes": causes})


def unprocessable(message: str) -> ApiError:
    """A patch that cannot be applied to this object (a failed `test`, a path that is not there)."""
    return ApiError(422, "Invalid", message, details={})


def _quote(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}
