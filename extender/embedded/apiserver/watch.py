"""A watch: the changes of one resource as one client selected them, in order and without gaps.

    store change --> Watcher.live (selects, encodes) --> pending lines --> take() by the connection's task
                                                     \\-> more than LIMIT pending: closed (the client starts anew)

An object that begins to match the selector appears as ADDED, one that ceases to match as DELETED, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.objects import encode, encode_stored
from extender.embedded.apiserver.resources import Resource
from extender.embedded.apiserver.selectors import Selector
from extender.embedded.apiserver.store import Change, Collection, Stored, event_line
from extender.embedded.apiserver.views import shown

#: Lines that a slow client may be behind before its watch is closed.
LIMIT = 20_000
_EVERYTHING = Selector()


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What the client asked for. `since` None: begin with the objects that exist now."""

    resource: Resource
    selector: Selector
    since: int | None
    bookmarks: bool = False
    #: Mark the end of the initial objects with a bookmark (sendInitialEvents=true).
    initial_events: bool = False
    #: Seconds until the server ends the watch.
    timeout: float = 3600.0


@dataclass(eq=False)
class Watcher:
    """One open watch. Everything happens on the event loop."""

    options: WatchOptions
    closed: bool = False
    _pending: deque[bytes] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, collection: Collection, revision: int) -> None:
        """Queue what the client has to be told first. Raises 410 Expired if it cannot be told completely."""
        options = self.options
        if options.since is not None:
            for change in collection.since(options.since):
                self.notice(change)
            return
        for stored in collection:
            if options.selector.matches(stored.key[0], stored.labels, stored.fields):
                self._queue(event_line("ADDED", options.resource, shown(options.resource, stored.raw)))
        if options.initial_events:
            self.bookmark(revision, end_of_initial_events=True)

    def notice(self, change: Change) -> None:
        resource, selector = self.options.resource, self.options.selector
        if selector == _EVERYTHING and not resource.renamed and resource.version == change.resource.version:
            self._queue(change.line)
            return
        is_in = change.type != "DELETED" and _matches(selector, change.new)
        was_in = change.old is not None and _matches(selector, change.old)
        if is_in:
            self._queue(event_line("MODIFIED" if was_in else "ADDED", resource, shown(resource, change.new.raw)))
        elif was_in and change.old is not None:
            raw = change.new.raw if change.type == "DELETED" else _with_revision(change.old, change.revision)
            self._queue(event_line("DELETED", resource, shown(resource, raw)))

    def live(self, change: Change) -> None:
        """A change that happens now. A client that has fallen too far behind loses its watch, and starts anew."""
        self.notice(change)
        if len(self._pending) > LIMIT:
            self.abandon()

    def bookmark(self, revision: int, *, end_of_initial_events: bool = False) -> None:
        metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if end_of_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        self._queue(event_line("BOOKMARK", self.options.resource, encode({"metadata": metadata})))

    def fail(self, error: ApiError) -> None:
        """Tell the client an error (410 Expired) and end the watch."""
        self._queue(error_line(error))
        self.close()

    def close(self) -> None:
        """End the watch once the pending lines are sent."""
        self.closed = True
        self._wake.set()

    def abandon(self) -> None:
        """End the watch at once: nobody reads it any more."""
        self._pending.clear()
        self.close()

    @property
    def finished(self) -> bool:
        return self.closed and not self._pending

    async def take(self, timeout: float) -> list[bytes]:
        """The pending lines; waits up to `timeout` seconds for one. Empty: nothing came, or the watch is closed."""
        if not self._pending and not self.closed:
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                return []
        lines = list(self._pending)
        self._pending.clear()
        return lines

    def _queue(self, line: bytes) -> None:
        if self.closed:
            return
        self._pending.append(line)
        self._wake.set()


def error_line(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % encode(error.body)


def _matches(selector: Selector, stored: Stored) -> bool:
    return selector.matches(stored.key[0], stored.labels, stored.fields)


def _with_revision(stored: Stored, revision: int) -> bytes:
    obj = stored.fresh()
    obj["metadata"]["resourceVersion"] = str(revision)
    return encode_stored(obj)
