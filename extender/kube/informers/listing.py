"""Reads one complete, consistent list, page by page.

    page --continue--> page ... --> complete
      ^  |               |
      |  +- too large ---|--> list again with smaller pages; those of the next list are larger again
      |                  |
      +-- token expired -+   (twice; the third time without pages)

A page is decoded as a whole and then dropped, so memory holds one page and the records. A list that does not end is
given up: when a page token repeats, when too many pages are empty, when its time is over, or when its records would
take too much memory (`most`, in bytes as `Resource.weigh` counts them).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from extender.kube.client import bounds
from extender.kube.client.api import Interrupted, Response
from extender.kube.client.bounds import Bound, BoundError
from extender.kube.informers import envelopes as wire
from extender.kube.informers.objects import ObjectDecoder, Unreadable
from extender.kube.informers.reflection import (
    ExpiredError,
    ListBoundError,
    ReflectorStats,
    RelistError,
    Resource,
    accept,
)
from extender.kube.informers.store import Tracked

T = TypeVar("T", bound=Tracked)

#: Objects after which other threads are offered the GIL: without that, the p99 of /filter during a list is 17, not 4
#: ms.
_DECODES_IN_A_ROW = 20
#: Bytes of memory that an unreadable object takes, about.
_UNREADABLE = 1000
#: The factor by which pages shrink if one is too large.
_SMALLER = 4


def unlimited() -> int:
    """No limit for the memory that the records of a list take."""
    return 1 << 62


@dataclass
class Listed(Generic[T]):
    """A complete list: its objects by key, those that could not be read, its version, and the memory that it takes."""

    objects: dict[str, T] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    version: str = ""
    weight: int = 0

    @property
    def unreadable_uids(self) -> set[str]:
        return {each.who.uid for each in self.unreadable if each.who.uid}


class ListPager(Generic[T]):
    """Reads lists. `get` makes the request with the given query and returns the whole response; its errors pass
    through.

    `page` is the number of objects of a page, `seconds` the time that a list may take, by `clock`. `offer` is called
    every 20 objects, to let other threads run.
    """

    def __init__(
        self,
        resource: Resource[T],
        objects: ObjectDecoder[T],
        stats: ReflectorStats,
        get: Callable[[dict[str, str]], Response],
        *,
        page: int,
        seconds: float = bounds.LIST_SECONDS,
        most: Callable[[], int] = unlimited,
        offer: Callable[[], None] = lambda: time.sleep(0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resource = resource
        self._objects = objects
        self._stats = stats
        self._get = get
        self._page = self._largest_page = page
        self._offer = offer
        self._seconds = seconds
        self._most = most
        self._clock = clock

    def read(self) -> Listed[T]:
        """Read one complete list. Raises RelistError, RefusedError, ApiError."""
        for paged in (True, True, False):
            try:
                return self._read_fitting(paged=paged)
            except ExpiredError:
                self._stats.expired += 1
        raise RelistError(f"list {self._resource.path}: expires again and again")

    def _read_fitting(self, *, paged: bool) -> Listed[T]:
        """Read with pages small enough: if a page is too large, list again with fewer objects a page."""
        while True:
            try:
                listed = self._read(self._page if paged else 0)
                self._page = min(self._largest_page, self._page * _SMALLER)
            except (Interrupted, BoundError) as error:
                if error.bound is not Bound.SIZE:
                    raise
                if not paged or self._page == 1:
                    raise self._unbounded(str(error), Bound.SIZE) from error
                self._page = max(1, self._page // _SMALLER)
            else:
                return listed

    def _read(self, page_size: int) -> Listed[T]:
        self._stats.lists += 1
        listed: Listed[T] = Listed()
        for page in self._pages(page_size):
            self._read_objects(page, listed)
            # All pages of a list have one version. Should they not, the watch shows what changed since the first.
            listed.version = listed.version or page.resource_version
        return listed

    def _pages(self, page_size: int) -> Iterator[wire.ListPage]:
        end = self._clock() + self._seconds
        tokens = {""}
        token, empty = "", 0
        while True:
            page = self._read_page(page_size, token)
            yield page
            token = page.next
            if not token:
                return
            empty += not page.items
            if token in tokens or len(token) > bounds.PAGE_TOKEN or empty > bounds.EMPTY_PAGES:
                raise self._unbounded("its page tokens lead nowhere", Bound.LIST)
            if self._clock() > end:
                raise self._unbounded(f"it does not end within {self._seconds:g} s", Bound.LIST)
            tokens.add(token)

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
        most = self._most()
        for index, raw in enumerate(page.items or ()):
            if index % _DECODES_IN_A_ROW == 0:
                self._offer()
            obj = self._objects.read(raw)
            if isinstance(obj, Unreadable):
                listed.unreadable.append(obj)
                listed.weight += _UNREADABLE
            else:
                obj = self._resource.keep(obj)
                if self._resource.lighter is not None and listed.weight > most // 2:
                    obj = self._resource.lighter(obj)
                listed.objects[self._resource.key(obj)] = obj
                listed.weight += self._resource.weigh(obj)
            if listed.weight > most:
                raise self._unbounded(no_room(most), Bound.CACHE)

    def _unbounded(self, why: str, bound: Bound) -> ListBoundError:
        return ListBoundError(f"list {self._resource.path}: {why}", bound)


def no_room(most: int) -> str:
    """The message for people when records take more memory than they may."""
    return f"it needs more memory than {most // bounds.MIB} MiB (cluster.cache_mib; estimated)"
