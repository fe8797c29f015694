"""What an exception says, for texts that are kept or shown. The exception may be of a plug-in: its text has any length,
and may fail to be made. Promises: it never raises, and returns at most the wanted number of characters.
"""

from __future__ import annotations


def said_by(error: BaseException, most: int) -> str:
    """Return the type and the text of the exception, cut after `most` characters."""
    try:
        text = str(error)
    except BaseException:
        text = "(it has no text)"
    return f"{type(error).__name__}: {text}"[:most]
