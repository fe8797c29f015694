"""The stand-in answers what a real kube-apiserver answered (tests/golden), but for the deviations that are listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extender.embedded.apiserver import serve_in_thread
from tests.golden.custom_resources import CUSTOM
from tests.golden.deviations import DEVIATIONS
from tests.golden.operations import SCENARIOS
from tests.golden.record import ANSWERS
from tests.golden.replay import Replay
from tests.support.http.plain import plain_client

ALL = {**SCENARIOS, **CUSTOM}
RECORDED: dict[str, list[Any]] = json.loads(ANSWERS.read_text())["scenarios"]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    # As the recorded server: no kubelets, no controllers.
    with (
        serve_in_thread(kubelet=False, controllers=False) as cluster,
        plain_client(base_url=cluster.url, timeout=60) as client,
    ):
        yield client


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Each place where two answers differ, as `path: real ... ours ...`."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            yield from differences(real.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif real != ours:
        yield f"{path}: real {real!r}, ours {ours!r}"


@pytest.mark.parametrize("scenario", ALL)
def test_answers_are_those_of_a_real_api_server(http: httpx.Client, scenario: str) -> None:
    ours = Replay(http, scenario).run(ALL[scenario])
    assert len(ours) == len(RECORDED[scenario]), "operations.py has changed: record again (tests/golden/record.py)"
    for index, (real, mine) in enumerate(zip(RECORDED[scenario], ours, strict=True)):
        allowed, why = DEVIATIONS.get(f"{scenario}[{index}]", ((), ""))
        found = list(differences(real, mine))
        assert not [each for each in found if not each.startswith(allowed)], ALL[scenario][index]
        assert bool(found) == bool(allowed), f"{scenario}[{index}] deviates no longer: {why}"


def test_every_deviation_names_a_step() -> None:
    steps = {f"{name}[{index}]" for name, steps in ALL.items() for index in range(len(steps))}
    assert DEVIATIONS.keys() <= steps
