"""Keeps a local copy of one resource of the API server: list once, then watch, for ever, through every fault.

                 +------------------------------ 410 (either form), broken line, handler failed --------------+
                 v                                                                                            |
    start --> LISTING --all pages, differences sent--> synced --> WATCHING --ended, silent, dropped--> back-off
                 |  ^                                                 ^                                  |  |
              back-off (page expired: list again)                     +----- resume from the last version +  |
                                                                                          (too old: list) ---+

Promises to each handler, which is called with batches of changes, by the reflector's thread or in its place:

* after any sequence of faults the handler has received what the API server holds; no change is lost, least of all a
  DELETE;
* GONE carries the last known record; an object that was recreated under another UID is GONE, then SEEN;
* an object that cannot be decoded affects no other object (and its last known record stays);
* if a handler raises, the thread lives on, all handlers get the batch, and its changes are delivered again, to all.

`synced` is set when the first complete list has been delivered to all handlers. Silence is bounded: half-open
connections are detected.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Generic, TypeVar

import structlog

from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Exchange, Interrupted, Request, Response
from extender.kube.client.backoff import Backoff
from extender.kube.client.pace import Pace
from extender.kube.informers.listing import ListPager, unlimited
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.reflection import (
    NODES,
    PODS,
    ExpiredError,
    ListBoundError,
    ReflectorStats,
    RefusedError,
    RelistError,
    Resource,
    Timing,
    accept,
)
from extender.kube.informers.resume_version import ResumeVersion
from extender.kube.informers.store import Change, ChangeKind, Store, Tracked
from extender.kube.informers.watching import EventReader, follow

__all__ = ["NODES", "PODS", "Change", "ChangeKind", "Reflector", "ReflectorStats", "Resource", "Timing"]

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Tracked)

_BATCH = 50
#: A watch that ended sooner than this was not a normal one: the next one is opened after a back-off.
_SHORT_WATCH = 5.0
#: Seconds to request for a watch that is opened for its bookmark. kube-apiserver sends a bookmark two seconds before
#: the end (and once a minute), so this is the shortest watch that has one, after about a second.
_BOOKMARKED_WATCH = 3
#: Upper bound of Retry-After.
_LONGEST_RETRY_AFTER = 120.0


class _HandlerError(RelistError):
    """A handler failed on a batch."""


Handler = Callable[[list[Change[T]]], None]


class Reflector(Generic[T]):
    """The thread that reflects one resource. Each of the `handlers` gets at most 50 changes a call, in this order.

    `went_back` is called with a reason if the server insists on a version that is older than one it has shown before.
    With `in_loop`, watches are read in an event loop while there is one, and handlers are then called there.
    `most` returns how many bytes of memory, as `Resource.weigh` counts them, the records may take. `on_synced` is
    called once, on the reflector's thread, when the first complete list has been delivered; `on_listed` after every
    one, before `on_synced`.
    """

    def __init__(
        self,
        api: ApiServer,
        resource: Resource[T],
        *handlers: Handler[T],
        page: int = 500,
        name: str = "",
        timing: Timing | None = None,
        went_back: Callable[[str], None] = lambda _why: None,
        in_loop: LoopReader | None = None,
        most: Callable[[], int] = unlimited,
        on_synced: Callable[[], None] = lambda: None,
        on_listed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self._on_synced = on_synced
        self._on_listed = on_listed
        self._resource = resource
        self._handlers = list(handlers)
        self._went_back = went_back
        self._in_loop = in_loop or LoopReader()
        self._timing = timing or Timing()
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  spreads load, hides nothing
        self._backoff = Backoff(self._timing.backoff, clock, self._rng)
        self._log = log.bind(resource=resource.name)
        self._stats = ReflectorStats()
        self._store = Store(resource.key, resource.same, resource.weigh, resource.forget)
        self._progress = ResumeVersion(resource.path, self._stats)
        objects = ObjectDecoder(resource, self._stats, self._log)
        self._objects = objects
        self._lister = ListPager(
            *(resource, objects, self._stats, self._get),
            page=page,
            seconds=self._timing.list_whole,
            most=most,
            offer=self._offer,
            clock=clock,
        )
        self._events = EventReader(resource, objects, self._store, self._progress, self._stats, most)
        self._last_sign = clock()
        self._failed_at = float("-inf")
        self._pace = Pace(clock)
        self._stop = threading.Event()
        #: `_roused` wakes the thread from its wait. The other two say what to do next, whatever the present watch does.
        self._roused = threading.Event()
        self._list_wanted = threading.Event()
        self._bookmark_wanted = threading.Event()
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._watching = False
        self.synced = threading.Event()
        self.last_error = ""
        #: The HTTP status with which the API server refused the last request that failed; 0: it failed otherwise.
        self.refused_status = 0
        self._thread = threading.Thread(target=self._run, name=name or f"reflect-{resource.name}", daemon=True)

    def add_handler(self, handler: Handler[T]) -> None:
        """Add a handler. Raises RuntimeError after the start: the handler would miss what was delivered before."""
        if self._thread.ident is not None:
            raise RuntimeError(f"{self.name}: expected all handlers before the start")
        self._handlers.append(handler)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread, also in the middle of a watch. Waits at most `timeout` seconds for it."""
        self._stop.set()
        self._roused.set()
        with self._lock:
            if self._exchange is not None:
                self._exchange.interrupt()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wait_synced(self, timeout: float) -> bool:
        """Whether the first complete list was delivered within `timeout` seconds."""
        return self.synced.wait(timeout)

    @property
    def name(self) -> str:
        """The name of what is reflected, such as "pods" or "claims.waggle.dev"."""
        return self._resource.name

    @property
    def path(self) -> str:
        """Path of the collection."""
        return self._resource.path

    @property
    def version(self) -> str:
        """The resourceVersion up to which every change was delivered; "" before the first list."""
        return self._progress.delivered

    def __len__(self) -> int:
        """Number of known objects."""
        return len(self._store)

    @property
    def weight(self) -> int:
        """Bytes of memory that the records take, estimated."""
        return self._store.weight

    def ask_for_bookmark(self) -> None:
        """Reopen the watch at its present version such that the API server sends a bookmark within about a second and a
        half.

        This costs both sides no more than the events that were missed.
        """
        self._want(self._bookmark_wanted)

    def relist(self) -> None:
        """List at once, instead of waiting for what the watch brings."""
        self._want(self._list_wanted)

    def _want(self, what: threading.Event) -> None:
        what.set()
        self._roused.set()
        with self._lock:
            if self._exchange is not None and self._watching:
                self._exchange.interrupt()

    def last_contact_age(self) -> float:
        """Seconds since the API server last sent something (a page, an event, a bookmark); since construction if it
        never did."""
        return max(0.0, self._clock() - self._last_sign)

    @property
    def failing(self) -> bool:
        """Whether the last request failed: nothing was heard since."""
        return self._failed_at > self._last_sign

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
        """List if necessary, and watch until the watch ends. Returns the seconds to wait before the next round."""
        try:
            if self._list_wanted.is_set():
                self._list_wanted.clear()
                self._progress.restart()
            if not self._progress.version:
                self._list()
            began = self._clock()
            for_bookmark = self._bookmark_wanted.is_set()
            self._watch(for_bookmark=for_bookmark)
        except Exception as error:
            if self._stop.is_set() or (self._is_wanted() and isinstance(error, Interrupted)):
                return 0.0
            return self._recover(error)
        if self._clock() - began < _SHORT_WATCH and not for_bookmark:
            return self._backoff.next(first=0.0)
        return 0.0

    def _is_wanted(self) -> bool:
        return self._list_wanted.is_set() or self._bookmark_wanted.is_set()

    def _recover(self, error: Exception) -> float:
        """Decide how to go on after a fault. Returns the seconds to wait before the next round.

        After an error of the connection or the API server the watch resumes at its version; after any other fault the
        next round lists again.
        """
        self.last_error = str(error) or type(error).__name__
        self.refused_status = error.status if isinstance(error, RefusedError) else 0
        self._stats.restarts += 1
        if isinstance(error, ExpiredError):
            self._stats.expired += 1
            self._progress.restart()
            return self._backoff.next(first=0.0)
        if isinstance(error, ApiError | RefusedError):
            return self._after_failure(error)
        if isinstance(error, ListBoundError):
            self._api.refusals.count(error.bound, self.last_error)
        self._progress.restart()
        self._log.error("reflector lists anew", error=self.last_error, exc_info=not isinstance(error, RelistError))
        return self._backoff.next()

    def _after_failure(self, error: ApiError | RefusedError) -> float:
        self._stats.failures += 1
        self._failed_at = self._clock()
        routine = isinstance(error, Interrupted)  # load balancers close connections, servers are restarted
        delay = self._backoff.next(first=0.0 if routine else None)
        if isinstance(error, RefusedError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, _LONGEST_RETRY_AFTER))
        write = self._log.info if routine else self._log.warning
        write("API server does not serve", error=self.last_error, retry_in=round(delay, 1))
        return delay

    # -- list ----------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """Read a complete list, deliver its differences, and set the version at which the watch begins."""
        listed = self._lister.read()
        self._objects.say_of_list(listed.unreadable)
        if why := self._progress.accept_list(listed.version):
            self._went_back(f"list {self.path}: {why}")
        self._deliver(self._store.replace(listed.objects, version=listed.version, unreadable=listed.unreadable_uids))
        self._resource.forget_others({obj.uid for obj in self._store.records()})
        self._progress.version = self._progress.delivered = listed.version
        self._on_listed()
        if self.synced.is_set():
            self._stats.relists += 1
        else:
            self._on_synced()
            self.synced.set()

    def _get(self, query: dict[str, str]) -> Response:
        """Fetch one page of the list."""
        request = Request("GET", self.path, self._resource.selected(query), most=bounds.PAGE)
        exchange = self._api.exchange(request, timeout=self._timing.list_page)
        self._pace.waits()
        with self._current(exchange):
            response = exchange.response()
        self._last_sign = self._clock()
        self._pace.goes_on()
        return response

    # -- watch ---------------------------------------------------------------------------------------------------

    def _watch(self, *, for_bookmark: bool) -> None:
        """Watch from the resume version until the watch ends. Raises an error if it does not end normally."""
        timing = self._timing
        seconds = _BOOKMARKED_WATCH if for_bookmark else self._rng.uniform(timing.shortest_watch, timing.longest_watch)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._progress.version,
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        silence = min(timing.watch_silence, seconds + 30)
        exchange = self._api.stream(self.path, query=self._resource.selected(query), timeout_read=silence)
        with self._current(exchange, watching=True, for_bookmark=for_bookmark):
            if exchange.status != 200:
                accept(f"watch {self.path}", Response(exchange.status, exchange.read(), exchange.headers))
            self._last_sign = self._clock()
            self._stats.watches += 1
            self._follow(exchange, silence, self._last_sign + seconds + bounds.WATCH_OVERTIME)

    def _follow(self, exchange: Exchange, silence: float, end: float) -> None:
        """Deliver the events of a watch. Only a complete line counts as a sign of life."""

        def take(lines: Sequence[bytes]) -> None:
            self._last_sign = self._clock()
            self._deliver(change for line in lines for change in self._events.changes(line))
            self._progress.delivered = self._progress.version
            exchange.extend(min(silence, end - self._clock()))

        try:
            follow(exchange, self._paced(exchange), self._in_loop, take)
        except Interrupted as error:
            self._stats.silences += error.timed_out
            raise

    def _paced(self, exchange: Exchange) -> Iterator[bytes]:
        """The pieces of a watch. After each piece that arrived as fast as it was read, other threads get time to
        run."""
        self._pace.goes_on()
        for piece in exchange:
            self._pace.goes_on()
            yield piece
            if self.synced.is_set():
                self._pace.rest()
            self._pace.waits()

    # -- both ----------------------------------------------------------------------------------------------------

    def _deliver(self, changes: Iterable[Change[T]]) -> None:
        """Deliver changes to the handlers. If that fails for any reason, the list that follows delivers them again."""
        changes = iter(changes)
        try:
            while batch := list(islice(changes, _BATCH)):
                self._notify(batch)
                self._store.settle()
                self._stats.changes += len(batch)
                if len(batch) == _BATCH:  # more may be ready already; otherwise the next read lets others in
                    self._offer()
            self._store.settle()
        except BaseException:
            self._store.undo()
            raise

    def _offer(self) -> None:
        """Let other threads run, during a list or when much arrived together. Before the first list is complete no
        request is served and all threads wait for this one, so it only yields."""
        if not (self.synced.is_set() and self._pace.rest()):
            time.sleep(0)

    def _notify(self, batch: list[Change[T]]) -> None:
        failure: Exception | None = None
        for handler in self._handlers:
            try:
                handler(batch)
            except Exception as error:
                failure = error
                self._stats.handler_failures += 1
                self._log.exception("handler failed", changes=len(batch))
        if failure is not None:
            raise _HandlerError(f"handler: {failure!r}") from failure

    @contextmanager
    def _current(self, exchange: Exchange, *, watching: bool = False, for_bookmark: bool = False) -> Iterator[None]:
        """Register the exchange, so that `stop` can interrupt it, and, if it is a watch, a request for a list or a
        bookmark."""
        with self._lock:
            if for_bookmark:
                self._bookmark_wanted.clear()
            if self._stop.is_set() or (watching and self._is_wanted()):
                raise Interrupted("not wanted any more")
            self._exchange, self._watching = exchange, watching
        try:
            with exchange:
                yield
        finally:
            with self._lock:
                self._exchange = None
