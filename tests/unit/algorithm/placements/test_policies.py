"""Policies by name, the check of what a policy answers, and the conformance check for its author."""

import sys
from importlib.metadata import EntryPoint

import pytest
from pydantic import BaseModel

from algorithm import plugins
from algorithm.placements import balanced, registry
from algorithm.placements.conformance import PolicyBroken, check_policy
from algorithm.placements.model import SetState
from algorithm.placements.policy import PlacementPlugin, PolicyError, PolicyFault, checked
from algorithm.placements.v0430 import live


def a_set(*, pods=3, capacity=10, **vpods):
    state = SetState(capacity=capacity, replicas=pods)
    for ordinal in range(pods):
        state.set_usable(ordinal, True)
        state.nodes[ordinal] = f"n{ordinal}"
    for name, (wanted, committed) in vpods.items():
        state.put(name, wanted, committed)
    return state


# -- by name


@pytest.mark.parametrize("name", ["balanced", "head", "v0.43.1", "v0.43.0"])
def test_built_in_policies_place_all(name):
    state = a_set(a=(6, {}))
    placement = registry.create(name, {})(state.vpods["a"], state, 16)
    assert (placement.placed, placement.left) == (6, 0)


def test_a_misspelt_policy_is_named_with_what_was_meant():
    with pytest.raises(PolicyError, match=r"'balancd'.*did you mean balanced"):
        registry.create("balancd", {})


@pytest.mark.parametrize("name", ["balanced", "head", "v0.43.1", "v0.43.0"])
def test_settings_that_are_unknown_are_named(name):
    with pytest.raises(PolicyError, match="policy_settings.*max_skew"):
        registry.create(name, {"max_skew": 1})


class Settings(BaseModel):
    first: int = 0


def on_one_pod(settings):
    def place(vpod, state):
        room = state.most_for(vpod, settings.first) if state.is_usable(settings.first) else 0
        return {settings.first: min(vpod.wanted, room)}

    return place


PLUGIN = PlacementPlugin(settings=Settings, create=on_one_pod)
OLD = PlacementPlugin(settings=Settings, create=on_one_pod, api_version=0)


