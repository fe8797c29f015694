"""E2B's errors: `{"code": status, "message": text}`, with the statuses that its clients expect.

There is no 429, because E2B's clients treat it as a limit of their account. A full queue is 503 instead.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from extender.claims.codes import ClaimCode
from extender.claims.events import Answered
from extender.web.claims.bodies import error_of
from extender.web.errors import JSON, BadRequest

_STATUS = {403: 401, 409: 400, 410: 404, 413: 400, 429: 503, 502: 500}
#: E2B's clients take 404 for an unknown sandbox, so an unknown template is 400.
_OF_CODE = {ClaimCode.UNKNOWN_POOL: 400, ClaimCode.NOT_YOURS: 404}


def error(status: int, text: str, retry_after: float = 0.0) -> Response:
    """Return an error in E2B's form. `retry_after`: seconds."""
    headers = {"Retry-After": str(max(1, round(retry_after)))} if retry_after else None
    body = msgspec.json.encode({"code": status, "message": text})
    return Response(body, status, headers, media_type=JSON)


def refusal(answer: Answered) -> Response:
    """Return E2B's form of an answer of the engine that is not a success."""
    said = error_of(answer)
    code = answer.code
    status = _OF_CODE.get(code, _STATUS.get(code.status, code.status))
    after = answer.retry_after or (1.0 if status == 503 else 0.0)
    return error(status, f"{said.error} ({code.value})", after)


def bad_request(problem: BadRequest) -> Response:
    return error(_STATUS.get(problem.status, problem.status), problem.text)
