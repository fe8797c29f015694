"""Ledger, cache and algorithm are held against the pod records: every disagreement is found, and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from extender.scheduling.state import consistency
from extender.scheduling.state.cache import PodState
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    """A pod that waits, one that is being bound, one that is bound."""
    engine = EngineHarness()
    engine.see(node("a", cpu=8000), pod("bound", cpu=1000, on="a"), pod("waits", cpu=1000))
    placed = pod("placed", cpu=1000)
    engine.see(placed)
    engine.filter(placed, "a")
    return engine


def record(engine: EngineHarness, name: str) -> PodInfo:
    found = engine.machine.find("default", name)
    assert found is not None
    return found


def test_nothing_disagrees_when_all_is_well(engine: EngineHarness) -> None:
    state = engine.machine.state
    assert {name: record(engine, name).state for name in ("waits", "placed", "bound")} == {
        "waits": State.WAITING,
        "placed": State.BINDING,
        "bound": State.BOUND,
    }
    assert [consistency.disagreement(state, pod_info) for pod_info in state.pods] == ["", "", ""]
    consistency.validate(state)


def lose_hold(state: SchedulingState, pod_info: PodInfo) -> None:
    state.ledger.release(pod_info.token)


def forget(state: SchedulingState, pod_info: PodInfo) -> None:
    state.cache.forget(pod_info.uid)


def confirm(state: SchedulingState, pod_info: PodInfo) -> None:
    assert pod_info.placed is not None
    state.cache.add_pod(pod_info.placed)


def move(_state: SchedulingState, pod_info: PodInfo) -> None:
    assert pod_info.placed is not None
    pod_info.placed = replace(pod_info.placed, node_name="b")


def take_place_away(_state: SchedulingState, pod_info: PodInfo) -> None:
    pod_info.placed = None


def free_room(state: SchedulingState, pod_info: PodInfo) -> None:
    state.driver.allocated.pop(pod_info.uid)


def stop_waiting(state: SchedulingState, pod_info: PodInfo) -> None:
    state.driver.unallocated.pop(pod_info.uid)


def claim(state: SchedulingState, pod_info: PodInfo) -> None:
    state.driver.preempting[pod_info.uid] = (pod_info.pod, (), "")


def take_hold(state: SchedulingState, pod_info: PodInfo) -> None:
    state.pods.set_token(pod_info, 77)


@pytest.mark.parametrize(
    ("name", "corrupt", "said"),
    [
        ("placed", lose_hold, "ledger: it should have a hold"),
        ("waits", take_hold, "ledger: it should have no hold"),
        ("placed", move, "ledger: its hold is for a, and it is on b"),
        ("bound", move, "cache: it should be on b, and is on a"),
        ("placed", forget, "cache: it should be assumed, and is absent"),
        ("placed", confirm, "cache: it should be assumed, and is added"),
        ("bound", take_place_away, "its record is wrong: Bound on no node"),
        ("bound", free_room, "algorithm: it should be allocated on a, and is on none"),
        ("waits", stop_waiting, "algorithm: it should be unallocated"),
        ("waits", claim, "algorithm: it should not be preempting"),
    ],
)
def test_a_disagreement_is_named(
    engine: EngineHarness, name: str, corrupt: Callable[[SchedulingState, PodInfo], None], said: str
) -> None:
    state, pod_info = engine.machine.state, record(engine, name)
    corrupt(state, pod_info)
    assert consistency.disagreement(state, pod_info).startswith(said)
    with pytest.raises(AssertionError, match=f"default/{name}.*{said}"):
        consistency.validate(state)


def test_a_pod_without_a_record_is_found(engine: EngineHarness) -> None:
    state = engine.machine.state
    state.driver.allocated["ghost"] = pod("ghost", on="a")
    with pytest.raises(AssertionError, match="knows allocated pods that have no record: .'ghost'"):
        consistency.validate(state)


def test_an_expired_record_takes_no_room(engine: EngineHarness) -> None:
    state, pod_info = engine.machine.state, record(engine, "waits")
    state.cache.assume(pod("waits", cpu=1000, on="a"))
    assert consistency.disagreement(state, pod_info) == "cache: it should be absent, and is assumed"
    state.cache.expire(pod_info.uid)
    assert state.cache.state(pod_info.uid) is PodState.EXPIRED
    assert consistency.disagreement(state, pod_info) == ""
