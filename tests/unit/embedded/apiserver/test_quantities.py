from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.quantity import QuantityError, parse_quantity
from extender.embedded.apiserver.quantities import canonical

_WHOLE, _FRACTIONS = st.integers(-(10**9), 10**9).map(str), st.integers(0, 9999).map(lambda digits: f".{digits}")
_NUMBERS = st.builds("".join, st.tuples(_WHOLE, st.sampled_from(["", "."]) | _FRACTIONS)) | _FRACTIONS
_SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "e3", "E2", "e-2"])


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        (1, "1"),
        (0, "0"),
        (0.5, "500m"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1500", "1500"),
        ("10000", "10k"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12E2", "1200"),
        ("1Ei", "1Ei"),
        ("-1", "-1"),
        ("0.1n", "1n"),
        ("110", "110"),
    ],
)
def test_quantities_are_stored_in_the_form_that_kubernetes_writes(given_text: str | float, stored: str) -> None:
    assert canonical(given_text) == stored


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1GiB", "0x10", True, None, "1e", "Ki"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(QuantityError):
        canonical(text)  # type: ignore[arg-type]


@given(_NUMBERS, _SUFFIXES)
def test_the_canonical_form_has_the_same_value_and_is_its_own_canonical_form(number: str, suffix: str) -> None:
    stored = canonical(number + suffix)
    assert canonical(stored) == stored
    for milli in (False, True):
        if not suffix.endswith("i"):  # a fraction of a byte in a binary quantity is rounded up
            assert parse_quantity(stored, milli=milli) == parse_quantity(number + suffix, milli=milli)
