"""The exceptions of the client. Each has the `code` of the server's answer; docs/claims.md lists the codes.

WaggleError
    BadRequestError          400, 409, 413: the request is wrong, and a retry cannot help; `field` names the field
    DeniedError              401, 403
    NotFoundError            404, 410: no such pool, or no such claim
    ClaimTimeoutError        429, 504: no pod became idle in time
    ServerUnavailableError   no server answered, or none was ready, within the time-out
    ClaimLostError           the claim ended before the program released it
"""

from __future__ import annotations


class WaggleError(Exception):
    """`code`: the server's code, or the client's if no server answered. `status`: the HTTP status, 0 if there is none.
    `field`: the field of the request at fault. `retry_after`: seconds after which a retry can succeed, if known."""

    def __init__(
        self, text: str, *, code: str = "", status: int = 0, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.field = field
        self.retry_after = retry_after


class BadRequestError(WaggleError):
    """The request is wrong, and a retry cannot help."""


class DeniedError(WaggleError):
    """The caller is not authenticated, or has no right to do this."""


class NotFoundError(WaggleError):
    """There is no such pool or claim."""


class ClaimTimeoutError(WaggleError):
    """No pod became idle in time."""


class ServerUnavailableError(WaggleError):
    """No server answered, or none was ready, within the time-out. `uncertain`: the answer to a request was lost, so the
    request may have taken effect."""

    uncertain: bool = False


class ClaimLostError(WaggleError):
    """The claim ended before the program released it: its pods may have been deleted or claimed again."""


_KINDS: dict[int, type[WaggleError]] = {
    400: BadRequestError,
    401: DeniedError,
    403: DeniedError,
    404: NotFoundError,
    409: BadRequestError,
    410: NotFoundError,
    413: BadRequestError,
    422: BadRequestError,
    429: ClaimTimeoutError,
    499: WaggleError,
    504: ClaimTimeoutError,
}
#: For answers of what stands between client and server; the server's own have a code.
_NAMES = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "ClaimEnded", 503: "NotReady"}


def error_of(
    status: int, text: str, code: str = "", field: str | None = None, retry_after: float | None = None
) -> WaggleError:
    """Return the exception for an answer with this HTTP status."""
    kind = _KINDS.get(status, BadRequestError if 400 <= status < 500 else ServerUnavailableError)
    known = code or _NAMES.get(status, "BadRequest" if kind is BadRequestError else "Unavailable")
    return kind(text, code=known, status=status, field=field, retry_after=retry_after)
