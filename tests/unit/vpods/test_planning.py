"""Dry runs: what they say is what happens, and nothing happens by them."""

from __future__ import annotations

import copy as copying
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.vpods.copies import SetCopy, copy_set
from extender.vpods.events import WorkloadSeen
from extender.vpods.planning import ChangeError, Changes, Plan, Planning, VPodChange
from extender.vpods.steps import Moved, Scaled
from tests.unit.vpods.world import SET, World


def taken(world: World) -> SetCopy:
    found = copy_set(world.engine, SET, world.now)
    assert found is not None
    return found


def planned(world: World, **changes: Any) -> Plan:
    planning = Planning(taken(world), Changes(**changes))
    for _ in planning.run():
        pass
    plan = planning.result()
    assert plan.is_at_rest
    return plan


def wants(**vreplicas: int) -> list[VPodChange]:
    return [VPodChange(vpod=name, vreplicas=number) for name, number in vreplicas.items()]


def told(plan: Plan) -> list[tuple[Any, ...]]:
    return [
        (step.vpod, step.source, step.target, step.vreplicas, step.why.value)
        if isinstance(step, Moved)
        else (step.before, step.after)
        for step in plan.steps
    ]


def small(**settings: Any) -> World:
    """Three pods on three nodes in three zones, ten vreplicas each; two vpods of three and six."""
    world = World(**{"replicas": 3, "zones": 3, "scales": False} | settings)
    world.want("a", 3)
    world.want("b", 6)
    world.settle()
    return world


def test_nothing_changes_nothing() -> None:
    plan = planned(small())
    assert plan.steps == []
    assert plan.before == plan.after
    assert plan.before.expected == plan.before.placed == 9
    assert plan.before.free == 21


def test_growth_is_told_pod_by_pod() -> None:
    plan = planned(small(), vpods=wants(a=5))
    assert told(plan) == [("ns/a", None, 0, 1, "growth"), ("ns/a", None, 1, 1, "growth")]
    assert plan.grown == 2
    assert plan.after.placed == 11


def test_a_new_vpod_is_placed() -> None:
    plan = planned(small(), vpods=wants(new=3))
    assert [step[:4] for step in told(plan)] == [("ns/new", None, ordinal, 1) for ordinal in range(3)]
    assert plan.after.vpods == 3


def test_a_deleted_vpod_leaves_room() -> None:
    plan = planned(small(), vpods=[VPodChange(vpod="b", deleted=True)])
    assert plan.after.free == 27


def test_a_lost_pod_is_emptied_after_its_rest() -> None:
    plan = planned(small(unready_seconds=60), lost_pods=["ss-1"])
    assert plan.moves == {"lost pod": 3}
    assert {step.at for step in plan.steps} == {60.0}
    assert plan.held_after.keys() == {0, 2}


def test_a_closed_pod_is_emptied_at_once() -> None:
    plan = planned(small(), closed_pods=["1"])
    assert plan.moves == {"closed pod": 3}
    assert {step.at for step in plan.steps} == {0.0}


@pytest.mark.parametrize("field", ["cordoned_nodes", "lost_nodes"])
def test_the_pods_of_a_node_are_emptied(field: str) -> None:
    plan = planned(small(), **{field: ["n2"]})
    assert plan.held_after.keys() == {0, 1}
    assert sum(plan.moves.values()) == 3


def test_the_plan_in_the_documentation_is_what_a_plan_says() -> None:
    """Of three pods with room for nine vreplicas each, on a node each."""
    world = World(replicas=3, zones=3, scales=True, capacity=9)
    for name, number in {"orders": 5, "payments": 7, "mails": 3}.items():
        world.want(name, number)
    world.settle()
    plan = planned(world, vpods=wants(orders=12), lost_nodes=["n2"])

    def pod(ordinal: int | None) -> str:
        return "(new)" if ordinal is None else f"dispatcher-{ordinal}"

    rows = [
        f"0s streams/{step.vpod.removeprefix('ns/')} {pod(step.source)} {pod(step.target)} {step.vreplicas} {step.why}"
        if isinstance(step, Moved)
        else f"0s replicas {step.before} {step.after} + {pod(step.before)}"
        for step in plan.steps
    ]
    text = (Path(__file__).parents[3] / "docs" / "vpods.md").read_text()
    shown = [" ".join(line.split()) for line in text.splitlines() if line.startswith("0s  ")]
    assert shown == rows[:7]
    assert (plan.moves, plan.grown) == ({"evenness": 4, "lost pod": 5}, 7)
    assert "9 vreplicas would move (4 evenness, 5 lost pod), 7 would be new, 0 given up;" in text


def test_a_set_that_grows_gets_pods_and_evens_out() -> None:
    plan = planned(small(scales=True, capacity=3), vpods=wants(b=15))
    assert plan.added == [3, 4, 5]
    assert plan.after.replicas == 6
    assert plan.after.pending == 0
    assert plan.after.spread == 0
    kinds = [type(step) for step in plan.steps]
    assert kinds.index(Scaled) < len(kinds) - 1, "placements follow once the pods are there"


