"""How many examples Hypothesis tries where a test is part of `make test`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

#: One in so many examples is tried.
SHARE = 20
_LEAST = 3


def few(examples: int, steps: int) -> settings:
    """Return the settings of a state machine that runs always: few runs, the same ones each time, each to its end."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def fewer(all_of_them: settings) -> settings:
    """Return settings with a twentieth of the examples, but at least 3 where there are as many."""
    most = all_of_them.max_examples
    return settings(all_of_them, max_examples=min(most, max(most // SHARE, _LEAST)))


def unhurried(hurried: settings) -> settings:
    """Return settings without limits of time: a machine that is busy with other workers is no fault of a test."""
    return settings(
        hurried, deadline=None, suppress_health_check=[*{*hurried.suppress_health_check, HealthCheck.too_slow}]
    )


def take_time(test: type[Any] | Callable[..., Any]) -> None:
    """Let the examples of a state machine's `TestCase`, or of a function under `@given`, take as long as they need."""
    _set(test, unhurried)


def try_fewer(test: type[Any] | Callable[..., Any]) -> None:
    """Let a state machine's `TestCase`, or a function under `@given`, try a twentieth of its examples from now on."""
    _set(test, fewer)


def _set(test: type[Any] | Callable[..., Any], changed: Callable[[settings], settings]) -> None:
    # Hypothesis has no public way to change the settings of a decorated function.
    name = "settings" if isinstance(test, type) else "_hypothesis_internal_use_settings"
    setattr(test, name, changed(getattr(test, name)))
