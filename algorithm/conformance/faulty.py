"""Reports a change to an algorithm with a record that raises while it is read, and then as it is (`Faulty`).

The record is that of the change; of an accepted Bind it is the pod with its place, and of a restart one of the pods
that a new algorithm finds allocated. So `add_allocated_pod` meets such a record whenever the server may call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from algorithm.conformance.calls import Allocate, Call, Faulty, FoundBound, Restart
from algorithm.conformance.guard import Guarded
from algorithm.conformance.harness import AlgorithmHarness, ContractBroken
from algorithm.conformance.unreadable_records import MOST_READINGS, has_raised, made_sound, unreadable
from algorithm.model import Node, Pod


class Life(Protocol):
    """What is needed of `algorithm.conformance.life.Life`."""

    cluster: AlgorithmHarness[Any]
    answers: dict[str, Any]
    proposed: dict[str, Pod]
    seen: dict[str, Pod]
    is_over: bool

    @property
    def nodes(self) -> dict[str, Node]: ...
    @property
    def waiting(self) -> dict[str, Pod]: ...
    @property
    def allocated(self) -> dict[str, Pod]: ...
    def tell(self, method: str, *args: Any) -> None: ...
    def change(self, call: Call, kept: Call) -> None: ...
    def carry_out(self, call: Call) -> None: ...
    def as_kept(self, call: Call) -> Call: ...
    def placed(self, uid: str) -> Pod: ...


def report(life: Life, call: Faulty) -> None:
    """Report the change with a record that raises, and once more with a sound one if the algorithm raises."""
    if isinstance(call.change, Restart):
        _restart(life, call, call.change)
        return
    kept: Any = life.as_kept(call.change)
    sound = FoundBound(life.placed(kept.uid)) if isinstance(kept, Allocate) else kept
    known: tuple[dict[str, Any], ...] = (life.nodes, life.waiting, life.allocated, life.seen)
    before = [dict(each) for each in known]
    for after in _readings(call):
        with unreadable(sound, call.field, after) as bad:
            error = _error_of(life, bad)
        if error is None:
            for records in known:
                made_sound(records, bad, sound)
            if isinstance(kept, Allocate):
                waited = before[1][kept.uid]
                life.proposed[kept.uid] = life.seen[kept.uid] = waited
            life.answers.clear()
            _tell_what_came(life, call, swallowed=has_raised(bad))
            return
        for each, records in zip(known, before, strict=True):
            each.clear()
            each.update(records)
        life.tell("raised", call, error)
        if life.is_over:
            return
    life.change(call.change, kept)


def _readings(call: Faulty) -> Iterable[int]:
    return [call.after] if call.after else range(1, MOST_READINGS + 1)


def _error_of(life: Life, change: Any) -> Exception | None:
    try:
        life.carry_out(change)
    except ContractBroken:
        raise  # by a judge, who looked in between
    except Exception as error:
        return error
    return None


def _tell_what_came(life: Life, call: Faulty, *, swallowed: bool) -> None:
    """The algorithm was told everything. `swallowed`: its record raised, and it did not let this through."""
    if swallowed and not life.is_over:
        life.tell("swallowed", call)
    if not life.is_over:
        life.tell("after", call, None)


def _restart(life: Life, call: Faulty, restart: Restart) -> None:
    """The new algorithm is told of one pod with a record that raises, then with a sound one, then of what is left."""
    swallowed = False
    chosen = sorted(life.allocated)[restart.seed % len(life.allocated)] if life.allocated else ""
    so_far: dict[str, Pod] = {}
    create = life.cluster.create
    made: list[Guarded] = []

    def new() -> Guarded:
        made.append(create())
        vars(made[-1])["add_allocated_pod"] = told
        return made[-1]

    def told(pod: Pod) -> None:
        nonlocal swallowed
        add = made[-1].method("add_allocated_pod")
        for after in _readings(call) if pod.uid == chosen else ():
            raised: Exception | None = None
            with unreadable(FoundBound(pod), call.field, after) as bad:
                try:
                    add(bad.pod)
                except Exception as error:
                    raised = error
            if raised is None:
                swallowed = has_raised(bad)
                return
            if not life.is_over:
                with _restarting(life, made[-1], so_far):
                    life.tell("raised", call, raised)
        add(pod)
        so_far[pod.uid] = pod

    life.cluster.create = new
    try:
        error = _error_of(life, restart)
    finally:
        life.cluster.create = create
        for each in made:
            vars(each).pop("add_allocated_pod", None)
    life.answers.clear()
    if error is not None and not life.is_over:
        life.is_over = True
        life.tell("raised", restart, error)
        return
    _tell_what_came(life, call, swallowed=swallowed)


@contextmanager
def _restarting(life: Life, algorithm: Guarded, allocated: dict[str, Pod]) -> Iterator[None]:
    """Meanwhile, the new algorithm lives, and no pods are there but those that it was told."""
    cluster = life.cluster
    before = cluster.algorithm, cluster.waiting, cluster.allocated
    cluster.algorithm, cluster.waiting, cluster.allocated = algorithm, {}, dict(allocated)
    try:
        yield
    finally:
        cluster.algorithm, cluster.waiting, cluster.allocated = before
