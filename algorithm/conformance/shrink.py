"""Shrinks a failing program: removes calls, and then fields of records, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from algorithm.conformance.calls import Ask, Call, Faulty, FoundBound, Submit
from algorithm.conformance.unreadable_records import MOST_READINGS
from algorithm.model import Node, Pod

Fails = Callable[[Sequence[Call]], bool]


class _Tries:
    """Counts the tries, and says when there have been enough."""

    def __init__(self, fails: Fails, is_enough: Callable[[], bool]) -> None:
        self._fails, self._is_enough = fails, is_enough

    def fails(self, calls: Sequence[Call]) -> bool:
        return not self._is_enough() and self._fails(calls)


def shortened(calls: Sequence[Call], fails: Fails, is_enough: Callable[[], bool]) -> list[Call]:
    """The shortest program that is found and that fails. `is_enough` ends the search."""
    tries = _Tries(fails, is_enough)
    found = _fewer_calls(list(calls), tries)
    found = _simpler(found, tries)
    return _fewer_calls(found, tries)


def _fewer_calls(calls: list[Call], tries: _Tries) -> list[Call]:
    """Leave out halves, quarters, ..., single calls, from the end, until no single one can be left out."""
    size = max(1, len(calls) // 2)
    while True:
        changed = False
        begin = len(calls) - size
        while begin > -size:
            candidate = calls[: max(0, begin)] + calls[max(0, begin) + size :] if begin >= 0 else calls[begin + size :]
            if len(candidate) < len(calls) and tries.fails(candidate):
                calls, changed = candidate, True
            begin -= size
        if size == 1 and not changed:
            return calls
        size = max(1, size // 2) if size > 1 else 1


def _simpler(calls: list[Call], tries: _Tries) -> list[Call]:
    """Make single calls simpler, each until nothing more can be left out of it."""
    at = 0
    while at < len(calls):
        candidates = ([*calls[:at], simpler, *calls[at + 1 :]] for simpler in _simpler_calls(calls[at]))
        found = next(filter(tries.fails, candidates), None)
        if found is None:
            at += 1
        else:
            calls = found
    return calls


def _simpler_calls(call: Call) -> Iterator[Call]:
    """The call with less in it: each is one change of the call as it was."""
    match call:
        case Submit(pods=pods) if len(pods) > 1:
            yield from (Submit((pod,)) for pod in pods)
        case Submit(pods=(pod,)):
            yield from (Submit((each,)) for each in _simpler_records(pod))
        case FoundBound(pod=pod):
            yield from (FoundBound(each) for each in _simpler_records(pod))
        case Ask(uid=uid, nodes=nodes, phase=phase):
            yield from (Ask(uid, (node,), phase) for node in nodes if len(nodes) > 1)
        case Faulty():
            yield call.change
            if not call.after:
                yield from (Faulty(call.change, call.field, after) for after in range(1, MOST_READINGS + 1))
        case _:
            record = getattr(call, "node", None)
            if isinstance(record, Node):
                yield from (type(call)(each) for each in _simpler_records(record))


def _simpler_records(record: Any) -> Iterator[Any]:
    """The record with one field as it is by default; all of them first."""
    kept = {"name", "uid", "namespace", "node_name", "nodes"}
    fields = msgspec.structs.fields(Pod if isinstance(record, Pod) else Node)
    default = {each.name: each.default for each in fields if each.name not in kept}
    differing = {name: value for name, value in default.items() if getattr(record, name) != value}
    if len(differing) > 1:
        yield msgspec.structs.replace(record, **differing)
    for name, value in differing.items():
        yield msgspec.structs.replace(record, **{name: value})
