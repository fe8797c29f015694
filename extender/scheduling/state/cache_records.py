"""What the cache consists of, and what it gives out: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from algorithm.model import Pod
from extender.scheduling.state.node_info import NodeInfo


class PodState(StrEnum):
    """See the diagram of `cache.py`; a pod that is not in the cache has no state."""

    #: Decided here, and not confirmed by the API server yet. Takes room.
    ASSUMED = "assumed"
    #: Bound, according to the API server. Takes room.
    ADDED = "added"
    #: Was assumed, and then found unbound. Takes no room; remembered because a confirmation may still come.
    EXPIRED = "expired"


class CacheError(Exception):
    """The call does not fit the pod's state. The cache is unchanged."""


class Counts(NamedTuple):
    """`nodes` that are known; `pods` that take room, and how many of them are only `assumed`; `expired` records."""

    nodes: int
    pods: int
    assumed: int
    expired: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cache at one moment, immutable. `nodes` is sorted by name.

    Equal generations mean equal content. A NodeInfo that did not change is the same object in the next snapshot.
    """

    generation: int
    nodes: Mapping[str, NodeInfo]
    counts: Counts


class Record(NamedTuple):
    """A pod that the cache holds."""

    pod: Pod
    state: PodState
