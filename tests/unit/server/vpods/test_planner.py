"""What dry runs and explanations cost at most."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import pytest

from extender.server.cpu_share import PATIENCE, PlannerBusy
from extender.server.vpods.planner import Planner
from extender.vpods import views
from extender.vpods.engine import VPodEngine
from extender.vpods.planning import Changes, VPodChange
from tests.support.cluster.vpod_crowd import SET, CrowdedService, empty_set, settled

T = TypeVar("T")


class Times:
    """A clock, and CPU time of which each look takes `step` seconds. To sleep moves the clock."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = self.used = 0.0
        self.step = step
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def cpu(self) -> float:
        self.used += self.step
        return self.used

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def planner(times: Times, service: CrowdedService | None = None) -> Planner:
    served = service or CrowdedService(settled(empty_set(pods=3, vpods=6, capacity=60)))
    return Planner(served, clock=times.clock, cpu=times.cpu, sleep=times.sleep)


def plan(asked: Planner) -> bool:
    """Ask for a plan; whether it was made to its end."""
    copy = asked.copy(SET)
    assert copy is not None
    return asked.plan(copy, Changes(vpods=[VPodChange(vpod="cart-0001", vreplicas=20)]), limit=10).is_at_rest


def test_an_answer_that_takes_too_long_is_stopped_and_says_so() -> None:
    assert plan(planner(Times(step=0.001)))
    assert not plan(planner(Times(step=2.0)))


def test_an_explanation_that_takes_too_long_is_stopped_and_says_so() -> None:
    asked = planner(Times(step=2.0), CrowdedService(settled(empty_set(pods=2, vpods=4, capacity=5))))
    copy = asked.copy(SET)
    assert copy is not None
    (vpod,) = views.page(copy, waiting=True, limit=1)
    assert not asked.explain(copy, vpod).is_complete


def test_answers_take_a_share_of_the_time() -> None:
    times = Times(step=0.1)
    asked = planner(times)
    plan(asked)
    took = times.used
    plan(asked)
    assert sum(times.slept) == pytest.approx(took - 0.1, abs=0.3), "as long as the first one took"


def test_a_caller_that_would_wait_for_too_long_is_refused() -> None:
    times = Times(step=3.5)
    asked = planner(times)
    plan(asked)
    with pytest.raises(PlannerBusy) as raised:
        plan(asked)
    assert raised.value.seconds > PATIENCE
    times.now += raised.value.seconds
    plan(asked)


def test_one_answer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.server.cpu_share.PATIENCE", 0.01)
    began, ends = Event(), Event()
    times = Times()

    def hold() -> float:
        began.set()
        ends.wait(10)
        return 0.0

    asked = Planner(CrowdedService(settled(empty_set(pods=3, vpods=6))), clock=times.clock, cpu=hold, sleep=times.sleep)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(plan, asked)
        assert began.wait(10)
        with pytest.raises(PlannerBusy):
            plan(asked)
        ends.set()
        first.result(10)


def test_nothing_but_the_copy_is_made_under_the_lock() -> None:
    """The engine is asked for once, and never while the simulation runs."""
    looks: list[int] = []
    service = CrowdedService(settled(empty_set(pods=3, vpods=6)))

    class Counted:
        def look(self, read: Callable[[VPodEngine, float], T], patience: float = -1) -> T:
            looks.append(1)
            return service.look(read)

    asked = Planner(Counted())
    plan(asked)
    assert len(looks) == 1
