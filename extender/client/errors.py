"""What goes wrong, as exceptions. Each has the `code` of the server's answer; docs/claims.md lists the codes.

WaggleError
    BadRequestError          400, 409, 413: the request can never be served as it is; `field` names the fault
    DeniedError              401, 403
    NotFoundError            404, 410: no such pool, no such claim
    ClaimTimeoutError        no pod became idle in time
    ServerUnavailableError   no server answered, or none could serve, for as long as was waited
    ClaimLostError           the claim has ended although it was to be kept
"""

from __future__ import annotations


class WaggleError(Exception):
    """`code`: the server's, or "" if no server said anything. `status`: of HTTP, 0 if there is none. `field`: the field
    of the request at fault. `retry_after`: seconds after which another try makes sense, if the server said so."""

    def __init__(
        self, text: str, *, code: str = "", status: int = 0, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.field = field
        self.retry_after = retry_after


class BadRequestError(WaggleError):
    """The request can never be served as it is."""


class DeniedError(WaggleError):
    """The server does not know the caller, or the caller may not do this."""


class NotFoundError(WaggleError):
    """There is no such pool or claim."""


class ClaimTimeoutError(WaggleError):
    """No pod became idle in time."""


class ServerUnavailableError(WaggleError):
    """No server answered, or none could serve, for as long as was waited. `uncertain`: the answer to a request was
    lost, so that it may have been carried out."""

    uncertain: bool = False


class ClaimLostError(WaggleError):
    """The claim has ended although it was to be kept: its pods may be somebody else's."""


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
    """Return the exception for an answer with this status."""
    kind = _KINDS.get(status, BadRequestError if 400 <= status < 500 else ServerUnavailableError)
    known = code or _NAMES.get(status, "BadRequest" if kind is BadRequestError else "Unavailable")
    return kind(text, code=known, status=status, field=field, retry_after=retry_after)
