"""Makes the informers of one engine that has several: with the same timing, and one limit of memory for all of them."""

from __future__ import annotations

import http
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from extender.kube.client.api import ApiServer
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.reflector import Change, Reflector, Resource, Timing
from extender.kube.informers.store import Tracked

T = TypeVar("T", bound=Tracked)


def _nothing() -> None:
    return None


class Informers:
    """All informers of one server. `most`: bytes that their records may take together, as they weigh them.

    `went_back` is called if the API server was restored from a backup.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        most: int,
        went_back: Callable[[str], None],
        timing: Timing | None = None,
        in_loop: LoopReader | None = None,
    ) -> None:
        self._api = api
        self._most = most
        self._went_back = went_back
        self._timing = timing
        self._in_loop = in_loop
        self._lock = threading.Lock()
        self._all: tuple[Reflector[Any], ...] = ()

    def make(
        self,
        resource: Resource[T],
        changed: Callable[[list[Change[T]]], None],
        *,
        on_synced: Callable[[], None] = _nothing,
    ) -> Reflector[T]:
        """Return a new informer, which has not been started."""

        def room() -> int:
            return max(0, self._most - sum(each.weight for each in self._all if each is not informer))

        informer = Reflector(
            self._api,
            resource,
            changed,
            timing=self._timing,
            went_back=self._went_back,
            in_loop=self._in_loop,
            most=room,
            on_synced=on_synced,
        )
        with self._lock:
            self._all = (*self._all, informer)
        return informer

    def drop(self, informer: Reflector[Any]) -> None:
        """Stop an informer, and forget it."""
        informer.stop()
        with self._lock:
            self._all = tuple(each for each in self._all if each is not informer)

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        return self._all

    @property
    def synced(self) -> tuple[Reflector[Any], ...]:
        """Those whose first list is complete."""
        return tuple(each for each in self._all if each.synced.is_set())

    def relist(self) -> None:
        """List everything again, in case a watch has lost an event. An informer that is not synced lists anyway."""
        for informer in self.synced:
            informer.relist()

    def stop(self) -> None:
        """Stop all of them. Idempotent."""
        for informer in self._all:
            informer.stop()


def is_undefined(informer: Reflector[Any]) -> bool:
    """Whether the API server says that there is no such resource: then it has no objects."""
    return not informer.synced.is_set() and informer.refused_status == http.HTTPStatus.NOT_FOUND
