"""Interprets the lines of a watch: what they change in the store, and how far they advance the resume version.

Nearly every line is decoded in one pass. A line that cannot be read that way is decoded step by step, so that every
readable part of it counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from algorithm.decoding import DecodeError
from extender.kube.client import bounds
from extender.kube.client.api import Exchange
from extender.kube.client.bounds import Bound
from extender.kube.informers import envelopes as wire
from extender.kube.informers.listing import no_room, unlimited
from extender.kube.informers.loop_reader import LoopReader, Next
from extender.kube.informers.objects import ObjectDecoder, Unreadable
from extender.kube.informers.reflection import ExpiredError, ListBoundError, ReflectorStats, RelistError, Resource
from extender.kube.informers.resume_version import ResumeVersion
from extender.kube.informers.store import Change, Store, Tracked

T = TypeVar("T", bound=Tracked)

_SEEN = ("ADDED", "MODIFIED")
#: Lines that are handled at once in an event loop, so that no call waits for long; and bytes of a line from which on
#: the thread handles it: it may have to be decoded step by step.
_STEP, _LARGE = 12, 32 * 1024


class Lines:
    """Joins the pieces of a watch to lines. An incomplete line is kept, up to `most` bytes."""

    def __init__(self, most: int = bounds.OBJECT) -> None:
        self._most = most
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Add a piece; return the lines that are complete now, without blank ones. Raises RelistError if a line is too
        long."""
        *lines, rest = piece.split(b"\n")
        if lines and self._held:
            lines[0] = bytes(self._held + lines[0])
        if lines:
            self._held = bytearray(rest)
        else:
            self._held += rest
        if len(self._held) > self._most or (lines and len(lines[0]) > self._most):
            raise ListBoundError(f"watch: a line of more than {self._most} bytes", Bound.SIZE)
        return [line for line in lines if line.strip()]


def follow(
    exchange: Exchange, pieces: Iterator[bytes], in_loop: LoopReader, take: Callable[[Sequence[bytes]], None]
) -> None:
    """Pass the complete lines of a watch on to `take`, until the watch ends. Raises what `take` and the exchange raise.

    Reads in the event loop while there is one, a few lines at a time; else the `pieces` of the exchange, which wait.
    """
    lines = Lines()
    unread: deque[bytes] = deque()

    def step() -> Next:
        if not unread:
            unread.extend(lines.feed(exchange.arrived()))
        few: list[bytes] = []
        while unread and len(few) < _STEP and len(unread[0]) < _LARGE:
            few.append(unread.popleft())
        if few:
            take(few)
        if unread:
            return Next.SOON if few else Next.NEVER
        if exchange.complete:
            return Next.NEVER
        return Next.SOON if exchange.has_more else Next.ON_DATA

    while True:
        if in_loop.has_loop and not exchange.complete:
            in_loop.read(exchange.fileno(), step, exchange.left)
        if unread:
            take(unread)
            unread.clear()
        elif (piece := next(pieces, None)) is not None:
            unread.extend(lines.feed(piece))
        else:
            return


class EventReader(Generic[T]):
    """Turns one line of a watch into changes, and advances `progress`. The records in the store take `most` bytes at
    most."""

    def __init__(
        self,
        resource: Resource[T],
        objects: ObjectDecoder[T],
        store: Store[T],
        progress: ResumeVersion,
        stats: ReflectorStats,
        most: Callable[[], int] = unlimited,
    ) -> None:
        self._most = most
        self._resource = resource
        self._objects = objects
        self._store = store
        self._progress = progress
        self._stats = stats

    def changes(self, line: bytes) -> Iterator[Change[T]]:
        """The changes that a line means. Raises RelistError, here or during iteration, if the watch cannot go on."""
        self._stats.events += 1
        obj = self._at_once(line)
        if obj is None:
            return self._step_by_step(line)
        obj = self._fitting(obj)
        self._progress.advance(obj.resource_version)
        return self._store.seen(obj)

    def _at_once(self, line: bytes) -> T | None:
        """The object that the line shows; None if the line is of another kind, or cannot be decoded in one pass."""
        if self._resource.decode_event is None or bounds.oversized(line):
            return None
        try:
            kind, obj = self._resource.decode_event(line)
        except DecodeError:
            return None
        return obj if kind in _SEEN and obj.uid and obj.resource_version else None

    def _step_by_step(self, line: bytes) -> Iterator[Change[T]]:
        """Decode the envelope first and then the object, according to the type of the event."""
        try:
            event = wire.decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._stats.broken_lines += 1
            raise RelistError(f"watch: broken line: {error}") from error
        if event.type in _SEEN:
            yield from self._seen(event.object)
        elif event.type == "DELETED":
            yield from self._deleted(event.object)
        elif event.type == "BOOKMARK":
            self._stats.bookmarks += 1
            self._progress.advance(wire.identify(event.object).resource_version)
        elif event.type == "ERROR":
            _raise_error(wire.failure(event.object))
        else:
            self._stats.unknown_events += 1

    def _seen(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        obj = self._objects.read(raw)
        if isinstance(obj, Unreadable):
            self._objects.say_of_event(obj)
            self._progress.advance(obj.who.resource_version)
            return
        yield from self._store.seen(self._fitting(obj))
        self._progress.advance(obj.resource_version)

    def _fitting(self, obj: T) -> T:
        """Return what to keep of the object. Raises RelistError if the store is full.

        No object is left out: the node of an unknown pod would be booked twice.
        """
        weight, most = self._store.weight, self._most()
        if weight > most:
            raise ListBoundError(f"watch {self._resource.path}: {no_room(most)}", Bound.CACHE)
        obj = self._resource.keep(obj)
        return self._resource.lighter(obj) if self._resource.lighter is not None and weight > most // 2 else obj

    def _deleted(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        """The change that a DELETED event means. An unreadable object is found by its UID."""
        obj = self._objects.read(raw)
        if isinstance(obj, Unreadable):
            self._objects.say_of_event(obj)
            yield from self._store.gone_unread(obj.who.uid)
            self._progress.advance(obj.who.resource_version)
            return
        yield from self._store.gone(obj)
        self._progress.advance(obj.resource_version)


def _raise_error(failure: wire.Failure) -> None:
    text = f"watch: ERROR event: {failure.code} {failure.message}"
    raise ExpiredError(text) if failure.code == 410 else RelistError(text)
