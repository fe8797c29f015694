"""The plain data around a reflector: what it reflects, its time-outs, its counters, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from algorithm.model import Node, Pod, same_but_version
from extender.core.requests import collection_path
from extender.kube.client import bounds
from extender.kube.client.api import Response
from extender.kube.client.backoff import BackoffSettings
from extender.kube.client.bounds import Bound
from extender.kube.informers.envelopes import decode_node_event, decode_pod_event
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.slim import slim_pod
from extender.kube.informers.store import Tracked, never_same, weigh

T = TypeVar("T", bound=Tracked)

#: What kube-apiserver answers for a resourceVersion that it has not reached: it was restored, or is another server.
_FROM_THE_FUTURE = "Too large resource version"


def unchanged(obj: T) -> T:
    """Keep the record as it was read."""
    return obj


def _nothing(_: object) -> None:
    return None


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A resource to reflect, built-in or custom: all its objects, or those in a namespace, or those that selectors
    choose.

    `plural` is the resource's name in paths, such as "pods"; `group` "" is the core group. The selectors are texts as
    the API server takes them, such as "app=web,tier!=test".

    `decode` makes the record of an object, and raises DecodeError for one that it cannot read; `key` is unique among
    living objects.

    `slim` reduces an object with too many parts to the fields that are read, or raises DecodeError; None: such an
    object is not read at all.

    `lighter` returns what to keep of a record once half of the memory is taken, so that texts do not use up the rest.

    `keep` returns what to keep of a record, however much memory is free. `forget` is called with the UID of an object
    that is gone; `forget_others` with the UIDs of all objects that still exist.

    `weigh` estimates the bytes of memory that a record takes, including everything that is derived from it.

    Two fields save work: `decode_event` decodes a whole line of a watch in one pass, type and object, and also raises
    DecodeError; `same` says whether the second of two successive records brings nothing new.
    """

    plural: str
    decode: Callable[[msgspec.Raw], T]
    key: Callable[[T], str]
    _: KW_ONLY
    group: str = ""
    version: str = "v1"
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    decode_event: Callable[[bytes], tuple[str, T]] | None = None
    same: Callable[[T, T], bool] = never_same
    weigh: Callable[[T], int] = weigh
    slim: Callable[[msgspec.Raw], msgspec.Raw] | None = None
    lighter: Callable[[T], T] | None = None
    keep: Callable[[T], T] = unchanged
    forget: Callable[[str], None] = _nothing
    forget_others: Callable[[Collection[str]], None] = _nothing

    @cached_property
    def name(self) -> str:
        """The name in logs, metrics and the hand-over between leaders: the plural with its group, and the scope unless
        it is all objects."""
        scope = "&".join(each for each in (self.namespace, self.label_selector, self.field_selector) if each)
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{name}[{scope}]" if scope else name

    @cached_property
    def path(self) -> str:
        """Path of the collection."""
        return collection_path(self.plural, group=self.group, version=self.version, namespace=self.namespace)

    def selected(self, query: Mapping[str, str]) -> dict[str, str]:
        """The query of a request for the collection, with the selectors."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {**query, **{name: text for name, text in selectors.items() if text}}


def pods_read_by(reader: PodReader, *, informer: bool = False) -> Resource[Pod]:
    """All pods, as records that this reader makes. `informer`: their decisions are counted (decisions.py), and what
    kube-scheduler wrote on them is kept (unschedulable.py)."""
    decisions = reader.decisions
    plain = Resource(
        "pods",
        reader.pod,
        lambda pod: f"{pod.namespace}/{pod.name}",
        decode_event=lambda line: decode_pod_event(line, reader.from_wire),
        same=same_but_version,
        slim=slim_pod,
        lighter=reader.lighter,
        weigh=lambda pod: weigh(decisions.without_shared(pod)),
        keep=decisions.as_kept,
    )
    if not informer:
        return plain
    return replace(
        plain,
        decode=reader.informed,
        decode_event=lambda line: decode_pod_event(line, reader.informed_from_wire),
        keep=decisions.keep,
        forget=reader.forget,
        forget_others=reader.forget_others,
    )


def nodes_read_by(reader: PodReader) -> Resource[Node]:
    """All nodes, as records that this reader makes."""
    return Resource(
        "nodes",
        reader.node,
        lambda node: node.name,
        decode_event=lambda line: decode_node_event(line, reader.node_from_wire),
        same=same_but_version,
    )


PODS = pods_read_by(PodReader())
NODES = nodes_read_by(PodReader())


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    #: How long a page of a list may take, and a whole list.
    list_page: float = bounds.PAGE_SECONDS
    list_whole: float = bounds.LIST_SECONDS
    #: How long a watch is requested to last: drawn between these two, so that the watches of a cluster do not all end
    #: at once.
    shortest_watch: float = 300.0
    longest_watch: float = 600.0
    #: How long a watch may go without a complete line before it is reopened (at its last version, so that costs
    #: little). Bookmarks come about once a minute, so a living watch is never silent for that long.
    watch_silence: float = 150.0
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the start."""

    lists: int = 0
    #: Complete lists after the first.
    relists: int = 0
    watches: int = 0
    #: Watches that were opened again after a fault.
    restarts: int = 0
    events: int = 0
    bookmarks: int = 0
    #: Changes delivered to the handlers.
    changes: int = 0
    #: Objects that could not be decoded, or have no uid or resourceVersion.
    decode_errors: int = 0
    unknown_events: int = 0
    broken_lines: int = 0
    #: Responses of 410, as a status or as an event.
    expired: int = 0
    #: Watches that went silent.
    silences: int = 0
    #: Lists refused because they were older than what was known.
    stale_lists: int = 0
    handler_failures: int = 0
    #: Times that the API server could not be reached, closed the connection, or answered with an error.
    failures: int = 0


class RelistError(Exception):
    """The watch cannot resume at its version."""


class ListBoundError(RelistError):
    """A list breaks a bound or repeats itself, or the records need more memory than they may take."""

    def __init__(self, message: str, bound: Bound) -> None:
        super().__init__(message)
        self.bound = bound


class ExpiredError(RelistError):
    """410: our version is too old. Routine after a compaction."""


class RefusedError(Exception):
    """The API server answered with an error. `retry_after`: seconds that it asks for."""

    def __init__(self, what: str, response: Response) -> None:
        super().__init__(f"{what}: {response.status} {response.message}")
        self.status = response.status
        self.retry_after = response.retry_after


def accept(what: str, response: Response) -> None:
    """Raise one of the errors above unless `response` is a 200. `what` is the request, for people."""
    if response.status == 410:
        raise ExpiredError(f"{what}: {response.message}")
    if response.status == 504 and _FROM_THE_FUTURE in response.message:
        raise RelistError(f"{what}: {response.message}")
    if response.status != 200:
        raise RefusedError(what, response)
