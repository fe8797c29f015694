"""Quantities: the grammar of k8s.io/apimachinery/pkg/api/resource, corner by corner, and against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from algorithm.quantity import MAX_VALUE, QuantityError, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-1", -1),
        ("007", 7),
        ("5.", 5),
        (".5k", 500),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1.5Gi", 3 * 2**29),
        (".5Ki", 512),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("2.5e3", 2500),
        ("1e0", 1),
        ("3000m", 3),
        ("1000000u", 1),
        ("1000000000n", 1),
    ],
)
def test_a_quantity_counts_in_units(text: str, units: int) -> None:
    assert parse_quantity(text) == units


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [("100m", 100), ("0.1", 100), ("1", 1000), ("1.5", 1500), ("2k", 2_000_000), ("1e-3", 1), ("1Ki", 1_024_000)],
)
def test_cpu_counts_in_thousandths(text: str, thousandths: int) -> None:
    assert parse_quantity(text, milli=True) == thousandths


@pytest.mark.parametrize("text", ["0.1", "100m", "1u", "1n", "0.0000000001", "1e-999999999", ".0009Ki"])
def test_a_fraction_of_a_unit_is_rounded_up_to_one(text: str) -> None:
    assert parse_quantity(text) == 1


def test_a_fraction_of_a_thousandth_is_rounded_up_to_one() -> None:
    assert parse_quantity("1u", milli=True) == 1
    assert parse_quantity("1.0001", milli=True) == 1001


@pytest.mark.parametrize(("text", "units"), [("-0.1", -1), ("-1m", -1), ("-1.5", -2), ("-1500m", -2)])
def test_negative_quantities_are_rounded_away_from_zero(text: str, units: int) -> None:
    assert parse_quantity(text) == units


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775808", "10E", "1e19", "1e999999999", "9" * 128])
def test_quantities_beyond_63_bits_saturate(text: str) -> None:
    assert parse_quantity(text) == MAX_VALUE
    assert parse_quantity("-" + text[:127]) == -MAX_VALUE


def test_the_largest_value_is_exact() -> None:
    assert parse_quantity("9223372036854775807") == 2**63 - 1
    assert parse_quantity("9223372036854775806.1") == 2**63 - 1
    assert parse_quantity("9223372036854775806") == 2**63 - 2


def test_zero_stays_zero_whatever_its_exponent() -> None:
    assert parse_quantity("0e999999999") == 0
    assert parse_quantity("-0") == 0
    assert parse_quantity("0.000Ei") == 0


@pytest.mark.parametrize(
    ("number", "units"), [(4, 4), (-3, -3), (0.5, 1), (1e22, MAX_VALUE), (10**30, MAX_VALUE), (1e-7, 1)]
)
def test_json_numbers_are_accepted_as_the_api_server_accepts_them(number: float, units: int) -> None:
    assert parse_quantity(number) == units


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1 Ki",
        "+",
        "-",
        ".",
        "Ki",
        "m",
        "1e",
        "1e+",
        "1e1.5",
        "1e3Ki",
        "1EE",
        "1K",
        "1ki",
        "1KI",
        "1i",
        "1mi",
        "0.1am",
        "1.1.M",
        "1+1.0M",
        "--1",
        "+-1",
        "1,5",
        "1_000",
        "0x10",
        "inf",
        "NaN",
        "1e9999999999",
        "\u0661",
        "\u00bd",
        "1\n",
        "1\x00",
    ],
)
def test_what_is_outside_of_the_grammar_is_refused_with_the_text_quoted(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)
    assert "500m" in str(caught.value)


def test_an_endless_text_is_refused_and_not_quoted_in_full() -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity("1" * 10_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [True, None, [], {}, b"1", float("inf"), float("nan")])
def test_other_types_and_infinities_are_refused(value: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)  # type: ignore[arg-type]


SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", start=1)},
    **{f"{mark}{power:+d}": Fraction(10) ** power for mark in "eE" for power in (-30, -9, -1, 0, 2, 18, 40)},
}


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.from_regex(r"[0-9]{1,30}", fullmatch=True),
    decimals=st.from_regex(r"(\.[0-9]{0,40})?", fullmatch=True),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    milli=st.booleans(),
)
@example(sign="", whole="9007199254740993", decimals=".00000000000000000000000000000001", suffix="Ki", milli=True)
@example(sign="-", whole="123456789012345678901234567890", decimals=".5", suffix="e-30", milli=False)
def test_every_quantity_equals_its_exact_fraction_rounded_away_from_zero(
    sign: str, whole: str, decimals: str, suffix: str, milli: bool
) -> None:
    exact = Fraction(whole + (decimals if len(decimals) > 1 else "")) * SUFFIXES[suffix] * (1000 if milli else 1)
    rounded = min(-(-exact.numerator // exact.denominator), MAX_VALUE)
    assert parse_quantity(sign + whole + decimals + suffix, milli=milli) == (-rounded if sign == "-" else rounded)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=8))
def test_any_text_is_either_a_number_or_a_quantity_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert -MAX_VALUE <= value <= MAX_VALUE


@given(st.integers(min_value=-MAX_VALUE, max_value=MAX_VALUE), st.booleans())
@example(1610612736, False)
def test_a_formatted_quantity_reads_back_as_the_same_value(value: int, milli: bool) -> None:
    assert parse_quantity(format_quantity(value, milli=milli), milli=milli) == value


@pytest.mark.parametrize(
    ("value", "milli", "text"),
    [
        (999, True, "999m"),
        (2000, True, "2"),
        (0, True, "0"),
        (0, False, "0"),
        (8, False, "8"),
        (1000, False, "1000"),
        (1536 * 2**20, False, "1536Mi"),
        (2**40, False, "1Ti"),
    ],
)
def test_a_quantity_is_written_as_people_write_it(value: int, milli: bool, text: str) -> None:
    assert format_quantity(value, milli=milli) == text
