"""Takes JSON apart one level at a time if it is nested too deeply for the decoder, so that only the deep object is
lost.

The decoder refuses the whole document if one object in it is nested some hundred levels deep (and without that limit
this process's stack would overflow). The functions here do not recurse. They are slow and do not check all that they
skip: they see only what the decoder refused for its depth, and every part goes through the decoder again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

# A string that does not end is a token, too: if it were searched for again from each of its quotes, the search would
# take the square of its length, and it does not release the GIL. Possessive, so that no state is kept for each escape.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_MEMBER = re.compile(rb'\s*("(?:[^"\\]++|\\.)*+")\s*:(.*)', re.DOTALL)


def elements(array: bytes) -> list[msgspec.Raw]:
    """The elements of an array. Raises msgspec.DecodeError for anything else."""
    return [msgspec.Raw(part) for part in _parts(array, b"[")]


def members(obj: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object by name. Raises msgspec.DecodeError for anything else."""
    found = {}
    for part in _parts(obj, b"{"):
        member = _MEMBER.fullmatch(part)
        if member is None:
            raise msgspec.DecodeError(f"expected a member of an object, got {part[:40]!r}")
        found[msgspec.json.decode(member[1], type=str)] = msgspec.Raw(member[2].strip())
    return found


def _parts(text: bytes, opening: bytes) -> Iterator[bytes]:
    """The text between the commas of the outermost brackets."""
    if not text.lstrip().startswith(opening):
        raise msgspec.DecodeError(f"expected {opening.decode()}, got {text[:40]!r}")
    depth = begin = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif sign in (b"}", b"]"):
            depth -= 1
        if depth == 0 or (depth == 1 and sign == b","):
            if text[begin : token.start()].strip():
                yield text[begin : token.start()]
            begin = token.end()
        if depth == 0:
            return
    raise msgspec.DecodeError("it does not end")