def test_a_set_is_drained_before_it_shrinks() -> None:
    plan = planned(small(scales=True, capacity=10), vpods=wants(b=3))
    assert plan.removed == [2, 1]
    assert plan.moves.keys() == {"drain"}
    assert isinstance(plan.steps[-1], Scaled)
    assert plan.seconds == 300


def test_fewer_replicas_by_hand() -> None:
    plan = planned(small(), replicas=2)
    assert plan.removed == [2]
    assert plan.moves == {"lost pod": 3}


def test_less_capacity_shows_who_waits() -> None:
    plan = planned(small(), settings={"capacity": 2})
    assert plan.after.free == 0
    assert plan.waiting_total == len(plan.waiting) > 0
    assert sum(each.pending for each in plan.waiting) == 3
    assert {each.reason for each in plan.waiting} == {"NotEnoughRoom"}


def test_another_policy_runs_its_own_code() -> None:
    world = World(replicas=3, scales=False)
    for wanted in range(1, 11):
        world.want("a", wanted)
        world.settle()
    grown = [VPodChange(vpod="a", vreplicas=11)]
    assert told(planned(world, vpods=grown))[0][2] != 0
    assert told(planned(world, vpods=grown, settings={"policy": "head"}))[0][2] == 0


def test_a_move_that_overlaps_is_one_move() -> None:
    plan = planned(small(overlap_seconds=30, unready_seconds=60), closed_pods=["1"])
    assert plan.moves == {"closed pod": 3}
    assert (plan.grown, plan.given_up) == (0, 0)
    assert {step.at for step in plan.steps} == {30.0}
    assert plan.held_after.keys() == {0, 2}


def test_a_set_that_can_never_be_drained_is_at_rest() -> None:
    world = World(replicas=2, capacity=10, scales=True)
    world.want("a", 4)
    world.settle()
    world.change(0, closed=True)
    world.settle()
    assert planned(world, vpods=wants(a=3)).seconds < 3600


def test_steps_are_bounded_and_counted() -> None:
    planning = Planning(taken(small()), Changes(vpods=wants(a=10, b=20)))
    for _ in planning.run():
        pass
    plan = planning.result(limit=2)
    assert len(plan.steps) == 2
    assert plan.steps_total > 2


def test_a_plan_that_is_stopped_says_so() -> None:
    planning = Planning(taken(small()), Changes(vpods=wants(a=10)))
    next(planning.run())
    assert not planning.result().is_at_rest


def test_what_is_under_way_is_taken_as_done() -> None:
    world = small()
    world.want("a", 4)
    world.observe()
    assert world.sent
    plan = planned(world)
    assert plan.steps == []
    assert plan.after.placed == 10


def test_those_who_wait_longest_are_first_in_line() -> None:
    world = World(replicas=1, scales=False, capacity=2)
    for name in ("first", "second"):
        world.want(name, 2)
        world.settle()
        world.pass_time(10)
    world.want("third", 2)
    world.settle()
    plan = planned(world, vpods=[VPodChange(vpod="first", deleted=True)])
    assert [each.vpod for each in plan.waiting] == ["ns/third"]


