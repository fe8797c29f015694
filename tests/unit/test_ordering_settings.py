"""The section `ordering`: every fault names its field, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.settings import Settings, SettingsError, parse


def refused(text: str) -> str:
    with pytest.raises(SettingsError) as error:
        parse(text, Path("waggle.yaml"))
    return str(error.value)


def test_ordering_is_off_by_default() -> None:
    assert not Settings().ordering.enabled


def test_a_process_may_serve_ordering_alone() -> None:
    found = parse("extender: {enabled: false}\nordering: {enabled: true, kinds: [Job]}\n", Path("waggle.yaml"))
    assert found.ordering.kinds == ("Job",)


def test_a_process_that_serves_nothing_is_refused() -> None:
    assert "ordering.enabled: this process would serve nothing" in refused("extender: {enabled: false}\n")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kinds: [Pot]", "ordering.kinds"),
        ("kinds: [Job, Job]", "Job: appears twice"),
        ("grace_seconds: -1", "ordering.grace_seconds"),
        ("enable: true", "ordering.enable"),
    ],
)
def test_faults_name_the_field(text: str, named: str) -> None:
    assert named in refused(f"ordering: {{{text}}}\n")
