"""Refuses large bodies that are long to decode, before they are decoded: nothing else is answered meanwhile.

How long a decoder takes depends on what a body holds: a string of 31 MiB takes 15 ms, as many brackets take 300. What
takes long must be a good part of the body, so samples show it, in less than a millisecond. Nobody knows where they are.
"""

from __future__ import annotations

from random import randrange
from typing import Final

from extender.web.errors import BadRequest

#: Parts of a body that are looked at, and their bytes: some whole values, because single bytes at regular distances
#: mislead where all values have the same length.
_SAMPLES: Final = 256
_SAMPLE: Final = 1024
#: Of Go's nodes and pods these are a sixth, of a text that is made to be long to decode nearly all.
_COSTLY: Final = b"[]{}:,\\ \t\r\n"
_MOST_COSTLY: Final = 1 / 3
#: Share of backslashes: texts in JSON within JSON have some.
_MOST_ESCAPES: Final = 1 / 10


def refuse_costly(body: bytes, *, bytes_a_comma: int) -> None:
    """Raises BadRequest for a body with less than `bytes_a_comma` bytes between two commas, or full of what is long to
    decode. `body` has 1 MiB or more."""
    step = len(body) // _SAMPLES
    starts = (start + randrange(step - _SAMPLE + 1) for start in range(0, len(body) - step + 1, step))  # noqa: S311
    sample = b"".join([body[start : start + _SAMPLE] for start in starts])
    if sample.count(b",") > len(sample) // bytes_a_comma:
        what = f"with less than {bytes_a_comma} bytes between two commas"
    elif len(sample) - len(sample.translate(None, _COSTLY)) > len(sample) * _MOST_COSTLY:
        what = "of which more than a third are brackets, spaces and colons"
    elif sample.count(b"\\") > len(sample) * _MOST_ESCAPES:
        what = "of which more than a tenth are backslashes"
    else:
        return
    raise BadRequest(f"body: of more than 1 MiB, {what}; expected what kube-scheduler sends", "body")
