"""Kubernetes quantities as integers: the whole grammar, rounded the way kube-scheduler rounds.

    quantity  = number [suffix]
    number    = [+-] (digits | digits.digits | digits. | .digits)
    suffix    = n u m "" k M G T P E | Ki Mi Gi Ti Pi Ei | e/E signed integer

A quantity is exact (any size, any number of decimals); a scheduler counts in integers. cpu is counted in
thousandths of a core and everything else in units (bytes, devices, pods), both rounded *away from zero*, as
`MilliValue()` and `Value()` of k8s.io/apimachinery/pkg/api/resource do. What those leave undefined, a result
beyond 2^63-1, saturates here.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: The largest value that a Kubernetes component can hold; larger quantities are cut to it.
MAX_VALUE = 2**63 - 1

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<decimals>[0-9]*))?|\.(?P<only_decimals>[0-9]+))"
    r"(?P<suffix>[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,9})",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
#: Longest text that is read; the API server stores canonical forms, which are far shorter.
_MAX_LENGTH = 128
#: With numbers of that length, an exponent outside of this can only mean 0, "rounds to one" or "saturates".
_FAR = _MAX_LENGTH + 20


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message quotes it and says what was expected."""


def parse_quantity(text: str | int | float, *, milli: bool = False) -> int:
    """The value of a quantity as an integer, rounded away from zero.

    `text` is a value of a Kubernetes object: normally a string, but JSON numbers are accepted as the API
    server accepts them. With `milli` the unit is a thousandth (cpu), otherwise one.

    Raises QuantityError for anything outside the grammar.
    """
    if isinstance(text, str):
        return _parse(text, milli)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise QuantityError(f"quantity must be a string like 500m or 2Gi, not {type(text).__name__}")
    return _parse(repr(text), milli)


@lru_cache(maxsize=8192)
def _parse(text: str, milli: bool) -> int:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise QuantityError(f"quantity {shown!r} must be a number with an optional suffix, like 500m, 2, 1.5 or 2Gi")
    decimals = match["decimals"] or match["only_decimals"] or ""
    digits = int((match["whole"] or "") + decimals)
    suffix = match["suffix"]
    if suffix in _BINARY:
        digits <<= _BINARY[suffix]
        exponent = 0
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    value = _scaled(digits, max(-_FAR, min(_FAR, exponent)) - len(decimals) + (3 if milli else 0))
    return -value if match["sign"] == "-" else value


def _scaled(digits: int, exponent: int) -> int:
    """digits * 10^exponent, rounded up and saturated; digits are not negative."""
    value: int = digits * 10**exponent if exponent >= 0 else -(-digits // 10**-exponent)
    return min(MAX_VALUE, value)


def format_quantity(value: int, *, milli: bool = False) -> str:
    """The shortest exact text of a count: 999m, 2, 1536Mi. `parse_quantity` of it gives the value again.

    Thousandths (`milli`) are written as cores where they are whole; other counts take a binary suffix where nothing
    is lost by it, as `kubectl describe node` shows memory.
    """
    if milli:
        return f"{value}m" if value % 1000 else str(value // 1000)
    for suffix, power in reversed(_BINARY.items()):
        if value and value % (1 << power) == 0:
            return f"{value >> power}{suffix}"
    return str(value)
