"""Feeds the engine of start-up ordering with pods, and with the objects that pods may wait for.

    informer --> is its API served? --no--> absent: asked for again every half minute
                       |yes                    |
                       +--> started <----------+
    all are listed, or absent --> `synced`, once

An API that is not served has no objects. Objects of a CustomResourceDefinition that is installed later are followed
without a restart.
"""

from __future__ import annotations

import http
import threading
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from extender.kube.client.api import ApiError, ApiServer
from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.ordering.events import OrderingEvent, PodGone, PodSeen, WorkloadGone, WorkloadSeen
from extender.ordering_settings import Kind
from extender.server.informers import Informers, is_undefined
from extender.server.ordering.resources import APIS, SeenPod, SeenWorkload, pods, workloads

log = structlog.get_logger(__name__)

#: Seconds between two questions whether an API is served by now, and the time-out of one.
ASK_AGAIN, _TIMEOUT = 30.0, 5.0


class Sources:
    """The informers of one server. `handle` gets the events. `synced` is called once, on a thread of its own.

    `relist_seconds`: how often everything is listed again, in case a watch has lost an event; 0: never.
    """

    def __init__(
        self,
        api: ApiServer,
        kinds: Sequence[Kind],
        informers: Informers,
        handle: Callable[..., None],
        *,
        synced: Callable[[], None],
        relist_seconds: float,
        ask_again: float = ASK_AGAIN,
    ) -> None:
        self._api = api
        self._handle = handle
        self._synced = synced
        self._informers = informers
        self._relist_seconds = relist_seconds
        self._ask_again = ask_again
        self._look = threading.Event()
        self._stopped = threading.Event()
        self.pods = informers.make(pods(), self._pods_changed, on_synced=self._look.set)
        self.workloads: tuple[Reflector[SeenWorkload], ...] = tuple(
            informers.make(workloads(api), self._workloads_changed, on_synced=self._look.set)
            for kind in kinds
            for api in APIS[kind]
        )
        #: Informers that have not been started, and those of them whose API is not served.
        self._waiting: list[Reflector[SeenWorkload]] = list(self.workloads)
        self._absent: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="waggle-ordering", daemon=True)
        self._lister = threading.Thread(target=self._list_again, name="waggle-ordering-list", daemon=True)

    def start(self) -> None:
        """Start the informers. Return before their first lists are complete."""
        self.pods.start()
        self._thread.start()
        if self._relist_seconds:
            self._lister.start()

    def stop(self) -> None:
        """Stop the threads. Idempotent; works without a start. The informers are stopped by their owner."""
        self._stopped.set()
        self._look.set()
        for thread in (self._thread, self._lister):
            if thread.is_alive():
                thread.join(timeout=_TIMEOUT)

    # -- what is known --------------------------------------------------------------------------------------------

    def missing(self) -> str:
        """What must be known before anything is decided, and is not; "" if all is."""
        behind = [each for each in self._informers.all if not (each.synced.is_set() or self._is_absent(each))]
        if not behind:
            return ""
        failed = next((each for each in behind if each.last_error), behind[0])
        return f"{failed.name}: {failed.last_error or 'being listed'}"

    def warning(self) -> str:
        """Which informers fail that were listed before; "" if none does."""
        failing = [each for each in self._informers.synced if each.failing]
        return "; ".join(f"{each.name}: {each.last_error}" for each in failing)

    def not_served(self) -> tuple[str, ...]:
        """The resources that the API server does not serve."""
        return tuple(sorted(each.name for each in self._informers.all if self._is_absent(each)))

    def _is_absent(self, informer: Reflector[Any]) -> bool:
        """Whether the API is not served. An informer finds that out by itself if the question was not answered."""
        return informer.name in self._absent or is_undefined(informer)

    # -- the threads ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_synced = False
        while not self._stopped.is_set():
            self._look.clear()
            self._start_served()
            if not is_synced and not self.missing():
                is_synced = True
                self._synced()
                log.info("ordering ready", pods=len(self.pods), not_served=list(self.not_served()))
            self._look.wait(self._ask_again if self._waiting or not is_synced else None)

    def _start_served(self) -> None:
        for informer in list(self._waiting):
            if self._stopped.is_set():
                return
            if self._is_served(informer):
                self._waiting.remove(informer)
                informer.start()
                self._absent.discard(informer.name)
            else:
                self._absent.add(informer.name)

    def _is_served(self, informer: Reflector[Any]) -> bool:
        """Whether the API server has the resource. If it does not say, the informer finds out, and reports why not."""
        try:
            response = self._api.request("GET", informer.path, query={"limit": "1"}, timeout=_TIMEOUT)
        except ApiError:
            return True
        return response.status != http.HTTPStatus.NOT_FOUND

    def _list_again(self) -> None:
        while not self._stopped.wait(self._relist_seconds):
            self._informers.relist()

    # -- changes --------------------------------------------------------------------------------------------------

    def _pods_changed(self, changes: list[Change[SeenPod]]) -> None:
        self._handle(*map(_pod_event, changes))

    def _workloads_changed(self, changes: list[Change[SeenWorkload]]) -> None:
        self._handle(*map(_workload_event, changes))


def _pod_event(change: Change[SeenPod]) -> OrderingEvent:
    pod = change.obj.record
    return PodSeen(pod) if change.kind is ChangeKind.SEEN else PodGone(pod.key, pod.uid)


def _workload_event(change: Change[SeenWorkload]) -> OrderingEvent:
    found = change.obj.record
    return WorkloadSeen(found) if change.kind is ChangeKind.SEEN else WorkloadGone(found.target, found.uid)
