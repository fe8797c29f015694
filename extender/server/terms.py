"""The terms of one engine: it decides only while its replica leads *and* it has caught up with the API server.

    elected --> first lists complete? --> as new as the leader before left it, or as the API server is now
       |                                         |
       |                                         +--> begin(term) --> decides, writes
       +--- over, at any moment ---------------------> end(term)

A new leader must know the previous leader's last writes before it decides anything. There are two ways to ensure that:

* The previous leader left the versions that it had seen (`leadership.py`). A replica whose informers have all reached
  these versions knows all that the previous leader knew.
* A read that bypasses all caches returns the current version of the API server's state, and the informers must reach
  it. That version belongs to the whole store, so there may never be an event with it. The replica does the following,
  in this order: wait a moment, since a large cluster always has events; request a bookmark; list again. If the list has
  one page only, it comes before the bookmark. Measured with kube-apiserver 1.36: the bookmark comes after 0.9 to 1.6 s,
  for any number of pods; a list of 50,000 takes many seconds.

A process that serves several engines has one election, and each engine has terms of its own: one that catches up slowly
keeps no other one waiting.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog

from extender.core.freshness import HandoverVersions, older
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.informers import envelopes as wire
from extender.kube.informers.reflector import Reflector
from extender.kube.lease.elector import Fence

log = structlog.get_logger(__name__)

#: How long to wait for the watch to reach a version by itself, and with a requested bookmark, seconds.
_BRIEFLY = 0.2
_WITH_A_BOOKMARK = 4.0
_POLL = 0.02
#: A list of up to this many objects is quicker than a bookmark.
_QUICKLY_LISTED = 500
#: Seconds until a failed read is retried.
_PAUSE = 0.2
#: Time-out of such a read, seconds.
_READ_TIMEOUT = 2.0

Informers = Sequence[Reflector[Any]]


def _nothing_left(_term: int) -> HandoverVersions | None:
    return None


class EngineTerms:
    """`remaining` is the fence of all decisions. `left` returns the versions that the leader of the term before left
    for this one; None: they are not known. `engine` names it in the log."""

    def __init__(
        self,
        api: ApiServer,
        remaining: Fence,
        *,
        left: Callable[[int], HandoverVersions | None] = _nothing_left,
        engine: str = "",
    ) -> None:
        self._api = api
        self.remaining = remaining
        self._left = left
        self._log_fields = {"engine": engine} if engine else {}
        self._begin: Callable[[int], None] = _ignore
        self._end: Callable[[int], None] = _ignore
        self._informers: Callable[[], Informers] = tuple
        #: The last term that began here; 0: none.
        self.led = 0
        self._term = 0
        self._ready = threading.Event()
        self._elected = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"waggle-term{engine and '-'}{engine}", daemon=True)

    def start(
        self, begin: Callable[[int], None], end: Callable[[int], None], informers: Callable[[], Informers]
    ) -> None:
        """Start to begin and end terms. `informers` returns those that must have caught up before a term begins."""
        self._begin, self._end, self._informers = begin, end, informers
        self._thread.start()

    def informers_ready(self) -> None:
        """Record that the first lists are complete and all of their events were handled."""
        self._ready.set()

    def changed(self, term: int) -> None:
        """This replica leads in another term; 0: in none. For the lease's thread: it renews, so nothing here waits."""
        before, self._term = self._term, term
        if before and before != term:
            self._end(before)
        if term and before != term:
            self._elected.set()

    def stop(self) -> None:
        """End the term: this engine decides nothing any more. Idempotent; works also without a start."""
        self._stopped.set()
        self._elected.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._term:
            self._end(self._term)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._elected.wait()
            self._elected.clear()
            term = self._term
            if self._lasts(term) and self._caught_up(term):
                log.info("decides", term=term, **self._log_fields)
                self.led = term
                self._begin(term)
                if not self._lasts(term):  # its end may have been handled before its beginning
                    self._end(term)

    def _lasts(self, term: int) -> bool:
        return not self._stopped.is_set() and self.remaining(term) > 0

    # -- catching up ----------------------------------------------------------------------------------------------

    def _caught_up(self, term: int) -> bool:
        """Wait until all informers have caught up with the start of the term. False if the term ends before."""
        while not self._ready.wait(_POLL):
            if not self._lasts(term):
                return False
        informers = self._informers()
        return self._knows_what_was_left(informers, term) or all(
            self._is_as_new(informer, version, term) for informer, version in self._versions_now(informers, term)
        )

    def _knows_what_was_left(self, informers: Informers, term: int) -> bool:
        left = self._left(term)
        if left is None:
            return False
        versions = [(informer, left.get(informer.name, "")) for informer in informers]
        return all(
            version and self._reaches(informer, version, term, within=_BRIEFLY) for informer, version in versions
        )

    def _versions_now(self, informers: Informers, term: int) -> list[tuple[Reflector[Any], str]]:
        """Return the informers that are behind the API server, each with the version to reach.

        Bookmarks are already requested where needed.
        """
        behind = []
        for informer in informers:
            version = self._version_now(informer, term)
            if not self._reaches(informer, version, term, within=_BRIEFLY):
                behind.append((informer, version))
                if len(informer) > _QUICKLY_LISTED:
                    informer.ask_for_bookmark()
        return behind

    def _is_as_new(self, informer: Reflector[Any], version: str, term: int) -> bool:
        patience = _WITH_A_BOOKMARK if len(informer) > _QUICKLY_LISTED else 0.0
        if self._reaches(informer, version, term, within=patience):
            return True
        informer.relist()
        return self._reaches(informer, version, term, within=math.inf)

    def _version_now(self, informer: Reflector[Any], term: int) -> str:
        """Return the collection's current version, from a quorum read (one without resourceVersion)."""
        version = ""
        while not version and self._lasts(term):
            version = self._read_version(informer.path)
        return version

    def _read_version(self, path: str) -> str:
        try:
            response = self._api.request("GET", path, query={"limit": "1"}, timeout=_READ_TIMEOUT)
            return wire.decode_page(response.body).resource_version if response.ok else self._pause()
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError):
            return self._pause()

    def _pause(self) -> str:
        self._stopped.wait(_PAUSE)
        return ""

    def _reaches(self, informer: Reflector[Any], version: str, term: int, *, within: float) -> bool:
        end = time.monotonic() + within
        while not informer.version or older(informer.version, than=version):
            if not self._lasts(term) or time.monotonic() >= end:
                return False
            self._stopped.wait(_POLL)
        return self._lasts(term)


def _ignore(_term: int) -> None:
    """The engine has not started."""
