"""Authorizes callers that ask for plans.

    server.inspect_authorization: none          every caller that reaches this port
    server.inspect_authorization: kubernetes    the token's user must have the right to `post` the non-resource URL
                                                /v1/plan

The right to look at pages does not include it: a plan costs a second of CPU time, and more. A plan names pods of all
namespaces.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from extender.kube.client.access_review import MOST_AT_ONCE, Decision, Reviewer, Verdict
from extender.web.errors import BadRequest
from extender.web.limits.pool import Pool
from extender.web.rights import STATUS, bearer_token

PATH = "/v1/plan"
_VERB = "post"


class PlanCallers:
    """Authorizes every call. Without a `reviewer`, authorization `kubernetes` refuses all calls."""

    def __init__(self, reviewer: Reviewer | None, *, reviews: bool) -> None:
        self._reviewer = reviewer
        self._reviews = reviews
        self._pool = Pool("plan-rights", MOST_AT_ONCE)

    async def check(self, request: Request) -> None:
        """Raise BadRequest with status 401, 403 or 503 unless the caller may ask for plans."""
        if not self._reviews:
            return
        decision = await self._review(bearer_token(request))
        if decision.verdict is not Verdict.ALLOWED:
            text = f"{PATH}: {decision.text}; docs/security.md says how to get access"
            raise BadRequest(text, status=STATUS[decision.verdict])

    async def _review(self, token: str) -> Decision:
        reviewer = self._reviewer
        if reviewer is None:
            text = "server.inspect_authorization: this server cannot ask the API server for reviews"
            return Decision(Verdict.UNKNOWN, text)
        found: Decision = await self._pool.run(token, partial(reviewer.may_use, token, _VERB, PATH))
        return found
