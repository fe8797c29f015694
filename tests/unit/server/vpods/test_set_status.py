"""The status of VPodSet objects: what it says, and when it is worth a write."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from extender.server.vpods.set_objects import SetObject, decode_set
from extender.server.vpods.set_status import SetNumbers, is_news, set_status
from extender.server.vpods.verdicts import Verdict

NOW = "2026-11-02T10:00:00Z"
NUMBERS = SetNumbers(exists=True, replicas=3, usable=3, capacity=30, placed=20, pending=0, free=10, draining=0)


def obj(status: Any = None, generation: int = 4) -> SetObject:
    metadata = {"name": "fleet", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": generation}
    spec = {"statefulSet": "ss", "capacity": 10}
    return decode_set(json.dumps({"metadata": metadata, "spec": spec, "status": status or {}}).encode())


def served(found: SetObject) -> Verdict:
    return Verdict(found.settings)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}


def test_a_served_set() -> None:
    found = obj()
    status = set_status(found, served(found), NUMBERS, now=NOW)
    assert conditions(status) == {
        "Ready": ("True", "Served", "vpods are placed"),
        "Misconfigured": ("False", "AsExpected", ""),
    }
    assert (status["observedGeneration"], status["placed"], status["free"]) == (4, 20, 10)


def test_a_set_whose_namespace_cannot_be_read() -> None:
    found = obj()
    status = set_status(found, served(found), None, trouble="pods: 403 Forbidden", now=NOW)
    assert conditions(status)["Ready"] == ("False", "NotReady", "pods: 403 Forbidden")


def test_a_set_that_is_refused() -> None:
    status = set_status(obj(), Verdict(None, "InvalidSpec", "spec.capacity: expected more"), None, now=NOW)
    assert conditions(status) == {
        "Ready": ("False", "Misconfigured", "spec.capacity: expected more"),
        "Misconfigured": ("True", "InvalidSpec", "spec.capacity: expected more"),
    }
    assert status["replicas"] == 0


def written(numbers: SetNumbers = NUMBERS) -> SetObject:
    """The object with the status that says these numbers."""
    first = obj()
    return obj(set_status(first, served(first), numbers, now=NOW))


def test_a_stateful_set_that_cannot_be_used_is_said() -> None:
    found = obj()
    numbers = msgspec.structs.replace(NUMBERS, fault="n/s has spec.ordinals.start 5; expected 0")
    ready = set_status(found, served(found), numbers, now=NOW)["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "NoStatefulSet")
    assert ready["message"] == "spec.statefulSet: n/s has spec.ordinals.start 5; expected 0"


def test_the_same_again_is_no_news() -> None:
    found = written()
    later = set_status(found, served(found), NUMBERS, now="2026-11-02T11:00:00Z")
    assert not is_news(found.status, later, is_settled=True)


def test_a_small_change_waits_until_numbers_are_settled() -> None:
    found = written()
    status = set_status(found, served(found), SetNumbers(True, 3, 3, 30, 21, 0, 9, 0), now=NOW)
    assert is_news(found.status, status, is_settled=True)
    near = set_status(found, served(found), SetNumbers(True, 3, 3, 30, 21, 0, 10, 0), now=NOW)
    assert not is_news(found.status, near, is_settled=False)


def test_what_begins_or_ends_is_news_at_once() -> None:
    found = written()
    waits = set_status(found, served(found), SetNumbers(True, 3, 3, 30, 20, 1, 10, 0), now=NOW)
    assert is_news(found.status, waits, is_settled=False)
    gone = set_status(found, served(found), SetNumbers(False), now=NOW)
    assert is_news(found.status, gone, is_settled=False)


def test_another_generation_is_news() -> None:
    found = written()
    newer = obj(json.loads(found.status.model_dump_json(by_alias=True)), generation=5)
    assert is_news(newer.status, set_status(newer, served(newer), NUMBERS, now=NOW), is_settled=False)
