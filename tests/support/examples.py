"""How many examples Hypothesis tries where a test is part of `make test`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

_LEAST = 5


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
    """Return settings with a quarter of the examples, but at least 5 where there are as many.

    A machine that is busy with other workers is no fault of a test: that drawing takes long is no failure.
    """
    most, suppressed = all_of_them.max_examples, {*all_of_them.suppress_health_check, HealthCheck.too_slow}
    return settings(all_of_them, max_examples=min(most, max(most // 4, _LEAST)), suppress_health_check=[*suppressed])


def try_fewer(test: type[Any] | Callable[..., Any]) -> None:
    """Let a state machine's `TestCase`, or a function under `@given`, try a quarter of its examples from now on."""
    # Hypothesis has no public way to change the settings of a decorated function.
    name = "settings" if isinstance(test, type) else "_hypothesis_internal_use_settings"
    setattr(test, name, fewer(getattr(test, name)))
