"""The table is complete: every pair of states is a transition that really happens, or an error with the story."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from extender.scheduling.driver import AlgorithmDriver
from extender.scheduling.events import PodGone
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import TABLE, IllegalTransitionError, SchedulingState, TransitionContext
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.engine.random_walk import drive
from tests.support.engine.simulation import POLICIES, EngineSimulation

PAIRS = list(itertools.product(State, State))
PAGE = Path(__file__).parents[4] / "docs" / "states.md"


@pytest.mark.parametrize(("start", "to"), [pair for pair in PAIRS if pair not in TABLE])
def test_what_is_not_in_the_table_raises_with_the_story_and_changes_nothing(start: State, to: State) -> None:
    transitions = SchedulingState(AlgorithmDriver(PlainAlgorithm()), Policy())
    pod_info = PodInfo(pod("p"), state=start)
    pod_info.record(1.0, "once upon a time", 1)
    with pytest.raises(IllegalTransitionError, match=rf"default/p: {start} -> {to} \(because\)\n1\.000 once upon"):
        transitions.move(pod_info, to, 2.0, TransitionContext("because"))
    assert pod_info.state is start
    assert len(transitions.pods) == 0


def test_every_transition_of_the_table_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[tuple[State, State]] = Counter()
    move = SchedulingState.move

    def counting(self: SchedulingState, pod_info: PodInfo, to: State, now: float, facts: TransitionContext) -> None:
        seen[pod_info.state, to] += 1
        move(self, pod_info, to, now, facts)

    monkeypatch.setattr(SchedulingState, "move", counting)
    for name, policy in POLICIES.items():
        drive(EngineSimulation(policy), random.Random(name), 600)
    preempting_pods()
    assert set(seen) == set(TABLE)


def preempting_pods() -> None:
    """Preemptions are rare in the random runs; here is one with every end."""
    for end in ("waits", "placed", "bound", "gone"):
        engine = EngineHarness()
        engine.see(node("a"), pod("low", cpu=4000, on="a"))
        p = pod("p", cpu=4000, priority=9)
        engine.see(p)
        engine.preempt(p, "a")
        engine.preempt(p, "a")
        if end == "waits":
            engine.tick(61)
        elif end == "placed":
            engine.handle(PodGone("default", "low", "uid-low"))
            engine.filter(p, "a")
        elif end == "bound":
            engine.see(pod("p", on="b"))
        else:
            engine.handle(PodGone(p.namespace, p.name, p.uid))


def test_the_page_about_states_is_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| `(\w+)` \| \S.* \|$", text, re.MULTILINE)
    assert [(State(start), State(to)) for start, to in told] == list(TABLE)
    assert set(re.findall(r"^\| `(\w+)` \| [^`|]+ \| ", text, re.MULTILINE)) == {s for s in State if s != "Unknown"}
