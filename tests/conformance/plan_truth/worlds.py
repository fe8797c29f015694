"""All kinds of random states by name, each with a function of a seed that returns what the plan is wrong about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extender.plan.records import World
from tests.conformance.plan_truth import claimed, jobs, live, placed
from tests.conformance.plan_truth.hived_states import hived_state
from tests.conformance.plan_truth.outcomes import by_owner, planned_outcomes
from tests.conformance.plan_truth.states import State, packing_state
from tests.conformance.plan_truth.what_if_states import what_if_state
from tests.conformance.plan_truth.workload_states import workload_state

#: What is compared, in parts, each by name.
Found = Sequence[Mapping[str, Any]]


def differences(found: Found, planned: Found) -> list[str]:
    """Return a text for each name whose outcome is not the same."""
    return [
        f"{name}: live {ours.get(name)}, planned {theirs.get(name)}"
        for ours, theirs in zip(found, planned, strict=True)
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def by_rules(state: State) -> list[str]:
    """What the plan is wrong about in a state that runs in one thread: see `live`."""
    try:
        world, found = live.what_happens(state)
    except live.NeverRestsError:
        world = live.begins_as(state)
        plan, _ = planned_outcomes(state, world)
        return [] if "made again without end" in plan.stopped else ["live, it never comes to rest"]
    _, planned = planned_outcomes(state, world)
    return differences([by_owner(found)], [by_owner(planned)])


def wrong_about_claims(seed: int) -> list[str]:
    return _served(claimed.claim_state(seed), claimed.what_happens, claimed.planned)


def wrong_about_vpods(seed: int) -> list[str]:
    return _served(placed.vpod_state(seed), placed.what_happens, placed.planned)


def wrong_about_jobs(seed: int) -> list[str]:
    return _served(jobs.job_state(seed), jobs.what_happens, jobs.planned)


def _served(
    state: State,
    what_happens: Callable[[State], tuple[World, Found]],
    planned: Callable[[State, World], tuple[object, Found]],
) -> list[str]:
    """A run that does not come about (a cluster that never rests, say) is a text, too."""
    try:
        world, found = what_happens(state)
    except AssertionError as error:
        return [f"{error}"[:300]]
    return differences(found, planned(state, world)[1])


WORLDS: Mapping[str, Callable[[int], list[str]]] = {
    "packing": lambda seed: by_rules(packing_state(seed)),
    "hived": lambda seed: by_rules(hived_state(seed)),
    "workloads": lambda seed: by_rules(workload_state(seed)),
    "what-if": lambda seed: by_rules(what_if_state(seed)),
    "claims": wrong_about_claims,
    "vpods": wrong_about_vpods,
    "jobs": wrong_about_jobs,
}
