"""An independent copy of the engine with its algorithm, for what-if and plans: whole, or in pieces as events go on.

    fork(engine)                          the copy at once: for an engine that nobody else uses meanwhile

    with Forking(engine) as forking:      beside a running engine
        for _ in loop.in_turns(forking.pieces()): ...      each piece under the lock; events are handled in between
        copy = forking.result()           without the lock

The copy is equal to the engine at one moment, that of the last piece, and shares nothing with it that changes.

Why that is so. The state has three kinds of parts:

* *records* that change in place: `PodInfo` (of every pod) and `NodeInfoBuilder` (of every node). They are copied in the
  pieces. A record that changes afterwards is copied again in the last piece, so each copy is of its record as it is
  then: a pod's record that was copied is *watched* until its first change, which puts it on a list, as the index does
  with a new one; the cache notes the nodes of which a record changes.
* *containers* of immutable values and of records, which are copied shallowly. A `Table`, which may have an entry for
  each pod, has a piece of its own, and from then on its copy follows each change (`algorithm/tables.py`). The last
  piece copies all others. Afterwards, copies are put in the place of the records in them.
* the *algorithm*: `SchedulerAlgorithm.forks` takes its copy in the last piece, equal to it at that moment. If another
  algorithm takes over meanwhile, its copy begins anew.

Between the last piece and the end of `pieces` only watches are removed. Abandoned `pieces` (closed, or never finished)
remove them too. There is one `Forking` of an engine at a time.

A collection of garbage takes longer than a piece, so there is none while it is made.

A test compares the objects of both graphs one by one: all are equal, and no object that can change is in both. A new
field of the engine is copied without a word here, unless it holds records of a new kind.
"""

from __future__ import annotations

import copy
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Self

from algorithm.interface import SchedulerAlgorithm
from algorithm.tables import Followers, Table, watched_kind
from extender.core.ledger import Ledger
from extender.core.wait_index import WaitIndex
from extender.scheduling.driver import copied
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.reconfiguration import Preparations
from extender.scheduling.state.cache import Cache
from extender.scheduling.state.node_info import NodeInfoBuilder
from extender.scheduling.state.pod_info import PodIndex, PodInfo, Preemption

#: How many records one piece copies.
PIECE = 150
#: So many changed records may be left for the last piece.
_LAST = 50
_CONTAINERS = (dict, list, set)
_ENGINE = ("extender.scheduling.", "extender.core.")

#: The fields of a pod's record that are not derived from others, in the order of its constructor.
_values_of = attrgetter(*(field.name for field in fields(PodInfo) if field.init))


