"""The answer to a request that cannot be served: one shape, `{"error": text, "field": name or null}`.

kube-scheduler discards the body of every answer that is not 200, so its filter and bind verbs do not use this shape
(their answers have an Error field of their own). Everything else does, wherever the error comes from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from extender.logs.printable import printable

JSON = "application/json"
#: Characters of an error text, and of the field that it names.
_LONGEST_TEXT: Final = 2048
_LONGEST_FIELD: Final = 512


class ErrorBody(BaseModel):
    """Why a request was not served."""

    error: str = Field(description="What is wrong and what was expected")
    field: str | None = Field(None, description="The field or parameter at fault, null if there is no single one")


class BadRequest(Exception):  # noqa: N818 - named as HTTP names it
    """The caller's request cannot be served. `field` is the path of the faulty field, as the caller would write it.

    Both may quote the request. They are cut, and control characters are escaped, as kube-scheduler writes them into its
    log and into Events.
    """

    def __init__(self, text: str, field: str | None = None, *, status: int = 400) -> None:
        self.text = printable(text, _LONGEST_TEXT)
        super().__init__(self.text)
        self.field = None if field is None else printable(field, _LONGEST_FIELD)
        self.status = status


def error_response(status: int, text: str, field: str | None = None, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in the one error shape."""
    return Response(error_body(text, field), status, headers=headers, media_type=JSON)


def error_body(text: str, field: str | None) -> bytes:
    """Return the body in the one error shape."""
    return msgspec.json.encode({"error": text, "field": field})


def add_error_handlers(app: FastAPI, verbs: Iterable[str]) -> None:
    """Give every error of `app` the one shape. `verbs` are the paths that the answer to a POST to an unknown path
    lists."""
    posted = sorted(verbs)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = str(error.detail)
        if error.status_code == 404 and error.detail == "Not Found":
            text = _no_such_path(request, posted)
        elif error.status_code == 405:
            text = f"{request.url.path} does not take {request.method}; it takes {(error.headers or {}).get('Allow')}"
        return error_response(error.status_code, text, headers=dict(error.headers or {}))

    async def on_bad_parameter(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][1:])
        return error_response(400, f"{name}: {first['msg']}", name)

    async def on_bad_request(_request: Request, error: Exception) -> Response:
        assert isinstance(error, BadRequest)
        return error_response(error.status, error.text, error.field)

    async def on_failure(request: Request, error: Exception) -> Response:
        return error_response(500, f"{request.url.path} failed: {type(error).__name__}; the log says more")

    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_bad_parameter)
    app.add_exception_handler(BadRequest, on_bad_request)
    app.add_exception_handler(Exception, on_failure)


def _no_such_path(request: Request, verbs: list[str]) -> str:
    path = request.url.path
    if request.method == "POST":
        return f"no verb {path}; kube-scheduler's verbs are: {', '.join(verbs)}"
    pages = sorted(known for known, methods in request.app.openapi()["paths"].items() if "get" in methods)
    below = [page for page in pages if page.startswith(path)]
    near = below or difflib.get_close_matches(path, pages, n=5, cutoff=0.5) or pages
    return f"no page {path}; try: {', '.join(near)}"
