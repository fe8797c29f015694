"""The election of one replica, and the terms in which its engines decide (`terms.py`).

    Elector (the Lease) --status--> Leadership --> terms of the engine of pods
                                        \\-------> terms of every further engine of this process

A leader that ends in order waits until its own informers have shown all that it wrote. It then writes the highest
resourceVersion that it has seen of each resource into the Lease, as a note for the next leader, which can begin as soon
as its informers have reached these versions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from extender.core.freshness import HandoverVersions
from extender.kube.client.api import ApiServer
from extender.kube.informers.reflector import Reflector
from extender.kube.lease.election import LeaseTiming
from extender.kube.lease.elector import Elector, LeaderStatus, unique_identity
from extender.scheduling.events import TermBegan, TermEnded
from extender.server.terms import EngineTerms
from extender.server.views import Metric
from extender.settings import LeaderElectionSettings

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_POLL = 0.02
#: How long an ending leader waits for its informers to show its last writes, seconds.
_LAST_WORDS = 1.0


class Leadership:
    """One replica's part in the election, from `start` to `stop`. `remaining` is the fence of all its decisions."""

    def __init__(self, api: ApiServer, settings: LeaderElectionSettings) -> None:
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
        self._known: Callable[[], HandoverVersions | None] = lambda: None
        self._pods = EngineTerms(api, self.remaining, left=self._left)
        self._engines = [self._pods]
        self._term = 0
        self._terms = 0

    def add(self, engine: EngineTerms) -> None:
        """Lead a further engine. Call it before the start."""
        self._engines.append(engine)

    def compete(self) -> None:
        """Start to compete for the Lease, for the engines that were added."""
        self._elector.start()

    def start(
        self,
        handle: Callable[[TermBegan | TermEnded], None],
        known: Callable[[], HandoverVersions | None],
        informers: Sequence[Reflector[Any]],
    ) -> None:
        """Start the terms of the engine of pods, and compete for the Lease.

        `handle` takes TermBegan and TermEnded; `known` returns the versions that the next leader must have seen;
        `informers` must catch up before a term begins.
        """
        self._known = known
        self._pods.start(lambda term: handle(TermBegan(term)), lambda term: handle(TermEnded(term)), lambda: informers)
        self.compete()

    def informers_ready(self) -> None:
        """Record that the first lists are complete and all of their events were handled."""
        self._pods.informers_ready()

    def end_term(self) -> None:
        """End the term: this replica decides nothing any more. Writes in flight may go on until `stop`."""
        for engine in self._engines:
            engine.stop()

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
        while (led := self._pods.led) and time.monotonic() < end:
            if known := self._known():
                return _Note(led, known).text()
            time.sleep(_POLL)
        return ""

    def _left(self, term: int) -> HandoverVersions | None:
        note = _Note.read(self._elector.status.note)
        return note.versions if note is not None and note.term == term - 1 else None

    def _changed(self, status: LeaderStatus) -> None:
        """Handle a change of the leader status. Runs on the lease's thread, which must renew in time: no slow work."""
        before, self._term = self._term, status.term
        for engine in self._engines:
            engine.changed(status.term)
        self._terms += bool(status.term and before != status.term)


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
