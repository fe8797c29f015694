"""Reads one complete, consistent list, page by page.

page --continue--> page ... --> complete
  ^                  |
  +-- token expired -+   (twice; the third time without pages)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from extender.kube import wire
from extender.kube.api import Response
from extender.kube.objects import Objects, Unreadable
from extender.kube.reflection import ExpiredError, ReflectorStats, RelistError, Resource, accept
from extender.kube.store import Tracked

T = TypeVar("T", bound=Tracked)

#: After so many objects other threads are offered the GIL: without it the p99 of /filter during a list is 17, not 4 ms.
_DECODES_IN_A_ROW = 20


@dataclass
class Listed(Generic[T]):
    """A complete list: its objects by key, what of it could not be read, and how new it is."""

    objects: dict[str, T] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    version: str = ""

    @property
    def unreadable_uids(self) -> set[str]:
        return {each.who.uid for each in self.unreadable if each.who.uid}


class Lister(Generic[T]):
    """`get` makes the request with the given query and returns the whole answer; its errors pass through."""

    def __init__(
        self,
        resource: Resource[T],
        objects: Objects[T],
        stats: ReflectorStats,
        get: Callable[[dict[str, str]], Response],
        *,
        page: int,
    ) -> None:
        self._resource = resource
        self._objects = objects
        self._stats = stats
        self._get = get
        self._page = page

    def read(self) -> Listed[T]:
        """Raises RelistError, RefusedError, ApiError."""
        for page_size in (self._page, self._page, 0):
            try:
                listed = self._read(page_size)
            except ExpiredError:
                self._stats.expired += 1
                continue
            self._objects.say_of_list(listed.unreadable)
            return listed
        raise RelistError(f"list {self._resource.path}: expires again and again")

    def _read(self, page_size: int) -> Listed[T]:
        self._stats.lists += 1
        listed: Listed[T] = Listed()
        token = ""
        while True:
            page = self._read_page(page_size, token)
            self._read_objects(page, listed)
            # All pages of a list are of one version. Should they not be, the watch shows what changed since the first.
            listed.version = listed.version or page.resource_version
            token = page.next
            if not token:
                return listed

    def _read_page(self, page_size: int, token: str) -> wire.ListPage:
        query = {"limit": str(page_size) if page_size else "", "continue": token}
        response = self._get({name: value for name, value in query.items() if value})
        accept(f"list {self._resource.path}", response)
        try:
            return wire.decode_page(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._stats.broken_lines += 1
            raise RelistError(f"list {self._resource.path}: not a list: {error}") from error

    def _read_objects(self, page: wire.ListPage, listed: Listed[T]) -> None:
        for index, raw in enumerate(page.items or ()):
            if index % _DECODES_IN_A_ROW == 0:
                time.sleep(0)
            obj = self._objects.read(raw)
            if isinstance(obj, Unreadable):
                listed.unreadable.append(obj)
            else:
                listed.objects[self._resource.key(obj)] = obj
