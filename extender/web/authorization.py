"""Who may look: the pages for people ask the API server for the caller's rights, if `inspect_authorization` says so.

No token, or one that nobody knows: 401. A token of somebody who may not: 403. The API server does not say: 503. So an
answer is given only after a yes. Verbs, probes and metrics are not asked about: TLS asks their callers for a client
certificate.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request
from starlette.exceptions import HTTPException

from extender.kube.reviews import Decision, Reviewer, Verdict

_STATUS = {Verdict.UNAUTHENTICATED: 401, Verdict.FORBIDDEN: 403, Verdict.UNKNOWN: 503}
_NOBODY = Decision(Verdict.UNKNOWN, "there is nobody to ask for your rights")
_HOW = "docs/security.md says how to get access"


def guard(reviewer: Reviewer | None) -> Callable[[Request], None]:
    """A dependency of routes. It runs in the thread pool, as it may wait for the API server."""

    def check(request: Request) -> None:
        path = request.scope["path"]
        decision = reviewer.may_get(_token(request), path) if reviewer else _NOBODY
        if decision.verdict is not Verdict.ALLOWED:
            status = _STATUS[decision.verdict]
            challenge = {"WWW-Authenticate": 'Bearer realm="waggle"'} if status == 401 else None
            raise HTTPException(status, f"{path}: {decision.text}; {_HOW}", challenge)

    return check


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
