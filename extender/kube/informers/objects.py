"""Decodes single objects of lists and watches. An unreadable object affects no other object, and is logged once.

All unreadable objects of a list are logged in one line; those of a watch once per object and error. An object that
nobody repairs comes again with every list, and sometimes with every event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from algorithm.decoding import DecodeError
from extender.kube.client import bounds
from extender.kube.informers import envelopes as wire
from extender.kube.informers.reflection import ReflectorStats, Resource
from extender.kube.informers.store import Tracked

T = TypeVar("T", bound=Tracked)

#: Objects that the line about a list names, and objects whose errors are remembered.
_NAMED = 10
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that cannot be decoded: its identity, as far as it can be read, and the error."""

    who: wire.Identity
    why: str

    def __str__(self) -> str:
        return f"{self.who.name or self.who.uid or 'nameless'}: {self.why}"


class ObjectDecoder(Generic[T]):
    """Decodes objects. Counts unreadable ones in `stats`, and logs them to `log`."""

    def __init__(self, resource: Resource[T], stats: ReflectorStats, log: Any) -> None:
        self._resource = resource
        self._stats = stats
        self._log = log
        self._reported: OrderedDict[str, str] = OrderedDict()

    def read(self, raw: msgspec.Raw) -> T | Unreadable:
        """Decode one object, which must have a uid and a resourceVersion; Unreadable if that fails."""
        try:
            obj = self._decode(raw)
        except DecodeError as error:
            return self._unreadable(raw, str(error))
        if obj.uid and obj.resource_version:
            return obj
        return self._unreadable(raw, "metadata.uid and metadata.resourceVersion must not be empty")

    def _decode(self, raw: msgspec.Raw) -> T:
        why = bounds.oversized(raw)
        if not why:
            return self._resource.decode(raw)
        if self._resource.slim is None or memoryview(raw).nbytes > bounds.OBJECT:
            raise DecodeError(why)
        return self._resource.decode(self._resource.slim(raw))

    def _unreadable(self, raw: msgspec.Raw, why: str) -> Unreadable:
        self._stats.decode_errors += 1
        return Unreadable(wire.identify(raw), bounds.cut(why))

    def say_of_list(self, found: Sequence[Unreadable]) -> None:
        """Log all of them in one line. Their errors are not logged again when a watch shows the same objects."""
        if found:
            for each in found:
                self._is_new(each)
            shown = [str(each) for each in found[:_NAMED]]
            self._log.warning("objects in a list cannot be read", count=len(found), objects=shown)

    def say_of_event(self, found: Unreadable) -> None:
        if self._is_new(found):
            self._log.warning("object cannot be read", name=found.who.name, uid=found.who.uid, error=found.why)

    def _is_new(self, found: Unreadable) -> bool:
        who = found.who.uid or found.who.name
        known = self._reported.pop(who, None)
        self._reported[who] = found.why
        if len(self._reported) > _REMEMBERED:
            self._reported.popitem(last=False)
        return known != found.why
