"""Records that raise while they are read: how an algorithm fails in the middle of a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from algorithm.conformance.calls import AddNode, FoundBound, Submit, Update, UpdateNode
from algorithm.model import Node

#: The fields that can raise, of nodes and of pods.
OF_NODES = ("allocatable", "labels", "annotations", "taints")
OF_PODS = ("requests", "annotations", "labels", "limits")
#: In place of a field: each of them, and their readings are counted together.
ANY = "any field"
#: Readings that raise one after the other, if each of them is to.
MOST_READINGS = 4


class InjectedFault(Exception):  # noqa: N818 - it is injected by the kit
    """The record was read once too often. An algorithm that lets it through must have changed nothing."""


class _Switch:
    """Counts how often it may still be read; it does nothing once it is off."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.left: int | None = after
        self.has_raised = False

    def read(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            self.has_raised = True
            raise InjectedFault("a record raised while it was read")


class _Raising(tuple[Any, ...]):
    """A tuple that raises when it is iterated over."""

    switch: _Switch

    def __iter__(self) -> Iterator[Any]:
        self.switch.read()
        return super().__iter__()


@contextmanager
def unreadable(change: Any, field: str, after: int) -> Iterator[Any]:
    """The change with a record of which `field`, or ANY, raises at its reading number `after`, but only meanwhile."""
    switch = _Switch(max(1, after))
    try:
        yield _with(change, field, switch)
    finally:
        switch.left = None


@contextmanager
def unreadable_again(args: Iterable[Any]) -> Iterator[None]:
    """Let records that have raised do so again, meanwhile, at the same reading as before."""
    switches = [switch for each in args for switch in _switches(each) if switch.has_raised]
    for switch in switches:
        switch.left = switch.after
    try:
        yield
    finally:
        for switch in switches:
            switch.left = None


def has_raised(change: Any) -> bool:
    """Whether the record of this change, which was `unreadable`, was read once too often."""
    return any(switch.has_raised for each in _records(change) for switch in _switches(each))


def made_sound(records: dict[str, Any], change: Any, sound: Any) -> None:
    """Put the sound record in the place of the one that could not be read."""
    for bad, good in zip(_records(change), _records(sound), strict=False):
        for key, value in records.items():
            if value is bad:
                records[key] = good


def _switches(record: Any) -> list[_Switch]:
    values = msgspec.structs.astuple(record) if isinstance(record, msgspec.Struct) else ()
    return [value.switch for value in values if isinstance(value, _Raising)]


def _records(change: Any) -> tuple[Any, ...]:
    return change.pods if isinstance(change, Submit) else (getattr(change, "node", None) or change.pod,)


def _with(change: Any, field: str, switch: _Switch) -> Any:
    match change:
        case AddNode(node=record) | UpdateNode(node=record):
            return type(change)(_raising(record, field, switch))
        case FoundBound(pod=record) | Update(pod=record):
            return type(change)(_raising(record, field, switch))
        case Submit(pods=(record, *_)):
            return Submit((_raising(record, field, switch),))
    raise TypeError(f"{type(change).__name__} cannot be faulty")


def _raising(record: Any, field: str, switch: _Switch) -> Any:
    fields = [field] if field != ANY else OF_NODES if isinstance(record, Node) else OF_PODS
    raising = {each: _Raising(getattr(record, each)) for each in fields}
    for each in raising.values():
        each.switch = switch
    return msgspec.structs.replace(record, **raising)
