"""What an exception says, for texts that are kept or shown. The exception may be of a plug-in: its text has any length,
and may fail to be made, as may the name of its type. Promises: nothing here raises, and a text has at most the wanted
number of characters, which can all be written as UTF-8.
"""

from __future__ import annotations

from typing import Any, Final

#: The name of a class as the class has it: a metaclass may answer anything for `kind.__name__`, or raise.
_NAME: Final[Any] = type.__dict__["__name__"]
#: Characters of how an engine failed, in a recording: a replay fails with the same text.
LONGEST_FAILURE: Final = 2000
#: Characters of a name.
_LONGEST_NAME: Final = 200


def said_by(error: BaseException, most: int) -> str:
    """Return the type and the text of the exception, cut after `most` characters."""
    try:
        text = plain(str(error), most)
    except BaseException:
        text = "(it has no text)"
    return f"{type_name(error)}: {text}"[:most]


def type_name(value: object) -> str:
    """Return the name of the value's class, without running code of the class."""
    return plain(_NAME.__get__(type(value)), _LONGEST_NAME)


def plain(text: str, most: int) -> str:
    """Return the text as a str of no other class, cut after `most` characters, without lone surrogates."""
    cut = str.__str__(str.__getitem__(text, slice(most)))
    return cut if cut.isascii() else cut.encode("utf-8", "backslashreplace").decode()[:most]
