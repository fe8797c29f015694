"""The answer to a request that cannot be served, in one shape:

    {"error": text, "field": name or null, "code": one word for programs, "retry_after": seconds or null}

kube-scheduler discards the body of every answer that is not 200, so its filter and bind verbs do not use this shape
(their answers have an Error field of their own). Everything else does, wherever the error comes from.
"""

from __future__ import annotations

from typing import Final

import msgspec

from extender.logs.printable import printable

JSON = "application/json"
#: Characters of an error text, and of the field that it names.
_LONGEST_TEXT: Final = 2048
_LONGEST_FIELD: Final = 512
#: The code of an error that has none of its own, by status: Kubernetes' word for it (metav1.StatusReason), if any.
_CODES: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    421: "MisdirectedRequest",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def code_of(status: int) -> str:
    """Return the code of an error with this status that has none of its own."""
    return _CODES.get(status) or ("BadRequest" if status < 500 else "InternalError")


class BadRequest(Exception):  # noqa: N818 - named as HTTP names it
    """The caller's request cannot be served. `field` is the path of the faulty field, as the caller would write it.

    Both may quote the request. They are cut, and control characters are escaped, as kube-scheduler writes them into its
    log and into Events. `code` is "" for the one that the status has; `retry_after` is in seconds.
    """

    def __init__(
        self,
        text: str,
        field: str | None = None,
        *,
        status: int = 400,
        code: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.text = printable(text, _LONGEST_TEXT)
        super().__init__(self.text)
        self.field = None if field is None else printable(field, _LONGEST_FIELD)
        self.status = status
        self.code = code or code_of(status)
        self.retry_after = retry_after


def error_body(status: int, text: str, field: str | None, code: str = "", retry_after: float | None = None) -> bytes:
    """Return the body in the one error shape."""
    return msgspec.json.encode(
        {"error": text, "field": field, "code": code or code_of(status), "retry_after": retry_after}
    )
