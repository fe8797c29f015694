"""What happened lately, as the page gets it."""

from __future__ import annotations

import json
from typing import Any

from algorithm.model import Pod, PodKey
from extender.scheduling.state.preemption_log import NamedVictim, Outcome, PreemptionRecord
from extender.server.usage import KEPT, Taken, UsageSample
from extender.web.ui.past import SHOWN, VICTIMS, history_piece, preemptions_piece

GANG = (("waggle.dev/gang", "g"),)


def record(name: str, *victims: str, gang: bool = False, number: int = 0) -> PreemptionRecord:
    pod = Pod(namespace="ns", name=name, uid=name, priority=9, annotations=GANG if gang else ())
    named = tuple(NamedVictim(each, PodKey("low", each), "node", 3, each == "dead") for each in victims)
    return PreemptionRecord(0.0, pod, "", 9, named, number or len(named), Outcome.PLACED)


def shown(*records: tuple[float, PreemptionRecord]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(preemptions_piece(records, 1000.0))["preemptions"]
    return found


def test_the_latest_preemption_comes_first() -> None:
    first, second = shown((90.0, record("old", "a")), (10.0, record("new", "dead", "b", number=40)))

    assert first == {
        "at": 990,
        "namespace": "ns",
        "name": "new",
        "pod": "new",
        "pods": 1,
        "priority": 9,
        "outcome": "placed",
        "victims": [["low", "dead", "node", 3, True], ["low", "b", "node", 3, False]],
        "number": 40,
        "gone": 1,
    }
    assert second["name"] == "old"


def test_pods_of_a_gang_that_preempt_together_are_one() -> None:
    found = shown(
        (500.0, record("g-0", "x", gang=True)),
        (20.0, record("g-0", "a", gang=True)),
        (10.0, record("g-1", "a", "b", gang=True)),
    )

    assert [(each["name"], each["pods"], each["at"], each["number"]) for each in found] == [
        ("g", 2, 980, 2),
        ("g", 1, 500, 1),
    ]


def test_it_is_bounded() -> None:
    names = [f"v{number}" for number in range(VICTIMS)]
    found = shown(*((1.0, record(f"p{number}", *names)) for number in range(2 * SHOWN)))
    assert (len(found), len(found[0]["victims"])) == (SHOWN, VICTIMS)


def test_an_hour_of_samples_is_small() -> None:
    taken = tuple(Taken(f"example.com/resource-{number}", 10_000, 20_000) for number in range(6))
    piece = history_piece([UsageSample(1.5e9 + at, 100, 20, 3, 400, taken) for at in range(KEPT)])

    assert json.loads(piece)["history"][0][:5] == [1_500_000_000, 100, 20, 3, 400]
    assert len(piece) < 40_000
