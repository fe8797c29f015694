"""How many examples Hypothesis tries where a test is part of `make test`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def few(examples: int, steps: int) -> settings:
    """Return the settings of a state machine that runs always: few runs, the same ones each time, each to its end."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
