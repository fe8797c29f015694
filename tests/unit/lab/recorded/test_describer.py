"""Recorded pods are described also if the algorithm raises what ends threads: that is counted."""

from __future__ import annotations

import pytest

from algorithm.interface import PodDescription
from algorithm.model import Pod, pairs
from algorithm.registry import create
from extender.lab.recorded.jobs import Describer
from tests.support.engine.objects import pod


def gang_of(algorithm: str, annotations: dict[str, str]) -> str:
    return Describer(create(algorithm, {})).wish(pod("p", annotations=pairs(annotations))).group


@pytest.mark.parametrize(
    ("annotations", "gang"),
    [
        ({}, ""),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "3"}, "default/g"),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "1"}, ""),
        ({"waggle.dev/gang": "g"}, ""),
        ({"waggle.dev/gang": "g", "waggle.dev/gang-min": "three"}, ""),
    ],
)
def test_where_the_algorithm_knows_no_gangs_those_of_waggles_annotations_count(
    annotations: dict[str, str], gang: str
) -> None:
    assert gang_of("fgd", annotations) == gang == gang_of("packing", annotations)


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, ValueError])
def test_what_an_algorithm_raises_is_counted_and_the_pods_own_fields_count(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: object, pod: Pod) -> PodDescription:
        raise kind(3)

    algorithm = create("packing", {})
    monkeypatch.setattr(type(algorithm), "describe", fails)
    monkeypatch.setattr(type(algorithm), "gang", fails)
    describer = Describer(algorithm)
    wish = describer.wish(pod("p"))
    assert (wish.tenant, wish.group) == (pod("p").namespace, "")
    assert describer.failed == {f"describe failed: {kind.__name__}": 1, f"gang failed: {kind.__name__}": 1}
