"""What holds for every plan: nothing is overbooked, each row has its one reason, the same input gives the same plan."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.reasons import Code
from extender.ordering.records import Dependency, State, Target
from extender.plan.records import Changes, Options, PlanPod, Sign, World
from extender.plan.run import make_plan
from extender.plan.run.making import PlanRun
from extender.plan.run.state import PlanState
from tests.support.plan.worlds import a_node, running, waiting

NODES, MOST = 4, 14
JOBS = [Target("Job", "default", f"j{index}") for index in range(4)]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Some nodes, pods that run or wait, owners, gangs, priorities and dependencies of all kinds."""
    nodes = tuple(
        a_node(f"n{index}", cpu="4", spec={"unschedulable": True} if draw(st.integers(0, 5)) == 0 else {})
        for index in range(draw(st.integers(1, NODES)))
    )
    free = Counter({node.name: 4 for node in nodes})
    pods: list[PlanPod] = []
    for number in range(draw(st.integers(0, MOST))):
        cpu = draw(st.integers(1, 3))
        job = draw(st.sampled_from([None, *JOBS]))
        more = {"owner": job, "runs_to_end": job is not None and draw(st.booleans())}
        priority = draw(st.integers(0, 3))
        node = draw(st.sampled_from([None, *sorted(free)]))
        if node is not None and free[node] >= cpu:
            free[node] -= cpu
            pods.append(running(f"p{number}", node, cpu=str(cpu), priority=priority, more=more))
            continue
        others = [each for each in [*JOBS, Target("Pod", "default", "p0")] if each != job]
        if draw(st.integers(0, 2)) == 0:
            state, optional = draw(st.sampled_from(State)), draw(st.booleans())
            more["after"] = (Dependency(draw(st.sampled_from(others)), state, optional),)
        gang = draw(st.sampled_from(["", "", "g", "h"]))
        declared = {"waggle.dev/gang": gang, "waggle.dev/gang-min": "2"} if gang else {}
        metadata = {"annotations": declared}
        pods.append(waiting(f"p{number}", cpu=str(cpu), priority=priority, more=more, metadata=metadata))
    return World(nodes=nodes, pods=tuple(pods))


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    drained = draw(st.sampled_from(["", "", "n0"]))
    added = tuple(a_node(f"extra{index}") for index in range(draw(st.integers(0, 1))))
    return Changes(drain=(drained,) if drained else (), add_nodes=added)


def holds(world: World, what: Changes) -> None:
    """Make the plan, and check all of it."""
    state = PlanState(world, what, Options())
    for _ in PlanRun(state).run():
        pass
    state.scheduling.machine.validate()
    taken: Counter[str] = Counter()
    for pod in state.cluster.pods.values():
        if pod.pod.pod.node_name and not pod.pod.pod.finished:
            taken[pod.pod.pod.node_name] += dict(pod.pod.pod.requests)["cpu"]
    assert all(taken[name] <= 4000 for name in taken), taken
    plan = make_plan(world, what)
    assert msgspec.json.encode(plan) == msgspec.json.encode(make_plan(world, what))
    if plan.stopped:
        assert plan.stopped.endswith("is evicted and made again without end")
        return
    codes = {code.value for code in Code}
    for row in plan.rows:
        assert bool(row.node) == (row.sign in (Sign.RUNS, Sign.MOVES)), row
        assert (row.code in codes) == (row.sign is not Sign.RUNS), row
        assert bool(row.text) == (row.sign is not Sign.RUNS), row
        assert row.before or row.sign in (Sign.RUNS, Sign.WAITS, Sign.EVICTED), row
    total = plan.total
    assert total.runs + total.moves + total.evicted + total.waits + total.stays == len(world.pods)


@settings(max_examples=15, deadline=None)
@given(worlds(), changes())
def test_every_plan_is_consistent(world: World, what: Changes) -> None:
    holds(world, what)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(worlds(), changes())
def test_very_many_plans_are_consistent(world: World, what: Changes) -> None:
    holds(world, what)