def test_a_server_that_does_not_lead_can_plan() -> None:
    world = small()
    world.demote()
    assert planned(world, vpods=wants(a=4)).grown == 1


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"vpods": wants(a=-1)}, "vpods.0.vreplicas", "expected a number from 0 to 2147483647, not -1"),
        ({"vpods": wants(a=2**31)}, "vpods.0.vreplicas", "not 2147483648"),
        ({"vpods": [VPodChange(vpod="c")]}, "vpods.0.vpod", "ns/c is not a vpod of ns/fleet"),
        ({"vpods": [VPodChange(vpod="a"), VPodChange(vpod="ns/a")]}, "vpods.1.vpod", "is listed twice"),
        ({"vpods": wants(**{"x/y/z": 1})}, "vpods.0.vpod", "expected NAME or NAMESPACE/NAME"),
        ({"settings": {"policy": "even"}}, "policy", "no policy 'even'"),
        ({"settings": {"policy_settings": {"x": 1}}}, "policy_settings", "x"),
        ({"vpods": wants(a=9_999, c=2), "settings": {"policy": "head"}}, "vpods", "expected at most 10000 vreplicas"),
        ({"settings": {"min_replicas": 200}}, "max_replicas", "expected at least min_replicas"),
        ({"replicas": -1}, "replicas", "expected a number from 0"),
        ({"lost_pods": ["ss-0", "ss-3"]}, "lost_pods.1", "of ss-0 to ss-2"),
        ({"closed_pods": ["other-1"]}, "closed_pods.0", "other-1 is not a pod of ns/fleet"),
        ({"lost_nodes": ["n3"]}, "lost_nodes.0", "there is no node n3"),
        ({"cordoned_nodes": [""]}, "cordoned_nodes.0", "there is no node"),
    ],
)
def test_what_is_not_possible_names_its_field(changes: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(ChangeError, match=text) as raised:
        Planning(taken(small()), Changes(**changes))
    assert raised.value.field == field


def test_a_misspelt_vpod_gets_a_suggestion() -> None:
    world = World(scales=False)
    world.want("orders-eu", 1)
    world.settle()
    with pytest.raises(ChangeError, match="did you mean orders-eu"):
        Planning(taken(world), Changes(vpods=[VPodChange(vpod="orders-ue")]))


def state(world: World) -> Any:
    """All that the engine knows, as text: a plan leaves every part of it as it was."""
    engine = world.engine
    hosted = engine.sets[SET]
    return copying.deepcopy(
        (
            engine.sequence,
            {str(key): (each.record, each.hold, each.reason) for key, each in engine.vpods.items()},
            {key: (each.wanted, dict(each.placed)) for key, each in hosted.state.vpods.items()},
            (hosted.state.held, hosted.state.usable, hosted.waiting, hosted.moves_open, hosted.draining),
            hosted.rested(),
            engine.next_due(),
        )
    )


class SlowPods(World):
    """Pods start when everything else has come to rest, as in a cluster: all at once, or one after the other."""

    def __init__(self, *, in_order: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.workload = msgspec.structs.replace(self.workload, in_order=in_order, version=self.next_version())
        self.watch.append(WorkloadSeen(self.workload))

    def control(self) -> None:
        for ordinal in [each for each in self.pods if each >= self.workload.replicas]:
            self.lose(ordinal)
        if not self.log:
            super().control()

    def rest(self) -> None:
        self.settle()
        while missing := [each for each in range(self.workload.replicas) if each not in self.pods]:
            for ordinal in missing[:1] if self.workload.in_order else missing:
                self.start_pod(ordinal)
            self.settle()


def test_new_pods_start_when_all_else_is_done() -> None:
    world = SlowPods(in_order=True, replicas=2, zones=1, scales=True, capacity=4)
    world.want("a", 8)
    world.rest()
    plan = planned(world, vpods=wants(a=14))
    kinds = [(type(step), step.target if isinstance(step, Moved) else step.after) for step in plan.steps]
    assert kinds[0] == (Scaled, 4)
    assert kinds[1:] == sorted(kinds[1:], key=lambda each: each[1] != 2), "the third pod gets its share first"


def test_a_set_that_has_just_grown_waits_as_the_server_does() -> None:
    world = small(scales=True, capacity=3, scale_up_seconds=60)
    world.want("b", 9)
    world.settle()
    world.pass_time(20)
    plan = planned(world, vpods=wants(b=15))
    assert [step.at for step in plan.steps if isinstance(step, Scaled)] == [40.0]


sizes = st.integers(0, 12)


@example(before=[0, 1, 6, 12, 11], after=[3], replicas=1, scales=True, closed=0, in_order=True)
@example(before=[0, 1, 6, 12, 11], after=[3], replicas=1, scales=True, closed=0, in_order=False)
@example(before=[8], after=[2, 12, 5, 2], replicas=4, scales=True, closed=0, in_order=True)
@example(before=[5, 2, 11, 8, 9], after=[7], replicas=5, scales=True, closed=3, in_order=False)
@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(sizes, min_size=1, max_size=5),
    after=st.lists(sizes, min_size=1, max_size=5),
    replicas=st.integers(1, 5),
    scales=st.booleans(),
    closed=st.integers(0, 4),
    in_order=st.booleans(),
)
def test_what_is_planned_happens(
    before: list[int], after: list[int], replicas: int, scales: bool, closed: int, in_order: bool
) -> None:
    zones = 1 if scales else 2  # a new pod may come up in another zone than the plan takes
    settings = {"zones": zones, "scales": scales, "capacity": 6, "max_moves": 3, "max_replicas": 8}
    world = SlowPods(in_order=in_order, replicas=replicas, **settings)
    for index, wanted in enumerate(before):
        world.want(f"v{index}", wanted)
    world.rest()
    was = state(world)
    pods = [str(closed)] if closed in world.pods else []
    changes = {"vpods": [VPodChange(vpod=f"v{i}", vreplicas=n) for i, n in enumerate(after)], "closed_pods": pods}
    plan = planned(world, **changes)
    assert state(world) == was

    moves = world.moves
    for ordinal in pods:
        world.change(int(ordinal), closed=True)
    for index, wanted in enumerate(after):
        world.want(f"v{index}", wanted)
    world.observe(len(world.watch))
    for _ in range(60):
        world.rest()
        world.pass_time(30)
    now = taken(world)
    assert plan.after.replicas == now.replicas
    assert plan.held_after == dict(now.held)
    assert sum(plan.moves.values()) + plan.given_up == world.moves - moves
    assert {each.vpod for each in plan.waiting} == {vpod.name for vpod in now.vpods if vpod.pending}


def test_a_plan_is_data() -> None:
    plan = planned(small(), vpods=wants(a=5))
    assert msgspec.json.decode(msgspec.json.encode(plan))["grown"] == 2
