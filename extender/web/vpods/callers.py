"""Authorizes callers that look at sets of vpods.

    server.inspect_authorization: none          every caller that reaches this port
    server.inspect_authorization: kubernetes    the token's user must have a verb on vpodsets.waggle.dev in the
                                                namespace of the set: `list` for lists, `get` for everything else

A dry run changes nothing, so it needs the right to look, and no other.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from extender.kube.client.access_review import MOST_AT_ONCE, Access, Reviewer, Verdict
from extender.web.errors import BadRequest
from extender.web.limits.pool import Pool
from extender.web.rights import STATUS, bearer_token

_GROUP, _RESOURCE = "waggle.dev", "vpodsets"


class VPodCallers:
    """Authorizes every call. Without a `reviewer`, authorization `kubernetes` refuses all calls."""

    def __init__(self, reviewer: Reviewer | None, *, reviews: bool) -> None:
        self._reviewer = reviewer
        self._reviews = reviews
        self._pool = Pool("vpod-rights", MOST_AT_ONCE)

    async def check(self, request: Request, namespace: str, verb: str = "get") -> None:
        """Raise BadRequest with status 401, 403 or 503 unless the caller may see sets of a namespace; "": of all."""
        if not self._reviews:
            return
        access = await self._review(bearer_token(request), namespace, verb)
        if access.verdict is not Verdict.ALLOWED:
            text = access.text
            if access.verdict is Verdict.FORBIDDEN and not namespace:
                text = (
                    f"{access.user} may not {verb} {_RESOURCE}.{_GROUP} in all namespaces; ?namespace=NAME asks for one"
                )
            raise BadRequest(text, status=STATUS[access.verdict])

    async def _review(self, token: str, namespace: str, verb: str) -> Access:
        reviewer = self._reviewer
        if reviewer is None:
            text = "server.inspect_authorization: this server cannot ask the API server for reviews"
            return Access(Verdict.UNKNOWN, text)
        if (known := reviewer.known(token, verb, _GROUP, _RESOURCE, namespace)) is not None:
            return known
        found: Access = await self._pool.run(
            (token, namespace, verb), partial(reviewer.may, token, verb, _GROUP, _RESOURCE, namespace)
        )
        return found
