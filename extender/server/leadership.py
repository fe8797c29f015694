"""One replica's leadership: it decides only while it leads *and* has caught up with the API server.

    elected --> first lists complete? --> as new as the leader before left it, or as the API server is now
       |                                         |
       |                                         +--> TermBegan --> serves, writes
       +--- over, at any moment ---------------------> TermEnded

A new leader must know the previous leader's last writes before it decides anything. There are two ways to ensure that:

* The previous leader recorded them. A leader that ends in order waits until its own informers have shown all that it
  wrote. It then writes the highest resourceVersion that it has seen of each resource into the Lease. A replica whose
  informers have all reached these versions knows all that the previous leader knew.
* A read that bypasses all caches returns the current version of the API server's state, and the informers must reach
  it. That version belongs to the whole store, so there may never be an event with it. The replica does the following,
  in this order: wait a moment, since a large cluster always has events; request a bookmark; list again. If the list has
  one page only, it comes before the bookmark. Measured with kube-apiserver 1.36: the bookmark comes after 0.9 to 1.6 s,
  for any number of pods; a list of 50,000 takes many seconds.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from extender.core.freshness import HandoverVersions, older
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.informers import envelopes as wire
from extender.kube.informers.reflector import Reflector
from extender.kube.lease.election import LeaseTiming
from extender.kube.lease.elector import Elector, LeaderStatus, unique_identity
from extender.scheduling.events import Event, TermBegan, TermEnded
from extender.server.views import Metric
from extender.settings import LeaderElectionSettings

log = structlog.get_logger(__name__)

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: How long to wait for the watch to reach a version by itself, and with a requested bookmark, seconds.
_BRIEFLY = 0.2
_WITH_A_BOOKMARK = 4.0
_POLL = 0.02
#: A list of up to this many objects is quicker than a bookmark.
_QUICKLY_LISTED = 500
#: How long an ending leader waits for its informers to show its last writes, seconds.
_LAST_WORDS = 1.0
#: Seconds until a failed read is retried.
_PAUSE = 0.2
#: Time-out of such a read, seconds.
_READ_TIMEOUT = 2.0


class Leadership:
    """One replica's part in the election, from `start` to `stop`. `remaining` is the fence of all its decisions."""

    def __init__(self, api: ApiServer, settings: LeaderElectionSettings) -> None:
        self._api = api
        timing = LeaseTiming(
            lease=settings.lease_seconds,
            renew_deadline=settings.renew_deadline_seconds,
            retry=settings.retry_seconds,
        )
        self._elector = Elector(
            api,
            namespace=settings.namespace or own_namespace(),
            name=settings.name,
            identity=unique_identity(settings.identity),
            changed=self._changed,
            timing=timing,
        )
        self.remaining = self._elector.remaining
        self._handle: Callable[[Event], None] = lambda _event: None
        self._known: Callable[[], HandoverVersions | None] = lambda: None
        self._informers: Sequence[Reflector[Any]] = ()
        self._led = 0
        self._ready = threading.Event()
        self._elected = threading.Event()
        self._stopped = threading.Event()
        self._term = 0
        self._terms = 0
        self._thread = threading.Thread(target=self._run, name="waggle-term", daemon=True)

    def start(
        self,
        handle: Callable[[Event], None],
        known: Callable[[], HandoverVersions | None],
        informers: Sequence[Reflector[Any]],
    ) -> None:
        """Start to compete for the Lease.

        `handle` takes TermBegan and TermEnded; `known` returns the versions that the next leader must have seen;
        `informers` must catch up before a term begins.
        """
        self._handle = handle
        self._known = known
        self._informers = informers
        self._thread.start()
        self._elector.start()

    def informers_ready(self) -> None:
        """Record that the first lists are complete and all of their events were handled."""
        self._ready.set()

    def end_term(self) -> None:
        """End the term: this replica decides nothing any more. Writes in flight may go on until `stop`."""
        self._stopped.set()
        self._elected.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._term:
            self._handle(TermEnded(self._term))

    def stop(self) -> None:
        """Release the Lease, so that another replica can lead at once. Call it when no write is in flight any more."""
        self.end_term()
        self._elector.stop(note=self._last_words())

    def why_not_leading(self) -> str:
        """Return this replica's leader status as a text for display."""
        status = self._elector.status
        if status.term:
            return f"leads in term {status.term}, and catches up with the API server"
        said = f"the lease is held by {status.holder}" if status.holder else "nobody holds the lease"
        return f"{said} ({status.trouble})" if status.trouble else said

    def metrics(self) -> list[Metric]:
        status = self._elector.status
        return [
            Metric("waggle_leader", "gauge", "1 while this replica leads.", [({}, float(bool(status.term)))]),
            Metric("waggle_terms_total", "counter", "Terms that began here.", [({}, float(self._terms))]),
        ]

    def _last_words(self) -> str:
        """Return the versions that the next leader must have seen, as a note for the Lease; "" if unknown."""
        end = time.monotonic() + _LAST_WORDS
        while self._led and time.monotonic() < end:
            if known := self._known():
                return _Note(self._led, known).text()
            time.sleep(_POLL)
        return ""

    # -- election callbacks ---------------------------------------------------------------------------------------

    def _changed(self, status: LeaderStatus) -> None:
        """Handle a change of the leader status. Runs on the lease's thread, which must renew in time: no slow work."""
        before, self._term = self._term, status.term
        if before and before != status.term:
            self._handle(TermEnded(before))
        if status.term and before != status.term:
            self._terms += 1
            self._elected.set()

    # -- catching up ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._elected.wait()
            self._elected.clear()
            term = self._term
            if self._lasts(term) and self._caught_up(term):
                log.info("decides", term=term)
                self._led = term
                self._handle(TermBegan(term))
                if not self._lasts(term):  # its end may have been handled before its beginning
                    self._handle(TermEnded(term))

    def _lasts(self, term: int) -> bool:
        return not self._stopped.is_set() and self.remaining(term) > 0

    def _caught_up(self, term: int) -> bool:
        """Wait until all informers have caught up with the start of the term. False if the term ends before."""
        while not self._ready.wait(_POLL):
            if not self._lasts(term):
                return False
        return self._knows_what_was_left(term) or all(
            self._is_as_new(informer, version, term) for informer, version in self._versions_now(term)
        )

    def _knows_what_was_left(self, term: int) -> bool:
        note = _Note.read(self._elector.status.note)
        if note is None or note.term != term - 1:
            return False
        left = [(informer, note.versions.get(informer.name, "")) for informer in self._informers]
        return all(version and self._reaches(informer, version, term, within=_BRIEFLY) for informer, version in left)

    def _versions_now(self, term: int) -> list[tuple[Reflector[Any], str]]:
        """Return the informers that are behind the API server, each with the version to reach.

        Bookmarks are already requested where needed.
        """
        behind = []
        for informer in self._informers:
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


class _Note(NamedTuple):
    """The note that the leader of a term leaves in the Lease: the versions that the next leader must have seen.

    As text: {"term": 3, "nodes": "1200", "pods": "1234"}, one version for each resource.
    """

    term: int
    versions: HandoverVersions

    def text(self) -> str:
        return msgspec.json.encode({"term": self.term, **self.versions}).decode()

    @classmethod
    def read(cls, text: str) -> _Note | None:
        try:
            known = msgspec.json.decode(text, type=dict[str, int | str])
        except (msgspec.DecodeError, RecursionError):
            return None
        term = known.get("term")
        if not isinstance(term, int):
            return None
        return cls(term, {name: version for name, version in known.items() if isinstance(version, str)})


def own_namespace() -> str:
    """Return POD_NAMESPACE if it is set, else the namespace of the pod that this runs in; `default` outside a pod."""
    if namespace := os.environ.get("POD_NAMESPACE", ""):
        return namespace
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
