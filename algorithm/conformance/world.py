"""A World describes the nodes and pods of the clusters in which an algorithm is tested. An author can provide one.

The kit has a world of plain pods, gangs and priorities (`worlds/plain.py`). An algorithm that reads annotations of its
own, or that knows the machines from its settings, sees little of itself there. Its author gives another one:

    def world(settings: Settings) -> World:
        return World(nodes=lambda name: st.builds(Node, name=st.just(name), ...), pods=lambda number: ...)

    WORLDS = Worlds(make=world)

and names it in the plug-in, `Plugin(world="my_package.worlds:WORLDS")`, or in the decorator. It is imported by the
conformance kit alone, so the plug-in itself does not need Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from algorithm.model import Node, Pod

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

#: The nodes of a world for decisions that are timed.
CROWD = tuple(f"crowd-{number:03}" for number in range(60))


@dataclass(frozen=True, kw_only=True)
class World:
    """Strategies of Hypothesis for the records of one cluster."""

    #: The records that a node of this name may have, one after the other.
    nodes: Callable[[str], SearchStrategy[Node]]
    #: Pods that are created together: one, or a gang. Their names and UIDs must contain the number, which is new each
    #: time. `node_name` is empty.
    pods: Callable[[int], SearchStrategy[tuple[Pod, ...]]]
    #: The names of nodes: few, so that pods meet.
    node_names: tuple[str, ...] = ("n0", "n1", "n2", "n3")
    #: The names of nodes in the world where decisions are timed.
    crowd: tuple[str, ...] = CROWD
    #: Paths of pages that there are, for `page`.
    pages: tuple[str, ...] = ()
    #: Whether authors change the annotations of pods that wait or run. They may: without it, that is not tested.
    authors_annotate: bool = True
    #: Why the history may decide between equals: earlier questions, a restart, pods that are gone. "": it may not. With
    #: a text, answers are compared there by their kinds, when all nodes are offered; a restart tells nodes by name, and
    #: instances are compared after all nodes have come back.
    history: str = ""


@dataclass(frozen=True, kw_only=True)
class Worlds:
    """Makes the world for given settings. `settings` are used if none are given."""

    make: Callable[[Any], World]
    settings: Mapping[str, Any] = field(default_factory=dict)
