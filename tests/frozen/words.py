"""The one table that puts the frozen recordings into today's words.

A rename adds its row here in the same commit, and touches neither the recordings nor the tests. What has no row must be
as it was, byte for byte. Rows name the kinds and fields as they are in the recordings (`KINDS`, `FIELDS`, `GONE`,
`REBUILT`, `TEXTS`), except for `APART`, which names them as they are today.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from tests.frozen.plain import KIND

#: Kinds of records that are called otherwise: "Nudge": "RequeuePod".
KINDS: dict[str, str] = {"Nudge": "RequeuePod", "Prioritize": "PrioritizeRequested"}
#: Fields that are called otherwise, by the frozen kind: "FilterAnswer": {"untouched": "pass_through"}.
FIELDS: dict[str, dict[str, str]] = {
    "FilterAnswer": {"untouched": "pass_through"},
    "PreemptAnswer": {"untouched": "pass_through"},
    "Policy": {
        "nudge_batch": "requeue_batch",
        "nudge_again": "requeue_interval",
        "seat": "reservation_timeout",
        "protection": "eviction_backoff",
    },
}
#: Fields that are no longer there, by the frozen kind.
GONE: dict[str, set[str]] = {}
#: Kinds that became something else altogether: the frozen record, with what it contains already in today's words, to
#: today's, kind included. The other tables are not used on it.
REBUILT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
#: Texts that were reworded: a pattern that the whole text matches, and what it is now (`\1` as in `re.sub`).
TEXTS: list[tuple[str, str]] = [(r"(.*), and 1 are left(.*)", r"\1, and 1 is left\2")]
#: Fields of today, by today's kind, that are not compared: what is no plain data, and what is new.
APART: dict[str, set[str]] = {
    "Outcome": {"resource_version"},  # came later
    "Policy": {"limits"},  # came later, and is by default what was in modules then
}


def today(frozen: Any) -> Any:
    """A part of a recording in today's words."""
    if isinstance(frozen, str):
        return _text(frozen)
    if isinstance(frozen, list):
        return [today(each) for each in frozen]
    if isinstance(frozen, dict):
        return _record(frozen) if KIND in frozen else {key: today(each) for key, each in frozen.items()}
    return frozen


def _record(frozen: Mapping[str, Any]) -> dict[str, Any]:
    kind = frozen[KIND]
    gone: Collection[str] = GONE.get(kind, ())
    inside = {key: today(each) for key, each in frozen.items() if key != KIND and key not in gone}
    if kind in REBUILT:
        made = REBUILT[kind]({KIND: kind, **inside})
        return _in_order(made)
    names = FIELDS.get(kind, {})
    return _in_order({KIND: KINDS.get(kind, kind), **{names.get(key, key): each for key, each in inside.items()}})


def _in_order(known: dict[str, Any]) -> dict[str, Any]:
    return {KIND: known[KIND], **{key: known[key] for key in sorted(known) if key != KIND}}


@cache
def _text(frozen: str) -> str:
    for pattern, now in TEXTS:
        if found := re.fullmatch(pattern, frozen, re.DOTALL):
            return found.expand(now)
    return frozen
