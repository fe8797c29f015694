"""The one error shape (errors.py) as FastAPI and Starlette need it: its model, its response, its handlers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from math import ceil

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from algorithm.suggest import near
from extender.web.errors import JSON, BadRequest, error_body

#: Paths that begin so are no verb of kube-scheduler that was mistyped.
_NO_VERBS = ("/v1/pool", "/v1/claim", "/v1/vpod")


class ErrorBody(BaseModel):
    """Why a request was not served."""

    error: str = Field(description="What is wrong and what was expected")
    field: str | None = Field(None, description="The field or parameter at fault, null if there is no single one")
    code: str = Field(description="One word for programs, of a closed set; metrics of claims have the same")
    retry_after: float | None = Field(
        None, description="Seconds after which another try makes sense, null if none does"
    )


def error_response(
    status: int,
    text: str,
    field: str | None = None,
    headers: dict[str, str] | None = None,
    *,
    code: str = "",
    retry_after: float | None = None,
) -> Response:
    """Return an answer in the one error shape. A 401 says how to authenticate, as RFC 9110 demands."""
    headers = dict(headers or {})
    if retry_after:
        headers["Retry-After"] = str(ceil(retry_after))
    elif after := headers.get("Retry-After"):
        retry_after = float(after)
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="waggle"'
    return Response(error_body(status, text, field, code, retry_after or None), status, headers, media_type=JSON)


def bad_request_response(error: BadRequest) -> Response:
    """Return the answer to a request that cannot be served."""
    return error_response(error.status, error.text, error.field, code=error.code, retry_after=error.retry_after)


def add_error_handlers(app: FastAPI, verbs: Iterable[str]) -> None:
    """Give every error of `app` the one shape. `verbs` are the paths that the answer to a POST to an unknown path
    lists."""
    posted = sorted(verbs)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text, headers = str(error.detail), dict(error.headers or {})
        if error.status_code == 404 and error.detail == "Not Found":
            text = _no_such_path(request, posted)
        elif error.status_code == 405:
            headers["Allow"] = _methods_at(request) or headers.get("Allow", "")
            text = f"{request.url.path} does not take {request.method}; it takes {headers['Allow']}"
        return error_response(error.status_code, text, headers=headers)

    async def on_bad_parameter(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][1:])
        text = _no_such_parameter(request, name) if first["type"] == "extra_forbidden" else first["msg"]
        return error_response(400, f"{name}: {text}", name)

    async def on_bad_request(_request: Request, error: Exception) -> Response:
        assert isinstance(error, BadRequest)
        return bad_request_response(error)

    async def on_failure(request: Request, error: Exception) -> Response:
        return error_response(500, f"{request.url.path} failed: {type(error).__name__}; the log says more")

    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_bad_parameter)
    app.add_exception_handler(BadRequest, on_bad_request)
    app.add_exception_handler(Exception, on_failure)


def _no_such_parameter(request: Request, name: str) -> str:
    described = request.app.openapi()["paths"].get(request.scope["route"].path_format, {})
    parameters = described.get(request.method.lower(), {}).get("parameters", ())
    known = [item["name"] for item in parameters if item["in"] == "query"]
    return f"there is no such parameter; there are: {', '.join(known) or 'none'}{near(name, known)}"


def _methods_at(request: Request) -> str:
    """Return the methods that this path takes, of all routes with it: each route knows only its own."""
    found: set[str] = set()
    for path, methods in request.app.openapi()["paths"].items():
        if compile_path(path)[0].match(request.scope["path"]):
            found.update(methods)
    return ", ".join(sorted(found)).upper()


def _no_such_path(request: Request, verbs: list[str]) -> str:
    path, described = request.url.path, request.app.openapi()["paths"].items()
    if request.method == "POST":
        others = sorted(known for known, methods in described if "post" in methods and known not in verbs)
        if verbs and not (others and path.startswith(_NO_VERBS)):
            return f"no verb {path}; kube-scheduler's verbs are: {', '.join(verbs)}"
        return f"nothing takes POST at {path}; try: {', '.join(_nearest(path, others))}"
    pages = sorted([*(known for known, methods in described if "get" in methods), "/openapi.json"])
    below = [page for page in pages if page.startswith(path)]
    return f"no page {path}; try: {', '.join(below or _nearest(path, pages))}"


def _nearest(path: str, known: list[str]) -> list[str]:
    return difflib.get_close_matches(path, known, n=5, cutoff=0.5) or known
