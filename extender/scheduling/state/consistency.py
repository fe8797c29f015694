"""Holds ledger, cache and algorithm against the pod records: the one place where they are compared.

A pod's record (`pod_info.py`) is authoritative: its state and its place. What the other components know of the pod
follows from it, and `transitions.py` changes them together:

    state       hold in the ledger      cache                   algorithm
    Waiting     until informed          nothing, or expired     unallocated
    Preempting  always                  nothing, or expired     unallocated, and preempting
    Binding     always                  assumed                 allocated on the record's node
    Bound       until informed          added                   allocated on the record's node

An algorithm that raised at a change has an outdated record, which its driver delivers again: such a pod is excepted
from the last column. The informer has reported a pod that is `informed`.

A disagreement is a bug of the engine. Tests look for one after every event, the cache comparer of a running server
whenever it compares.
"""

from __future__ import annotations

from typing import NamedTuple

from extender.scheduling.state.cache import PodState
from extender.scheduling.state.pod_info import ALLOCATED, PodInfo, State
from extender.scheduling.state.transitions import SchedulingState


class Expected(NamedTuple):
    """What the other components must know of a pod, by its record."""

    has_hold: bool
    #: The state of its record in the cache; None: it takes no room there (it may be expired).
    cached: PodState | None
    #: The node on which the algorithm has it allocated; "": unallocated.
    node: str
    #: Whether the algorithm may know it as preempting.
    preempting: bool


_CACHED = {State.BINDING: PodState.ASSUMED, State.BOUND: PodState.ADDED}
_ALWAYS_HELD = frozenset({State.PREEMPTING, State.BINDING})


def expected(pod_info: PodInfo) -> Expected:
    """Return what follows from the pod's record."""
    return Expected(
        has_hold=pod_info.state in _ALWAYS_HELD or not pod_info.informed,
        cached=_CACHED.get(pod_info.state),
        node=pod_info.node,
        preempting=pod_info.state is State.PREEMPTING,
    )


def disagreement(state: SchedulingState, pod_info: PodInfo) -> str:
    """Return which component knows something else of the pod than its record says; "" if none does."""
    wanted = expected(pod_info)
    if bool(pod_info.node) is not (pod_info.state in ALLOCATED):
        return f"its record is wrong: {pod_info.state} on {pod_info.node or 'no node'}"
    hold = state.ledger.get(pod_info.token) if pod_info.token else None
    if (hold is not None) is not wanted.has_hold or bool(pod_info.token) is not wanted.has_hold:
        return f"ledger: it should have {'a' if wanted.has_hold else 'no'} hold, token {pod_info.token} is {hold}"
    if hold is not None and (hold.payload or "") != (wanted.node if wanted.cached is PodState.ASSUMED else ""):
        return f"ledger: its hold is for {hold.payload or 'no node'}, and it is on {wanted.node or 'none'}"
    cached = state.cache.state(pod_info.uid)
    held = state.cache.pod(pod_info.uid)
    if cached is not wanted.cached and not (wanted.cached is None and cached is PodState.EXPIRED):
        return f"cache: it should be {wanted.cached or 'absent'}, and is {cached or 'absent'}"
    if wanted.cached is not None and (held is None or held.node_name != wanted.node):
        return f"cache: it should be on {wanted.node}, and is on {held.node_name if held else 'no node'}"
    return "" if state.driver.has_pending(pod_info.uid) else _of_algorithm(state, pod_info, wanted)


def complaint(state: SchedulingState, pod_info: PodInfo) -> str:
    """Return the pod with its disagreement, for people; "" if there is none."""
    wrong = disagreement(state, pod_info)
    return f"{pod_info.key} ({pod_info.state}): {wrong}" if wrong else ""


def _of_algorithm(state: SchedulingState, pod_info: PodInfo, wanted: Expected) -> str:
    driver = state.driver
    allocated = driver.allocated.get(pod_info.uid)
    node = allocated.node_name if allocated is not None else ""
    if node != wanted.node:
        return f"algorithm: it should be allocated on {wanted.node or 'no node'}, and is on {node or 'none'}"
    if (pod_info.uid in driver.unallocated) is not (wanted.node == ""):
        return f"algorithm: it should {'not ' if wanted.node else ''}be unallocated"
    if pod_info.uid in driver.preempting and not wanted.preempting:
        return "algorithm: it should not be preempting"
    return ""


def validate(state: SchedulingState) -> None:
    """Raise AssertionError, with the pod's history, if a component disagrees with a pod's record, or knows a pod that
    has no record."""
    for pod_info in state.pods:
        wrong = complaint(state, pod_info)
        history = [f"{line.at:.3f} {line.text}" for line in pod_info.history]
        assert not wrong, "\n".join([wrong, *history])
    tokens = {pod_info.token for pod_info in state.pods if pod_info.token}
    assert tokens == {hold.token for hold in state.ledger.active()}, "ledger: a hold belongs to no pod"
    known = {pod_info.uid for pod_info in state.pods}
    for name, records in (("allocated", state.driver.allocated), ("unallocated", state.driver.unallocated)):
        gone = sorted(uid for uid in records.keys() - known if not state.driver.has_pending(uid))
        assert not gone, f"algorithm: it knows {name} pods that have no record: {gone}"
    parked = (state.pods.get(uid) for uid in state.wait_index.waiting())
    lost = [str(pod_info.key) for pod_info in parked if pod_info is not None and not pod_info.requeuable]
    assert not lost, f"wait index: they are parked, and will not be unparked: {lost}"
    removed = [str(pod_info.key) for pod_info in state.pods if state.cache.removed(pod_info.uid)]
    assert not removed, f"cache: it counts them as gone for good: {removed}"
    unknown = sorted(uid for uid in state.unresolved if uid not in known)
    assert not unknown, f"writes are looked after for pods that have no record: {unknown}"
