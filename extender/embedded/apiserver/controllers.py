"""The controllers that this cluster has: the least that scaling, draining and deleting need to be worth trying.

    store change --touched--> keys, each once --(next turn of the event loop)--> reconcile(key) --> writes

Like real ones they look at the state, not at the event: a key that is reconciled twice is no harm. They can be switched
off, and then nothing happens by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Hashable, Iterable
from typing import Protocol

from extender.embedded.apiserver.binder import Binder
from extender.embedded.apiserver.budgets import BudgetController
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.deployments import DeploymentController
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.garbage import GarbageCollector
from extender.embedded.apiserver.replicas import ReplicaController
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.table import PODS

_LOG = logging.getLogger(__name__)


class Controller(Protocol):
    def touched(self, change: Change) -> Iterable[Hashable]:
        """What has to be looked at again after this change. Must not write."""

    def reconcile(self, key: Hashable) -> None:
        """Make what is as it should be."""


class Controllers:
    """All of them, on the event loop of the store.

    `pod_lag`: seconds after which the controller of replicas sees what others did to a pod. Its own writes it knows at
    once, as the real one does by its expectations. `binds`: whether pods get nodes here, since no kube-scheduler runs.
    """

    def __init__(self, cluster: Cluster, *, pod_lag: float = 0.0, binds: bool = False) -> None:
        self._cluster = cluster
        self._replicas = ReplicaController(cluster)
        self._controllers: tuple[Controller, ...] = (
            GarbageCollector(cluster),
            DeploymentController(cluster),
            self._replicas,
            BudgetController(cluster),
            *((Binder(cluster),) if binds else ()),
        )
        self._pod_lag = pod_lag
        self._acting: Controller | None = None
        #: In the order in which they came; a dict because each is in it once.
        self._queue: dict[tuple[Controller, Hashable], None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._planned: asyncio.Handle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._cluster.store.listeners.append(self._notice)
        for collection in self._cluster.store:
            for stored in list(collection):
                self._notice(Change("ADDED", collection.resource, stored, None))

    def stop(self) -> None:
        with contextlib.suppress(ValueError):
            self._cluster.store.listeners.remove(self._notice)
        if self._planned is not None:
            self._planned.cancel()

    def _notice(self, change: Change) -> None:
        late = self._replicas if self._pod_lag and change.resource is PODS else None
        for controller in self._controllers:
            if controller is late and controller is not self._acting and self._loop is not None:
                self._loop.call_later(self._pod_lag, self._deliver, controller, change)
                continue
            for key in controller.touched(change):
                self._queue[controller, key] = None
        self._plan()

    def _deliver(self, controller: Controller, change: Change) -> None:
        for key in controller.touched(change):
            self._queue[controller, key] = None
        self._plan()

    def _plan(self) -> None:
        if self._queue and self._planned is None and self._loop is not None:
            self._planned = self._loop.call_soon(self._work)

    def _work(self) -> None:
        queue, self._queue = self._queue, {}
        for controller, key in queue:
            self._acting = controller
            try:
                controller.reconcile(key)
            except ApiError as error:
                # What is missing (a priority class, say) may come, and touch the key again.
                _LOG.warning("%s %s: %s", type(controller).__name__, key, error)
            except Exception:
                # Objects are not checked to the last field; one that cannot be worked with must not stop the others.
                _LOG.exception("%s %s", type(controller).__name__, key)
        self._acting = None
        self._planned = None
        if self._queue and self._loop is not None:
            self._planned = self._loop.call_soon(self._work)
