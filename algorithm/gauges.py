"""Numbers that an algorithm shows to Prometheus: plain records that do not depend on Prometheus, and their rules.

A gauge is a current number that goes up and down. Prometheus derives rates and histories from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}", re.ASCII)
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)
#: A name with such an ending belongs to another kind of metric.
_TAKEN = ("_total", "_bucket", "_count", "_sum", "_info", "_created")
#: Samples of one gauge: more would be a burden for the store.
MOST_SAMPLES = 10_000


class Sample(msgspec.Struct, frozen=True):
    """One number. `labels` are pairs of name and value, in the same order in all samples of a gauge."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


class Gauge(msgspec.Struct, frozen=True):
    """One metric, shown as `waggle_<algorithm>_<name>`; `help` is a sentence that says what it counts."""

    name: str
    help: str
    samples: tuple[Sample, ...] = ()


def sound(gauges: object) -> tuple[list[Gauge], list[str]]:
    """The gauges that can be shown, and what is wrong with the others."""
    if isinstance(gauges, str | bytes) or not isinstance(gauges, Iterable):
        return [], [f"{type(gauges).__name__}, not a sequence of gauges"]
    good: dict[str, Gauge] = {}
    flaws: list[str] = []
    for gauge in gauges:
        if not isinstance(gauge, Gauge):
            flaws.append(f"{type(gauge).__name__}, not a Gauge")
        elif flaw := _flaw(gauge) or ("there are two of them" if gauge.name in good else ""):
            flaws.append(f"gauge {str(gauge.name)[:100]}: {flaw}")
        else:
            good[gauge.name] = gauge
    return list(good.values()), flaws


def _flaw(gauge: Gauge) -> str:
    """What is wrong with the gauge; "" if nothing."""
    if not isinstance(gauge.name, str) or not _NAME.fullmatch(gauge.name) or gauge.name.endswith(_TAKEN):
        return f"expected a name of a-z, 0-9 and _, that ends with none of {', '.join(_TAKEN)}"
    if not isinstance(gauge.help, str) or not gauge.help or not _is_writable(gauge.help):
        return "expected a help text"
    if not isinstance(gauge.samples, tuple) or len(gauge.samples) > MOST_SAMPLES:
        return f"expected a tuple of at most {MOST_SAMPLES} samples"
    return next(filter(None, map(_flaw_of_sample, gauge.samples)), "") or _flaw_of_labels(gauge.samples)


def _is_writable(text: str) -> bool:
    """Whether the text can be written as UTF-8: lone surrogates cannot, and would cost all metrics of the process."""
    return text.isascii() or text == text.encode("utf-8", "replace").decode()


def _flaw_of_sample(sample: object) -> str:
    if not isinstance(sample, Sample):
        return f"{type(sample).__name__}, not a Sample"
    if isinstance(sample.value, bool) or not isinstance(sample.value, int | float) or not math.isfinite(sample.value):
        return f"expected a finite number, not {sample.value!r}"
    for name, value in sample.labels:
        if not _LABEL.fullmatch(name) or not isinstance(value, str) or not _is_writable(value):
            return f"expected labels of a-z, 0-9 and _ with texts as values, not {name!r}: {value!r}"
    return ""


def _flaw_of_labels(samples: Iterable[Sample]) -> str:
    names = {tuple(name for name, _ in sample.labels) for sample in samples}
    if len(names) > 1:
        return "all samples must have the same labels, in the same order"
    labels = [sample.labels for sample in samples]
    return "" if len(set(labels)) == len(labels) else "two samples have the same labels"
