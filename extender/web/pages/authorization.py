"""Authorizes callers of the pages for people: asks the API server for their rights, if `inspect_authorization` says so.

No token, or an unknown one: 401. A token without the right: 403. No verdict from the API server: 503. So a page is
shown only to a caller that is allowed to see it. Verbs, probes and metrics are not reviewed; TLS asks their callers for
a client certificate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import Request
from starlette.exceptions import HTTPException

from extender.kube.client.access_review import MOST_AT_ONCE, Decision, Reviewer, Verdict
from extender.web.limits.pool import Pool
from extender.web.rights import STATUS, bearer_token

_NOBODY = Decision(Verdict.UNKNOWN, "there is nobody to ask for your rights")
_HOW = "docs/security.md says how to get access"


def guard(reviewer: Reviewer | None) -> Callable[[Request], Awaitable[None]]:
    """A dependency for routes. It has threads of its own, as it may wait for the API server."""
    pool = Pool("rights", MOST_AT_ONCE)

    async def check(request: Request) -> None:
        path = request.scope["path"]
        decision = await _decide(reviewer, pool, bearer_token(request), path)
        if decision.verdict is not Verdict.ALLOWED:
            status = STATUS[decision.verdict]
            raise HTTPException(status, f"{path}: {decision.text}; {_HOW}")

    return check


def may_get(reviewer: Reviewer | None, path: str) -> Callable[[Request], Awaitable[bool]]:
    """Whether the caller of a page may see another page, too: names that only that one shows are for nobody else."""
    pool = Pool("rights", MOST_AT_ONCE)

    async def check(request: Request) -> bool:
        return (await _decide(reviewer, pool, bearer_token(request), path)).verdict is Verdict.ALLOWED

    return check


async def everybody(_: Request) -> bool:
    """Nobody's rights are reviewed."""
    return True


async def _decide(reviewer: Reviewer | None, pool: Pool, token: str, path: str) -> Decision:
    return await pool.run((token, path), partial(reviewer.may_get, token, path)) if reviewer else _NOBODY