def fork(engine: SchedulerStateMachine) -> SchedulerStateMachine:
    """Return an independent copy. Raises NotImplementedError if the algorithm cannot be copied, AlgorithmFault if it
    fails to."""
    forking = Forking(engine, watched=False)
    with _no_collection():
        for _ in forking.pieces():
            pass
        return forking.result()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hundreds of thousands of new objects, none of them garbage, set off collections that take as long as the copy."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Forking:
    """One copy in the making. Not thread-safe, but for `result`: the owner of the engine holds its lock.

    As a context manager it keeps the collector of garbage away until its end: it would take longer than a piece.

    `watched` is False if the engine handles no event between the pieces.
    """

    def __init__(self, engine: SchedulerStateMachine, *, watched: bool = True) -> None:
        self._engine = engine
        self._is_watched = watched
        #: The copies of the records, by record, and the records that were copied too early.
        self._pods: dict[PodInfo, PodInfo] = {}
        self._nodes: dict[str, NodeInfoBuilder] = {}
        self._changed: set[PodInfo] = set()
        self._parts = list(_components(engine))
        self._taken: list[dict[str, Any]] = []
        self._preemptions: dict[int, Preemption] = {}
        self._followers = Followers()
        # History and binds change in place.
        self._watched = watched_kind(PodInfo, self._changed, contents=("history", "binds"))
        self._algorithm: Callable[[], SchedulerAlgorithm] | None = None

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        if self._collects:
            gc.collect(1)  # the new objects, here and not under the lock; they count as old ones from now on
            gc.enable()

    # -- under the lock -------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[bool]:
        """Copy a piece at each step. Yields True from the last one on, False before.

        Raises RuntimeError if another copy is being made.
        """
        index, cache = self._engine.state.pods, self._engine.state.cache
        if index.watch is not None:
            raise RuntimeError("another copy of this engine is being made")
        if self._is_watched:
            index.watch, cache.watch = self._changed, set()
        try:
            yield from self._pieces()
        finally:
            index.watch = cache.watch = None
            self._followers.unfollow()
            for _ in self._unwatch():
                pass

    def _pieces(self) -> Iterator[bool]:
        yield from self._copy_records()
        while self._algorithm is None:
            algorithm = self._engine.driver.algorithm
            for taken in self._engine.driver.forks():
                if self._algorithm is not None:
                    yield True
                elif algorithm is not self._engine.driver.algorithm:
                    break
                else:
                    self._algorithm = taken
                    if taken is None:
                        self._copy_changed(PIECE)
                    else:
                        self._finish()
                    yield taken is not None
        yield from self._unwatch()

    def _copy_records(self) -> Iterator[bool]:
        index, builders = self._engine.state.pods, self._engine.state.cache.builders
        if self._is_watched:
            for table in _tables(self._parts):
                self._followers.follow(table)
                yield False
        for chunk in _chunks(list(index)):
            for pod_info in chunk:
                self._copy_pod(pod_info)
            yield False
        for names in _chunks(list(builders)):
            for name in names:
                if name in builders:
                    self._nodes[name] = builders[name].copy()
            yield False
        while self._number_changed() > _LAST:
            self._copy_changed(PIECE)
            yield False

    def _copy_changed(self, most: int) -> None:
        for _ in range(min(most, len(self._changed))):
            self._copy_pod(self._changed.pop())
        cache = self._engine.state.cache
        changed = cache.watch or set()
        for _ in range(min(most, len(changed))):
            name = changed.pop()
            if name in cache.builders:
                self._nodes[name] = cache.builders[name].copy()

    def _copy_pod(self, pod_info: PodInfo) -> None:
        if self._is_watched:
            pod_info.__class__ = PodInfo  # reading it is no change
        self._pods[pod_info] = twin = PodInfo(*_values_of(pod_info))
        twin.history, twin.binds = pod_info.history.copy(), pod_info.binds.copy()
        if self._is_watched:
            self._changed.discard(pod_info)
            pod_info.__class__ = self._watched

    def _number_changed(self) -> int:
        return len(self._changed) + len(self._engine.state.cache.watch or ())

    def _finish(self) -> None:
        """Copy all that is left: what has changed, and every container."""
        self._copy_changed(self._number_changed())
        self._engine.state.pods.watch = self._engine.state.cache.watch = None
        self._preemptions = {id(each): _copied(each) for each in self._engine.executor.preemptions()}
        self._taken = list(_shallow(self._parts, self._followers))
        self._followers.unfollow()

    def _unwatch(self) -> Iterator[bool]:
        for chunk in _chunks(list(self._pods) if self._is_watched else []):
            for pod_info in chunk:
                if type(pod_info) is self._watched:
                    pod_info.__class__ = PodInfo
            yield True
        self._is_watched = False

    # -- without the lock -----------------------------------------------------------------------------------------

    def result(self) -> SchedulerStateMachine:
        """Return the copy, once `pieces` has come to its last. To be called once.

        Raises AlgorithmFault if the algorithm's own copy cannot be made. It is not noted, as the lock is not held:
        `AlgorithmDriver.note` does that.
        """
        assert self._algorithm is not None, "it is not complete yet"
        twin = SchedulerStateMachine(copied(self._algorithm), self._engine.policy)
        for part, values in zip(_components(twin), self._taken, strict=True):
            for name, value in values.items():
                is_ordered = isinstance(getattr(part, name), OrderedDict)
                setattr(part, name, OrderedDict(value) if is_ordered else value)
        self._link(twin)
        return twin

    def _link(self, twin: SchedulerStateMachine) -> None:
        """Put copies in the place of records."""
        state = twin.state
        state.pods.replace(self._pods)
        state.cache.builders.update({name: self._nodes[name] for name in state.cache.builders})
        state.cache.restore_names()
        state.wait_index.restore_waiters()
        state.ledger.restore_groups()
        state.disturbed[:] = [self._preemptions[id(each)] for each in state.disturbed]
        active = twin.executor.outcomes.active
        active.update({number: self._preemptions[id(each)] for number, each in active.items()})
        for preemption in self._preemptions.values():
            preemption.members = {uid: self._pods[pod_info] for uid, pod_info in preemption.members.items()}
        for pod_info in state.pods:
            if pod_info.preemption is not None:
                pod_info.preemption = self._preemptions[id(pod_info.preemption)]


