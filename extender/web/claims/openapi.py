"""What /openapi.json says about claims beyond what FastAPI finds out: statuses with their codes, headers, bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from extender.claims.codes import ClaimCode
from extender.web.claims.bodies import ClaimBody
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON, code_of

_Spec = dict[str, Any]
_Responses = dict[int | str, _Spec]

#: How a request for pods can end, beside 201.
CLAIMING = frozenset(ClaimCode) - {
    ClaimCode.CLAIMED,
    *(ClaimCode.RELEASED, ClaimCode.RENEWED, ClaimCode.UNKNOWN_CLAIM, ClaimCode.NOT_YOURS, ClaimCode.CLAIM_ENDED),
}
#: How a call about a claim that exists can end, beside 200.
HOLDING = frozenset(
    {
        *(ClaimCode.UNKNOWN_CLAIM, ClaimCode.NOT_YOURS, ClaimCode.CLAIM_ENDED),
        *(ClaimCode.WRITE_REFUSED, ClaimCode.WRITE_UNKNOWN, ClaimCode.NOT_READY),
    }
)
#: What every call may be answered with, with the code of the status.
_USUAL = {
    400: "a field or a parameter that cannot be served; `field` names it",
    401: "no known token (`claims.authorization: kubernetes`)",
    403: "no right to do this",
    500: "a bug; the log says more",
    503: "the server is not ready, or cannot ask for rights",
}
_LARGE = {413: "the body is larger than 512 KiB"}
_RETRY_AFTER = {"description": "Seconds after which another try makes sense", "schema": {"type": "integer"}}
_LOCATION = {"description": "The claim's address, /v1/claims/ID", "schema": {"type": "string"}}

PREFER: _Spec = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`respond-async`: answer 202 at once if the request has to wait. `respond-async, wait=5`: after so "
    "many seconds.",
    "schema": {"type": "string"},
}
CREATED: _Responses = {
    201: {"headers": {"Location": _LOCATION}},
    202: {
        "model": ClaimBody,
        "description": "It waits (`Prefer: respond-async`): `position` and `estimate_seconds` say how long",
        "headers": {"Location": _LOCATION},
    },
}


def refusals(codes: Iterable[ClaimCode] = (), *, has_body: bool = False) -> _Responses:
    """The statuses of a call that is not served, each with its codes."""
    texts = _USUAL | (_LARGE if has_body else {})
    named: dict[int, list[str]] = {}
    for code in sorted(codes):
        named.setdefault(code.status, []).append(f"`{code.value}`")
    return {
        status: {
            "model": ErrorBody,
            "description": "; ".join([*named.get(status, ()), *_usual(status, texts)]),
            **({"headers": {"Retry-After": _RETRY_AFTER}} if status in (429, 503) else {}),
        }
        for status in sorted({*named, *texts})
    }


def _usual(status: int, texts: Mapping[int, str]) -> list[str]:
    return [f"`{code_of(status)}`: {texts[status]}"] if status in texts else []


def takes(model: type[BaseModel]) -> _Spec:
    """The body of a call: the handlers read it themselves, so FastAPI does not know it."""
    whole = model.model_json_schema()
    schema = _inlined(whole, whole.pop("$defs", {}))
    return {"requestBody": {"content": {JSON: {"schema": schema}}}}


def _inlined(schema: Any, parts: _Spec) -> Any:
    """The schema with its parts in their places: a reference to $defs leads nowhere in the whole document."""
    if isinstance(schema, list):
        return [_inlined(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    part = parts[schema.pop("$ref").rpartition("/")[2]] if "$ref" in schema else {}
    return {name: _inlined(value, parts) for name, value in (part | schema).items()}