@pytest.fixture
def installed(monkeypatch):
    points = [
        EntryPoint("mine", f"{__name__}:PLUGIN", registry.GROUP),
        EntryPoint("old", f"{__name__}:OLD", registry.GROUP),
    ]

    def entry_points(group, name=None):
        return [point for point in points if group == registry.GROUP and name in (None, point.name)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    monkeypatch.syspath_prepend("/a-path-of-its-own")  # it is looked once for each


@pytest.mark.usefixtures("installed")
def test_a_plug_in_is_found_by_its_name():
    assert registry.available() == ["balanced", "head", "v0.43.1", "v0.43.0", "mine", "old"]
    state = a_set(a=(6, {}))
    assert registry.create("mine", {"first": 1})(state.vpods["a"], state, 16).counts == {1: 6}
    with pytest.raises(PolicyError, match="interface version 0"):
        registry.create("old", {})
    with pytest.raises(PolicyError, match=r"policy_settings.*first"):
        registry.create("mine", {"first": "x"})


# -- answers


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({0: 11}, "11 on ordinal 0, which can have 10"),
        ({3: 1}, "ordinal 3, which cannot be used"),
        ({0: -1}, "expected whole numbers"),
        ({"0": 1}, "expected whole numbers"),
        ({0: True}, "expected whole numbers"),
        ({0: 4, 1: 4}, "8 vreplicas are placed, of 6"),
        ([1, 2], "got list"),
        (None, "got NoneType"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(answer, text):
    state = a_set(a=(6, {}))
    with pytest.raises(PolicyFault, match=text):
        checked(lambda *_: answer)(state.vpods["a"], state, 16)


def test_a_policy_that_raises_is_refused():
    def place(vpod, state):
        raise ZeroDivisionError("its fault")

    state = a_set(a=(6, {}))
    with pytest.raises(PolicyFault, match="ZeroDivisionError: its fault"):
        checked(place)(state.vpods["a"], state, 16)


def test_moves_of_any_policy_are_bounded():
    state = a_set(a=(6, {0: 6}))
    placement = checked(lambda *_: {2: 6})(state.vpods["a"], state, 2)
    assert (placement.counts, placement.moves, placement.postponed) == ({0: 4, 2: 2}, 2, 4)


def test_what_has_to_leave_a_pod_is_not_bounded():
    state = a_set(a=(6, {0: 6}))
    state.set_usable(0, False)
    placement = checked(lambda *_: {2: 6})(state.vpods["a"], state, 1)
    assert (placement.counts, placement.moves) == ({2: 6}, 0)


# -- v0.43.0


def test_predicates_and_priorities_are_settings():
    settings = {
        "adding": {
            "predicates": [{"name": "PodFitsResources"}, {"name": "NoMaxResourceCount", "args": {"NumPartitions": 2}}],
            "priorities": [{"name": "LowestOrdinalPriority", "weight": 2}],
        },
        "removing": {"priorities": [{"name": "RemoveWithHighestOrdinalPriority"}]},
    }
    policy = registry.create("v0.43.0", settings)
    state = a_set(capacity=4, a=(5, {}), b=(2, {0: 1, 1: 2}))
    assert policy(state.vpods["a"], state, 16).counts == {0: 3, 1: 2}
    assert policy(state.vpods["b"], state, 16).counts == {0: 1, 1: 1}


def test_it_fills_up_the_pods_that_can_be_used():
    policy = registry.create("v0.43.0", {"fills_up": True})
    state = a_set(capacity=4, a=(6, {1: 1}))
    state.set_usable(0, False)
    assert policy(state.vpods["a"], state, 16).counts == {1: 4, 2: 2}


@pytest.mark.parametrize("kind", ["predicates", "priorities"])
def test_a_plug_in_that_the_original_has_not_is_named(kind):
    with pytest.raises(PolicyError, match="'EvenPods'"):
        registry.create("v0.43.0", {"adding": {kind: [{"name": "EvenPods"}]}})


# -- the check for authors


@pytest.mark.parametrize("number", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_our_own_policies_keep_the_promises(number):
    check_policy(lambda vpod, state: balanced.place(vpod, state).counts, number=number)
    check_policy(lambda vpod, state: registry.create("head", {})(vpod, state, 99).counts, number=number)
    check_policy(live.policy(live.V0430Settings(fills_up=True)), number=number)


def too_many(vpod, state):
    return dict.fromkeys(state.usable, vpod.wanted)


def changing(vpod, state):
    state.held[0] = state.held.get(0, 0) + 1
    return {}


class Forgetful:
    """Answers something else each time."""

    def __init__(self):
        self.calls = 0

    def __call__(self, vpod, state):
        self.calls += 1
        free = [ordinal for ordinal in state.usable if state.most_for(vpod, ordinal)]
        return {free[self.calls % len(free)]: 1} if free and vpod.wanted else {}


def wandering(vpod, state):
    """Moves to the pod after the one where it is."""
    free = [ordinal for ordinal in state.usable if state.most_for(vpod, ordinal) >= vpod.wanted]
    there = next((ordinal for ordinal in free if ordinal > min(vpod.placed, default=-1)), None)
    return {there: vpod.wanted} if there is not None else {}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (too_many, "can have|are wanted"),
        (changing, "changed what it was asked about"),
        (Forgetful(), "to the same question"),
        (wandering, "once that was so"),
        (lambda vpod, state: 1 / 0, "it raised ZeroDivisionError"),
        (lambda vpod, state: sys.exit(3), "it raised SystemExit"),
    ],
)
def test_a_policy_that_breaks_a_promise_is_found(place, text):
    with pytest.raises(PolicyBroken, match=text):
        check_policy(place)