def _chunks(things: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(things), PIECE):
        yield things[start : start + PIECE]


def _copied(preemption: Preemption) -> Preemption:
    """A copy whose members are still the records of the original."""
    return replace(
        preemption,
        members=preemption.members.copy(),
        member_plans=preemption.member_plans.copy(),
        victims={uid: copy.copy(victim) for uid, victim in preemption.victims.items()},
        shown=preemption.shown.copy(),
        marked=preemption.marked.copy(),
    )


def _components(engine: object) -> Iterator[Any]:
    """The objects that each engine has: itself, its handlers, the state and its parts. Always in the same order."""
    met: set[int] = set()
    rest = [engine]
    while rest:
        part = rest.pop()
        if id(part) in met:
            continue
        met.add(id(part))
        yield part
        rest += [value for _, value in _attributes(part) if _is_component(value)]


def _is_component(value: object) -> bool:
    kind = type(value)
    return kind.__module__.startswith(_ENGINE) and not isinstance(value, (*_CONTAINERS, type)) and _is_mutable(kind)


def _is_mutable(kind: type) -> bool:
    """Whether it is no plain value: those are frozen structs and dataclasses, named tuples and enums."""
    record = getattr(kind, "__struct_config__", None) or getattr(kind, "__dataclass_params__", None)
    return not issubclass(kind, (str, int, tuple)) and (record is None or not record.frozen)


def _attributes(part: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(part, "__dict__", {}).items()
    for name in getattr(part, "__slots__", ()):
        yield name, getattr(part, name)


def _tables(parts: list[Any]) -> list[Table[Any, Any]]:
    values = (value for part in parts for _, value in _attributes(part))
    return [value for value in values if isinstance(value, Table)]


def _shallow(parts: list[Any], followers: Followers) -> Iterator[dict[str, Any]]:
    """The values of each component by name. A container is copied, once if two components have it."""
    copies: dict[int, Any] = {}
    for part in parts:
        values: dict[str, Any] = {}
        for name, value in _attributes(part):
            if isinstance(value, _CONTAINERS):
                if id(value) not in copies:
                    copies[id(value)] = _copied_container(part, name, value, followers)
                values[name] = copies[id(value)]
            elif not (_is_component(value) or isinstance(value, SchedulerAlgorithm)):
                values[name] = value
        yield values


def _copied_container(part: object, name: str, value: Any, followers: Followers) -> Any:
    if _is_made_again(part, name):
        return type(value)()
    if isinstance(value, Table):
        return followers.taken(value)
    # OrderedDict.copy takes ten times as long as that of a dict; `_link` does the rest.
    return list(value.items()) if type(value) is OrderedDict else value.copy()


def _is_made_again(part: object, name: str) -> bool:
    """Whether the container is made from others in `_link`, or is of no use for a copy."""
    return (
        isinstance(part, Preparations)
        or (isinstance(part, PodIndex) and name == "_by_name")
        or (isinstance(part, Cache) and name == "_uids")
        or (isinstance(part, WaitIndex) and name == "_waiters")
        or (isinstance(part, Ledger) and name == "_groups")
    )
