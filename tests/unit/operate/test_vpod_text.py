"""The text of an explanation: what would help is a question only where room is what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from extender.operate.vpod_text import explanation_text


def explained(reason: str) -> dict[str, Any]:
    return {
        "vpod": "streams/orders",
        "namespace": "streams",
        "name": "dispatcher",
        "placed": 0,
        "wanted": 5,
        "pending": 5,
        "waits_seconds": None,
        "reason": reason,
        "message": "",
        "waits": [],
        "helps": [],
        "complete": True,
        "rules": [],
        "pods": [],
    }


@pytest.mark.parametrize(
    ("reason", "says"), [("NotEnoughRoom", True), ("NoStatefulSet", False), ("PolicyFailed", False)]
)
def test_only_a_lack_of_room_is_helped_by_what_is_tried(reason: str, says: bool) -> None:
    assert ("What would help" in explanation_text(explained(reason))) == says
