"""The plain data around a reflector: what it reflects, its patience, what it counts, and what can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from algorithm.model import Node, Pod, same_but_version
from extender.kube.client import bounds
from extender.kube.client.api import Response
from extender.kube.client.backoff import BackoffSettings
from extender.kube.client.bounds import Bound
from extender.kube.informers.envelopes import decode_node_event, decode_pod_event
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.slim import slim_pod
from extender.kube.informers.store import Tracked, never_same, weigh

T = TypeVar("T", bound=Tracked)

#: What kube-apiserver says of a resourceVersion that it has not reached: it was restored, or is another one.
_FROM_THE_FUTURE = "Too large resource version"


def unchanged(obj: T) -> T:
    """The record is kept as it was read."""
    return obj


def _nothing(_: object) -> None:
    return None


@dataclass(frozen=True)
class Resource(Generic[T]):
    """What to reflect. `decode` raises DecodeError for what it cannot read; `key` is unique among living objects.

    `slim` cuts an object that has too many parts down to what is read of it, or raises DecodeError; None: such an
    object is not read.

    `lighter` is what is kept of a record once half of the room is taken, so that the room is not used up by texts.

    `keep` is what is kept of a record, whatever room there is; `forget` and `forget_others` are told by UID which
    objects are gone, the second of all that are there.

    `weigh` estimates the bytes that a record takes in memory, in all that is known of it.

    Two that spare work: `decode_event` reads a whole line of a watch at once, type and object, and also raises
    DecodeError; `same` says whether of two records that follow one another the second is no news.
    """

    name: str
    path: str
    decode: Callable[[msgspec.Raw], T]
    key: Callable[[T], str]
    field_selector: str = ""
    decode_event: Callable[[bytes], tuple[str, T]] | None = None
    same: Callable[[T, T], bool] = never_same
    weigh: Callable[[T], int] = weigh
    slim: Callable[[msgspec.Raw], msgspec.Raw] | None = None
    lighter: Callable[[T], T] | None = None
    keep: Callable[[T], T] = unchanged
    forget: Callable[[str], None] = _nothing
    forget_others: Callable[[Collection[str]], None] = _nothing


def pods_read_by(reader: PodReader, *, counting: bool = False) -> Resource[Pod]:
    """All pods, as records that this reader makes. `counting`: their decisions count, see decisions.py."""
    decisions = reader.decisions
    return Resource(
        "pods",
        "/api/v1/pods",
        reader.pod,
        lambda pod: f"{pod.namespace}/{pod.name}",
        decode_event=lambda line: decode_pod_event(line, reader.from_wire),
        same=same_but_version,
        slim=slim_pod,
        lighter=reader.lighter,
        weigh=lambda pod: weigh(decisions.without_shared(pod)),
        keep=decisions.keep if counting else decisions.as_kept,
        forget=decisions.forget if counting else _nothing,
        forget_others=decisions.forget_others if counting else _nothing,
    )


def nodes_read_by(reader: PodReader) -> Resource[Node]:
    """All nodes, as records that this reader makes."""
    return Resource(
        "nodes",
        "/api/v1/nodes",
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

    #: How long a page of a list may take, and all of them.
    list_page: float = bounds.PAGE_SECONDS
    list_whole: float = bounds.LIST_SECONDS
    #: How long a watch is asked to last: drawn between these, so that not all watches of a cluster end together.
    shortest_watch: float = 300.0
    longest_watch: float = 600.0
    #: How long a watch may be without a whole line before it is reopened (from where it was, so that costs little).
    #: Bookmarks come about once a minute, so a living watch is never that silent.
    watch_silence: float = 150.0
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the start."""

    lists: int = 0
    #: Complete lists after the first.
    relists: int = 0
    watches: int = 0
    #: Watches that had to be opened again after a fault.
    restarts: int = 0
    events: int = 0
    bookmarks: int = 0
    #: What the sink was told.
    changes: int = 0
    #: Objects that could not be decoded, or have no uid or resourceVersion.
    decode_errors: int = 0
    unknown_events: int = 0
    broken_lines: int = 0
    #: 410, as a status or as an event.
    expired: int = 0
    #: Watches that fell silent.
    silences: int = 0
    #: Lists refused since they were older than what was known.
    stale_lists: int = 0
    sink_failures: int = 0
    #: Times that the API server could not be reached, dropped us, or answered with an error.
    failures: int = 0


class RelistError(Exception):
    """The watch cannot go on from where it was."""


class ListBoundError(RelistError):
    """A list breaks a bound, or repeats itself; or more is to be kept than there is room for."""

    def __init__(self, message: str, bound: Bound) -> None:
        super().__init__(message)
        self.bound = bound


class ExpiredError(RelistError):
    """410: what we hold is too old. Routine after a compaction."""


class RefusedError(Exception):
    """The API server answered with an error. `retry_after` is what it asks for, in seconds."""

    def __init__(self, what: str, response: Response) -> None:
        super().__init__(f"{what}: {response.status} {response.message}")
        self.retry_after = response.retry_after


def accept(what: str, response: Response) -> None:
    """Raises one of the errors above unless `response` is a 200. `what` was asked, for people."""
    if response.status == 410:
        raise ExpiredError(f"{what}: {response.message}")
    if response.status == 504 and _FROM_THE_FUTURE in response.message:
        raise RelistError(f"{what}: {response.message}")
    if response.status != 200:
        raise RefusedError(what, response)
