"""Refuses large bodies that would be slow to decode, before they are decoded: decoding blocks all other requests.

How long a decoder takes depends on the content: a string of 31 MiB takes 15 ms, as many brackets take 300. Content that
slows the decoder down must be a good part of the body, so samples show it, in less than a millisecond. The samples are
at random places, so a caller cannot avoid them.
"""

from __future__ import annotations

from random import randrange
from typing import Final

from extender.web.errors import BadRequest

#: Number of samples of a body, and their bytes. A sample covers several values, because single bytes at regular
#: distances mislead if all values have the same length.
_SAMPLES: Final = 256
_SAMPLE: Final = 1024
#: Of Go's nodes and pods these are a sixth, of a text that is made to be slow nearly all.
_COSTLY: Final = b"[]{}:,\\ \t\r\n"
_MOST_COSTLY: Final = 1 / 3
#: Share of backslashes; JSON within JSON has some.
_MOST_ESCAPES: Final = 1 / 10


def refuse_costly(body: bytes, *, bytes_a_comma: int) -> None:
    """Raise BadRequest for a body with less than `bytes_a_comma` bytes between two commas, or full of characters that
    are slow to decode. `body` has 1 MiB or more."""
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
