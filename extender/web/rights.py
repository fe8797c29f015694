"""Whose rights are reviewed, and what the answer is if they do not suffice: for pages and for claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from extender.kube.client.access_review import Verdict

#: The status of an answer to a caller without the right.
STATUS: Final[Mapping[Verdict, int]] = {
    Verdict.UNAUTHENTICATED: 401,
    Verdict.FORBIDDEN: 403,
    Verdict.UNKNOWN: 503,
}


def bearer_token(request: Request) -> str:
    """Return the bearer token of a request; "" if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
