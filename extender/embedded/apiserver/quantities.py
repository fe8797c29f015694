"""Quantities in the one form in which Kubernetes stores them: `cpu: 1` -> "1", "1024Mi" -> "1Gi", "0.5" -> "500m".

Typed clients refuse a whole list for one quantity that is a number, and people compare by eye: so every quantity is
rewritten when it is stored. The form is that of `Quantity.CanonicalizeBytes` (k8s.io/apimachinery/pkg/api/resource):
no fraction, the largest suffix that leaves an integer, the suffix family (binary, decimal, exponent) kept.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from algorithm.quantity import QuantityError, parse_quantity

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_NANO = Decimal("1e-9")


def canonical(value: str | float) -> str:
    """The stored form of a quantity. Raises algorithm.quantity.QuantityError if it is none."""
    parse_quantity(value)
    return _canonical(value if isinstance(value, str) else repr(value))


def stored_amount(value: str | float) -> str:
    """The stored form of an amount of a resource: canonical, nothing finer than a thousandth. Raises QuantityError."""
    text = canonical(value)
    if text[-1] in "nu":
        thousandths = (value_of(text) * 1000).to_integral_value(ROUND_CEILING)
        return canonical(f"{thousandths}m")
    return text


def value_of(text: str) -> Decimal:
    """The exact value of a quantity that has the right form."""
    return _split(text)[0]


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    value, family = _split(text)
    if family == "binary" and abs(value) >= 1024:
        return _binary(int(value.to_integral_value(ROUND_CEILING if value > 0 else ROUND_FLOOR)))
    return _decimal(value, exponent=family == "exponent")


def _split(text: str) -> tuple[Decimal, str]:
    if text.endswith("i"):
        return Decimal(text[:-2]) * 1024 ** _BINARY.index(text[-2:]), "binary"
    suffix = text[-1]
    for power, name in _DECIMAL.items():
        if name == suffix:
            return Decimal(text[:-1]).scaleb(power), "decimal"
    return Decimal(text), "exponent" if "e" in text.lower() else "decimal"


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY[power]}"


def _decimal(value: Decimal, *, exponent: bool) -> str:
    # Finer than a billionth is rounded away from zero: a request for something must not become nothing.
    units = int((value / _NANO).to_integral_value(ROUND_CEILING if value > 0 else ROUND_FLOOR))
    if units == 0:
        return "0"
    power = -9
    while units % 1000 == 0 and (exponent or power < 18):
        units //= 1000
        power += 3
    if exponent and power:
        return f"{units}e{power}"
    return f"{units}{_DECIMAL[power] if not exponent else ''}"


__all__ = ["QuantityError", "canonical", "stored_amount", "value_of"]
