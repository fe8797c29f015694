"""Takes the names of an offer as they are in the request, without making a text of each.

    {"Pod":{...},"Nodes":null,"NodeNames":["a","b"]}
    |------------- head -----|            |- listed -|

Most calls of filter end with one of 5,000 names. To decode all of them takes as long as everything else that a call
does. So they are only checked here, in three passes in C, and searched for as bytes; they are decoded when somebody
wants to see them all. An offer in any other form (escapes, blanks, another order of the fields) is None here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from algorithm.interface import SuggestedNodes

#: Bytes of a body from which on it is worth while.
SHORT: Final = 2 * 1024
_BEGINS: Final = b',"NodeNames":['
#: All that a name of a Kubernetes object consists of.
_OF_NAMES: Final = b"abcdefghijklmnopqrstuvwxyz0123456789-."
_names = msgspec.json.Decoder(list[str])


class PlainNames(NamedTuple):
    """The body without its names, which is a JSON object if the whole body is one, and the names.

    A name may be longer than any that exists, and is then as unknown as others that do not exist.
    """

    head: bytes
    names: SuggestedNodes


def plain_names(body: bytes) -> PlainNames | None:
    """The parts of a body of filter that ends with plain names; None if it has another form, or may have errors.

    Within a text these bytes cannot stand without escapes. So, if the head is an object, the names are its last field.
    """
    begins = body.find(_BEGINS)
    if begins < 0 or not body.endswith(b'"]}'):
        return None
    listed = body[begins + len(_BEGINS) - 1 : -1]
    marks = listed.translate(None, _OF_NAMES)
    count = len(marks) // 3
    if marks != b"[%s]" % (b'"",' * count)[:-1] or _has_empty(listed):
        return None
    return PlainNames(body[:begins] + b"}", _offered(listed, count))


def _has_empty(listed: bytes) -> bool:
    """Whether one of the names is empty. Bytes are searched backwards here, because that is several times as fast:
    forwards CPython prepares for the worst."""
    return listed.rfind(b',"",') >= 0 or listed.startswith((b'["",', b'[""]')) or listed.endswith(b',""]')


def _offered(listed: bytes, count: int) -> SuggestedNodes:
    def search(name: object) -> bool:
        # A text with quotes in it, and a comma alone, would be found across the ends of two names.
        if not isinstance(name, str) or '"' in name or name == ",":
            return False
        return listed.rfind(b'"%s"' % name.encode(errors="replace")) >= 0

    def read() -> Iterable[str]:
        return _names.decode(listed)

    return SuggestedNodes.unread(count, search, read, listed)
