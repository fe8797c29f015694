"""The objects last received from the API server. Lists and events come in, differences come out. No I/O, no threads.

The store turns lists and events into changes; a receiver that applies the changes holds what the API server holds:

* a duplicate, or an event older than the known version, changes nothing; nor does an event with nothing new (`same`);
* an object that was recreated under another UID is reported as gone and then as seen;
* an object that is missing from a list is reported as gone, with the last known record;
* a deleted UID never comes back by a late event, and no event is accepted that is older than the last list.

The store changes while its changes are iterated. `undo` takes back the changes since the last `settle`, for a receiver
that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from extender.core.freshness import older, remember

_TOMBSTONES = 4096
#: Bytes of a record beside its texts, here and in everything that is derived from it, and bytes for each pair in it.
#: Measured with 50,000 ordinary pods. They come to 4,600 bytes each if no two have the same labels and requests, and to
#: 2,600 if they are of few ReplicaSets: what pods share is not counted as shared here, since a stranger may write it.
_RECORD, _PAIR = 2400, 100


class Tracked(Protocol):
    """What a record must have to be stored: both fields as the API server sent them."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Tracked)


def never_same(_known: object, _obj: object) -> bool:
    """Every new version is a change."""
    return False


class ChangeKind(StrEnum):
    #: New, or changed.
    SEEN = "seen"
    #: It no longer exists.
    GONE = "gone"


_encoder = msgspec.json.Encoder()


def weigh(record: object) -> int:
    """Estimate the bytes of memory that a record takes: its JSON, plus a list for every pair.

    One character beyond ASCII can make a whole text take four bytes for each of its characters.
    """
    text = _encoder.encode(record)
    wide = () if text.isascii() else getattr(record, "annotations", ())
    more = sum(3 * len(value) for _, value in wide if not value.isascii())
    return _RECORD + len(text) + more + _PAIR * text.count(b"[")


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One difference. With GONE, `obj` is the last known record."""

    kind: ChangeKind
    obj: T
    #: It was found by a list. A watch shows changes in the order in which they were written, a list does not.
    is_listed: bool = False


class Store(Generic[T]):
    """Records by key.

    `same` is called for watch events only, since a watch leaves no version out. A list may skip versions, and the
    receiver may have learnt of those from elsewhere; so every version in a list that was not known is reported.

    `forget` is called with the UID of each object that is gone.
    """

    def __init__(
        self,
        key: Callable[[T], str],
        same: Callable[[T, T], bool] = never_same,
        weigh: Callable[[T], int] = weigh,
        forget: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        self._forget = forget
        self._key = key
        self._same = same
        self._weigh = weigh
        #: Bytes of all records.
        self.weight = 0
        self._records: dict[str, T] = {}
        self._journal: list[tuple[str, T | None]] = []
        self._buried: dict[str, None] = {}
        #: The version of the last complete list: an object of that version or an older one is in the list, or was gone
        #: by then.
        self._floor = ""

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[T]:
        return list(self._records.values())

    def replace(self, listed: Mapping[str, T], *, version: str, unreadable: Container[str]) -> Iterator[Change[T]]:
        """Apply a complete list as of `version`, by key.

        `unreadable`: UIDs in the list whose objects could not be decoded; their last known records are kept.
        """
        self._floor = version
        for obj in listed.values():
            self._buried.pop(obj.uid, None)
        for key, known in list(self._records.items()):
            if key not in listed and known.uid not in unreadable:
                yield self._removed(key, known)
        for key, obj in listed.items():
            known_now = self._records.get(key)
            if known_now is not None and known_now.uid != obj.uid:
                yield self._removed(key, known_now)
            elif known_now is not None and known_now.resource_version == obj.resource_version:
                continue
            yield self._put(key, obj, is_listed=True)

    def seen(self, obj: T) -> Iterator[Change[T]]:
        """Apply an ADDED or MODIFIED event."""
        key = self._key(obj)
        known = self._records.get(key)
        if obj.uid in self._buried or not self._advances(self._floor, obj):
            return
        if known is not None and known.uid != obj.uid:
            yield self._removed(key, known)
        elif known is not None and not self._advances(known.resource_version, obj):
            return
        if known is not None and known.uid == obj.uid and self._same(known, obj):
            self._replace(key, obj)
        else:
            yield self._put(key, obj)

    def gone(self, obj: T) -> Iterator[Change[T]]:
        """Apply a DELETED event."""
        key = self._key(obj)
        known = self._records.get(key)
        if known is not None and known.uid == obj.uid:
            yield self._removed(key, obj)
        else:
            self._remember(obj.uid)

    def gone_unread(self, uid: str) -> Iterator[Change[T]]:
        """Apply a DELETED event whose object could not be decoded."""
        for key, known in list(self._records.items()):
            if known.uid == uid:
                yield self._removed(key, known)
                return
        self._remember(uid)

    def settle(self) -> None:
        """The changes so far were received: they can no longer be undone."""
        self._journal.clear()

    def undo(self) -> None:
        """Take back the changes since the last `settle`: they were not received."""
        for key, before in reversed(self._journal):
            if (now := self._records.pop(key, None)) is not None:
                self.weight -= self._weigh(now)
            if before is not None:
                self._records[key] = before
                self.weight += self._weigh(before)
                self._buried.pop(before.uid, None)
        self._journal.clear()

    @staticmethod
    def _advances(known: str, obj: T) -> bool:
        """Whether the object may be newer than the known version."""
        return obj.resource_version != known and not older(obj.resource_version, than=known)

    def _put(self, key: str, obj: T, *, is_listed: bool = False) -> Change[T]:
        before = self._replace(key, obj)
        self.weight += self._weigh(obj) - (self._weigh(before) if before is not None else 0)
        return Change(ChangeKind.SEEN, obj, is_listed)

    def _replace(self, key: str, obj: T) -> T | None:
        """Store a record, and return the one before. A record that differs only in its version has the same weight."""
        before = self._records.get(key)
        self._journal.append((key, before))
        self._records[key] = obj
        return before

    def _removed(self, key: str, last: T) -> Change[T]:
        before = self._records.pop(key)
        self._journal.append((key, before))
        self.weight -= self._weigh(before)
        self._forget(before.uid)
        self._remember(last.uid)
        return Change(ChangeKind.GONE, last)

    def _remember(self, uid: str) -> None:
        if uid:
            remember(self._buried, uid, None, most=_TOMBSTONES)
