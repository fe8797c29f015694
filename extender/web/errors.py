"""The answer to a request that cannot be served: one shape, `{"error": text, "field": name or null}`.

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


class BadRequest(Exception):  # noqa: N818 - named as HTTP names it
    """The caller's request cannot be served. `field` is the path of the faulty field, as the caller would write it.

    Both may quote the request. They are cut, and control characters are escaped, as kube-scheduler writes them into its
    log and into Events.
    """

    def __init__(self, text: str, field: str | None = None, *, status: int = 400) -> None:
        self.text = printable(text, _LONGEST_TEXT)
        super().__init__(self.text)
        self.field = None if field is None else printable(field, _LONGEST_FIELD)
        self.status = status


def error_body(text: str, field: str | None) -> bytes:
    """Return the body in the one error shape."""
    return msgspec.json.encode({"error": text, "field": field})
