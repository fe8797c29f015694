"""Makes untrusted text safe for a terminal or a log: nothing in it moves the cursor, rings, or hides other text.

A pod's author, a caller or an API server may write any character into a name or a message. The terminal of the person
who reads the log would act on escape sequences in it; a line break would begin a line that we never wrote; a
bidirectional override shows other words than are there. Such characters are shown by their numbers instead.
"""

from __future__ import annotations


def printable(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""Return `text` with every character that is not printable replaced by its escape, such as `\x1b`.

    Not printable: controls (C0, DEL, C1), formats (bidirectional overrides, zero-width characters), separators of lines
    and paragraphs, spaces other than the usual one, surrogates, unassigned characters. `keep`: characters of these
    kinds that stay. `limit`: how many characters of a longer text are shown; its full length is then appended. The time
    depends on what is shown, not on the length of `text`.
    """
    shown = text if limit is None else text[:limit]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() or each in keep else _escape(each) for each in shown)
    if limit is None or len(text) <= limit >= len(shown):
        return shown
    return f"{shown[:limit]}... ({len(text)} characters)"


def _escape(character: str) -> str:
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character) or _by_number(ord(character))


def _by_number(number: int) -> str:
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
