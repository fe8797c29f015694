"""What a replica does with an election: it decides only while it leads *and* has caught up with the API server.

    elected --> first lists complete? --> nodes, then pods: read as of now --> TermBegan --> serves, writes
       |                                        (list anew if need be)
       +--- over, at any moment ---------------------------------------------> TermEnded

What the leader before did last must be known before anything is decided: a read that no cache may answer says how new
the API server's state is, and the informers have to be as new as that.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from extender.core.events import Event, TermBegan, TermEnded
from extender.kube import wire
from extender.kube.api import ApiError, ApiServer
from extender.kube.election import LeaseTiming
from extender.kube.lease import Elector, Standing, unique_identity
from extender.kube.reflector import Reflector
from extender.settings import LeaderElectionSettings
from extender.views import Metric

log = structlog.get_logger(__name__)

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: Seconds that the watch gets to bring what was read; then we list anew.
_BRIEFLY = 0.2
_POLL = 0.02
#: Seconds between two reads that failed.
_PAUSE = 0.2
#: Seconds that one of them may take.
_READ_TIMEOUT = 2.0


class Leadership:
    """One replica's part in the election, from `start` to `stop`. `remaining` is the fence of all it decides."""

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
        self._informers: Sequence[Reflector[Any]] = ()
        self._ready = threading.Event()
        self._elected = threading.Event()
        self._stopped = threading.Event()
        self._term = 0
        self._terms = 0
        self._thread = threading.Thread(target=self._run, name="waggle-term", daemon=True)

    def start(self, handle: Callable[[Event], None], informers: Sequence[Reflector[Any]]) -> None:
        """`handle` takes TermBegan and TermEnded; `informers` are what has to be caught up, in this order."""
        self._handle = handle
        self._informers = informers
        self._thread.start()
        self._elector.start()

    def informers_ready(self) -> None:
        """The first lists are complete, and all of them was handled."""
        self._ready.set()

    def end_term(self) -> None:
        """Nothing is decided here any more; what is being written may go on until `stop`."""
        self._stopped.set()
        self._elected.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._term:
            self._handle(TermEnded(self._term))

    def stop(self) -> None:
        """Releases the Lease, for another replica to lead at once. Call it when nothing is written any more."""
        self.end_term()
        self._elector.stop()

    def standing(self) -> str:
        """How this replica stands, for people."""
        standing = self._elector.standing
        if standing.term:
            return f"leads in term {standing.term}, and catches up with the API server"
        said = f"the lease is held by {standing.holder}" if standing.holder else "nobody holds the lease"
        return f"{said} ({standing.trouble})" if standing.trouble else said

    def metrics(self) -> list[Metric]:
        standing = self._elector.standing
        return [
            Metric("waggle_leader", "gauge", "1 while this replica leads.", [({}, float(bool(standing.term)))]),
            Metric("waggle_terms_total", "counter", "Terms that began here.", [({}, float(self._terms))]),
        ]

    # -- the election's word --------------------------------------------------------------------------------------

    def _changed(self, standing: Standing) -> None:
        """On the lease's thread, which has to renew in time: nothing slow here."""
        before, self._term = self._term, standing.term
        if before and before != standing.term:
            self._handle(TermEnded(before))
        if standing.term and before != standing.term:
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
                self._handle(TermBegan(term))
                if not self._lasts(term):  # its end may have been told before its beginning
                    self._handle(TermEnded(term))

    def _lasts(self, term: int) -> bool:
        return not self._stopped.is_set() and self.remaining(term) > 0

    def _caught_up(self, term: int) -> bool:
        """Whether all informers are as new as the term's beginning; False if the term is over before."""
        while not self._ready.wait(_POLL):
            if not self._lasts(term):
                return False
        return all(self._as_new_as_now(informer, term) for informer in self._informers)

    def _as_new_as_now(self, informer: Reflector[Any], term: int) -> bool:
        version = ""
        while not version:
            if not self._lasts(term):
                return False
            version = self._version_now(informer)
        if self._reaches(informer, version, term, within=_BRIEFLY):
            return True
        informer.relist()
        return self._reaches(informer, version, term, within=math.inf)

    def _version_now(self, informer: Reflector[Any]) -> str:
        """The version of the whole collection, as a read without resourceVersion has it: from the quorum."""
        try:
            response = self._api.request("GET", informer.path, query={"limit": "1"}, timeout=_READ_TIMEOUT)
            return wire.decode_page(response.body).resource_version if response.ok else self._pause()
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError):
            return self._pause()

    def _pause(self) -> str:
        self._stopped.wait(_PAUSE)
        return ""

    def _reaches(self, informer: Reflector[Any], version: str, term: int, *, within: float) -> bool:
        end = time.monotonic() + within
        while not informer.version or wire.newer(version, informer.version):
            if not self._lasts(term) or time.monotonic() >= end:
                return False
            self._stopped.wait(_POLL)
        return self._lasts(term)


def own_namespace() -> str:
    """The namespace of the pod that this runs in; `default` outside of any."""
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
