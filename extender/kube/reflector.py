"""Keeps somebody in step with one resource of the API server: list once, then watch, for ever, through every fault.

                 +------------------------------ 410 (either form), broken line, sink failed -----------------+
                 v                                                                                            |
    start --> LISTING --all pages, differences told--> synced --> WATCHING --ended, silent, dropped--> back-off
                 |  ^                                                 ^                                  |  |
              back-off (page expired: list anew)                      +----- resume from the last version +  |
                                                                                          (too old: list) ---+

Promises to the sink, which is called with batches of changes on the reflector's thread:

* after any sequence of faults it has been told what the API server holds; nothing is lost, a DELETE least of all;
* GONE carries the last known record; an object that came back under another UID is GONE, then SEEN;
* one object that cannot be decoded costs only itself (and what was known of it stays);
* if it raises, the thread lives on, and what it did not take is told again.

`synced` is set when the first complete list has been told. Silence is bounded: half-open connections are noticed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Generic, TypeVar

import msgspec
import structlog

from algorithm.model import DecodeError
from extender.kube import wire
from extender.kube.api import ApiError, ApiServer, Exchange, Interrupted, Response
from extender.kube.backoff import Backoff
from extender.kube.reflection import NODES, PODS, ReflectorStats, Resource, Timing
from extender.kube.store import Change, ChangeKind, Store, Tracked

__all__ = ["NODES", "PODS", "Change", "ChangeKind", "Reflector", "ReflectorStats", "Resource", "Timing"]

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Tracked)

_BATCH = 50
#: After so many objects other threads are offered the GIL: without it the p99 of /filter during a list is 17, not 4 ms.
_DECODES_IN_A_ROW = 20
#: A watch that ended sooner than this was not a normal one, and is not reopened at once again and again.
_SHORT_WATCH = 5.0
_LONGEST_LINE = 32 * 1024 * 1024
#: A server that asks for more patience than this is not believed.
_LONGEST_RETRY_AFTER = 120.0
#: A list older than what was known is refused that often; then it must be true (restored from a backup).
#: What kube-apiserver says of a resourceVersion that it has not reached: it was restored, or is another one.
_FROM_THE_FUTURE = "Too large resource version"
_STALE_LISTS_REFUSED = 2


class _RelistError(Exception):
    """The watch cannot go on from where it was."""


class _ExpiredError(_RelistError):
    """410: what we hold is too old. Routine after a compaction."""


class _SinkError(_RelistError):
    """The sink did not take a batch."""


class _RefusedError(Exception):
    """The API server answered with an error."""

    def __init__(self, what: str, response: Response) -> None:
        super().__init__(f"{what}: {response.status} {response.message}")
        self.retry_after = response.retry_after


class Reflector(Generic[T]):
    """The thread that reflects one resource. `sink` gets at most 50 changes a call.

    `went_back` is told why, if the server insists on a past that is older than what it has shown before.
    """

    def __init__(
        self,
        api: ApiServer,
        resource: Resource[T],
        sink: Callable[[list[Change[T]]], None],
        *,
        page: int = 500,
        name: str = "",
        timing: Timing | None = None,
        went_back: Callable[[str], None] = lambda _why: None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._sink = sink
        self._page = page
        self._went_back = went_back
        self._timing = timing or Timing()
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  spreads load, hides nothing
        self._backoff = Backoff(self._timing.backoff, clock, self._rng)
        self._store = Store(resource.key)
        self._stats = ReflectorStats()
        self._log = log.bind(resource=resource.name)
        #: Where the watch resumes, "" if a list is due; and the newest version ever seen.
        self._version = ""
        self._highest = ""
        self._stale_lists = 0
        self._heard = clock()
        self._stop = threading.Event()
        #: Set by whoever wants the thread not to wait; and whether a list is wanted whatever the watch says.
        self._roused = threading.Event()
        self._relist_wanted = threading.Event()
        self._told = ""
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._watching = False
        self.synced = threading.Event()
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, name=name or f"reflect-{resource.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread, also in the midst of a watch. Waits at most `timeout` seconds for it."""
        self._stop.set()
        self._roused.set()
        with self._lock:
            if self._exchange is not None:
                self._exchange.interrupt()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wait_synced(self, timeout: float) -> bool:
        """Whether the first complete list has been told within `timeout` seconds."""
        return self.synced.wait(timeout)

    @property
    def path(self) -> str:
        """Of the collection."""
        return self._resource.path

    @property
    def version(self) -> str:
        """The resourceVersion up to which the sink has been told everything; "" before the first list."""
        return self._told

    def relist(self) -> None:
        """List anew, at once, instead of waiting for what the watch brings. For who cannot wait for a bookmark."""
        self._relist_wanted.set()
        self._roused.set()
        with self._lock:
            if self._exchange is not None and self._watching:
                self._exchange.interrupt()

    def last_contact_age(self) -> float:
        """Seconds since the API server was last heard (a page, an event, a bookmark); since the making if never."""
        return max(0.0, self._clock() - self._heard)

    @property
    def stats(self) -> ReflectorStats:
        """A copy of the counters."""
        return replace(self._stats)

    # -- the loop ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            delay = self._round()
            self._roused.wait(delay)
            if not self._stop.is_set():
                self._roused.clear()

    def _round(self) -> float:
        """List if need be, and watch until that ends. Returns the seconds to wait before the next round."""
        try:
            if self._relist_wanted.is_set():
                self._relist_wanted.clear()
                self._version = ""
            if not self._version:
                self._list()
            began = self._clock()
            self._watch()
        except Exception as error:
            if self._stop.is_set() or (self._relist_wanted.is_set() and isinstance(error, Interrupted)):
                return 0.0
            return self._recover(error)
        if self._clock() - began < _SHORT_WATCH:
            return self._backoff.next(first=0.0)
        return 0.0

    def _recover(self, error: Exception) -> float:
        self.last_error = str(error) or type(error).__name__
        self._stats.restarts += 1
        if isinstance(error, _ExpiredError):
            self._stats.expired += 1
            self._version = ""
            return self._backoff.next(first=0.0)
        if isinstance(error, ApiError | _RefusedError):
            return self._after_failure(error)
        self._version = ""
        self._log.error("reflector lists anew", error=self.last_error, exc_info=not isinstance(error, _RelistError))
        return self._backoff.next()

    def _after_failure(self, error: ApiError | _RefusedError) -> float:
        self._stats.failures += 1
        routine = isinstance(error, Interrupted)  # load balancers end connections, servers are rolled over
        delay = self._backoff.next(first=0.0 if routine else None)
        if isinstance(error, _RefusedError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, _LONGEST_RETRY_AFTER))
        write = self._log.info if routine else self._log.warning
        write("API server does not serve", error=self.last_error, retry_in=round(delay, 1))
        return delay

    # -- list ----------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        listed: dict[str, T] = {}
        unreadable: set[str] = set()
        version = self._read_pages(listed, unreadable)
        self._refuse_stale(version)
        self._deliver(self._store.replace(listed, version=version, unreadable=unreadable))
        self._version = self._told = version
        self._stats.relists += self.synced.is_set()
        self.synced.set()

    def _read_pages(self, listed: dict[str, T], unreadable: set[str]) -> str:
        """All pages of one consistent list. If a page token expires, the list starts anew, the third time unpaged."""
        for page_size in (self._page, self._page, 0):
            listed.clear()
            unreadable.clear()
            try:
                return self._read_list(page_size, listed, unreadable)
            except _ExpiredError:
                self._stats.expired += 1
        raise _RelistError(f"list {self._resource.path}: expires again and again")

    def _read_list(self, page_size: int, listed: dict[str, T], unreadable: set[str]) -> str:
        self._stats.lists += 1
        token = ""
        while True:
            page = self._read_page(page_size, token)
            self._decode_page(page, listed, unreadable)
            token = page.next
            if not token:
                return page.resource_version

    def _read_page(self, page_size: int, token: str) -> wire.ListPage:
        query = self._query(limit=str(page_size) if page_size else "", **{"continue": token})
        exchange = self._api.stream(self._resource.path, query=query, timeout_read=self._timing.list_silence)
        with self._current(exchange):
            response = Response(exchange.status, exchange.read(), exchange.headers)
        self._heard = self._clock()
        self._accept("list", response)
        try:
            return wire.decode_page(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._stats.broken_lines += 1
            raise _RelistError(f"list {self._resource.path}: not a list: {error}") from error

    def _decode_page(self, page: wire.ListPage, listed: dict[str, T], unreadable: set[str]) -> None:
        for index, raw in enumerate(page.items or ()):
            if index % _DECODES_IN_A_ROW == 0:
                time.sleep(0)
            obj = self._decode(raw)
            if obj is not None:
                listed[self._resource.key(obj)] = obj
            elif uid := wire.identify(raw).uid:
                unreadable.add(uid)

    def _decode(self, raw: msgspec.Raw) -> T | None:
        try:
            obj = self._resource.decode(raw)
        except DecodeError as error:
            self._undecodable(raw, str(error))
            return None
        if obj.uid and obj.resource_version:
            return obj
        self._undecodable(raw, "metadata.uid and metadata.resourceVersion must not be empty")
        return None

    def _undecodable(self, raw: msgspec.Raw, error: str) -> None:
        self._stats.decode_errors += 1
        self._log.warning("object cannot be read", error=error, uid=wire.identify(raw).uid)

    def _refuse_stale(self, version: str) -> None:
        """Never go back in time, unless the server insists."""
        if not version:
            raise _RelistError(f"list {self._resource.path}: metadata.resourceVersion must not be empty")
        if wire.newer(self._highest, version) and self._stale_lists < _STALE_LISTS_REFUSED:
            self._stale_lists += 1
            self._stats.stale_lists += 1
            raise _RelistError(f"list {self._resource.path}: is at {version}, but {self._highest} was seen before")
        if wire.newer(self._highest, version):
            self._went_back(f"{self._resource.name} are at {version}, but {self._highest} was seen before")
        self._stale_lists = 0
        self._highest = version

    # -- watch ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        timing = self._timing
        seconds = self._rng.uniform(timing.shortest_watch, timing.longest_watch)
        query = self._query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(max(1, round(seconds))),
        )
        silence = min(timing.watch_silence, seconds + 30)
        exchange = self._api.stream(self._resource.path, query=query, timeout_read=silence)
        with self._current(exchange, watching=True):
            if exchange.status != 200:
                self._accept("watch", Response(exchange.status, exchange.read(), exchange.headers))
            self._heard = self._clock()
            self._stats.watches += 1
            self._follow(exchange)

    def _follow(self, exchange: Exchange) -> None:
        tail = b""
        try:
            for chunk in exchange:
                self._heard = self._clock()
                *lines, tail = (tail + chunk).split(b"\n")
                if len(tail) > _LONGEST_LINE:
                    raise _RelistError("watch: a line without end")
                self._deliver(change for line in lines if line.strip() for change in self._changes(line))
                self._told = self._version
        except Interrupted as error:
            self._stats.silences += error.timed_out
            raise

    def _changes(self, line: bytes) -> Iterator[Change[T]]:
        self._stats.events += 1
        try:
            event = wire.decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._stats.broken_lines += 1
            raise _RelistError(f"watch: broken line: {error}") from error
        if event.type in ("ADDED", "MODIFIED"):
            yield from self._seen(event.object)
        elif event.type == "DELETED":
            yield from self._deleted(event.object)
        elif event.type == "BOOKMARK":
            self._stats.bookmarks += 1
            self._advance(wire.identify(event.object).resource_version)
        elif event.type == "ERROR":
            self._raise_error(wire.failure(event.object))
        else:
            self._stats.unknown_events += 1

    def _seen(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        obj = self._decode(raw)
        if obj is not None:
            yield from self._store.seen(obj)
        self._advance(obj.resource_version if obj is not None else wire.identify(raw).resource_version)

    def _deleted(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        obj = self._decode(raw)
        identity = wire.identify(raw)
        yield from self._store.gone(obj) if obj is not None else self._store.gone_unread(identity.uid)
        self._advance(identity.resource_version)

    @staticmethod
    def _raise_error(failure: wire.Failure) -> None:
        text = f"watch: ERROR event: {failure.code} {failure.message}"
        raise _ExpiredError(text) if failure.code == 410 else _RelistError(text)

    # -- both ----------------------------------------------------------------------------------------------------

    def _advance(self, version: str) -> None:
        """Resume from here. A late event does not turn the clock back."""
        if version and not wire.newer(self._version, version):
            self._version = version
            self._highest = version

    def _deliver(self, changes: Iterable[Change[T]]) -> None:
        """Tell the sink. What is not taken, whatever the cause, is told again by the list that follows."""
        changes = iter(changes)
        try:
            while batch := list(islice(changes, _BATCH)):
                self._tell(batch)
                self._store.settle()
                self._stats.changes += len(batch)
                if len(batch) == _BATCH:  # there may be more at once; else the next read lets others in
                    time.sleep(0)
        except BaseException:
            self._store.undo()
            raise

    def _tell(self, batch: list[Change[T]]) -> None:
        try:
            self._sink(batch)
        except Exception as error:
            self._stats.sink_failures += 1
            self._log.exception("sink failed", changes=len(batch))
            raise _SinkError(f"sink: {error!r}") from error

    def _accept(self, verb: str, response: Response) -> None:
        if response.status == 410:
            raise _ExpiredError(f"{verb} {self._resource.path}: {response.message}")
        if response.status == 504 and _FROM_THE_FUTURE in response.message:
            raise _RelistError(f"{verb} {self._resource.path}: {response.message}")
        if response.status != 200:
            raise _RefusedError(f"{verb} {self._resource.path}", response)

    @contextmanager
    def _current(self, exchange: Exchange, *, watching: bool = False) -> Iterator[None]:
        """Within, `stop` can interrupt the exchange, and `relist` if it is a watch."""
        with self._lock:
            if self._stop.is_set() or (watching and self._relist_wanted.is_set()):
                raise Interrupted("not wanted any more")
            self._exchange, self._watching = exchange, watching
        try:
            with exchange:
                yield
        finally:
            with self._lock:
                self._exchange = None

    def _query(self, **parameters: str) -> Mapping[str, str]:
        parameters["fieldSelector"] = self._resource.field_selector
        return {name: value for name, value in parameters.items() if value}
