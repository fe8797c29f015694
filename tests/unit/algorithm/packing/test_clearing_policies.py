"""EVICTING for gangs of which only some pods may preempt, against brute force over the victims of tiny clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithm.interface import Bind, MemberPlan, Phase, Preempt, Victim, Wait
from algorithm.reasons import Code
from tests.support.packing.harness import PackingHarness, member, node, pod

IMPORTANCE = 2


class Running(NamedTuple):
    node: str
    gpu: int
    priority: int
    protected: bool


class Case(NamedTuple):
    """The gpus of each node; what runs there; what each pod of the gang asks for; which of these may preempt."""

    capacity: dict[str, int]
    running: dict[str, Running]
    gpus: list[int]
    may_preempt: list[bool]
    minimum: int

    def free(self, gone: Iterable[str] = ()) -> Counter[str]:
        stay = [each for uid, each in self.running.items() if uid not in set(gone)]
        return Counter({n: c - sum(each.gpu for each in stay if each.node == n) for n, c in self.capacity.items()})

    def evictable(self, spared: Iterable[str]) -> list[str]:
        return [uid for uid, each in self.running.items() if each.priority < IMPORTANCE and uid not in set(spared)]

    def protected(self) -> frozenset[str]:
        return frozenset(uid for uid, each in self.running.items() if each.protected)

    def has_seats(self, gone: Iterable[str]) -> bool:
        """Whether enough pods find room when these have gone, the first one among them; for pods of one size only.

        Room of pods that have gone counts only for those that may preempt. What they leave over, others may take too.
        """
        [gpu] = set(self.gpus)
        before = sum(amount // gpu for amount in self.free().values())
        after = sum(amount // gpu for amount in self.free(gone).values())
        strict = min(self.may_preempt.count(False), before, self.minimum - 1)
        return min(strict + self.may_preempt.count(True), after) >= self.minimum

    def has_plan(self, spared: Iterable[str]) -> bool:
        return self.has_seats(self.evictable(spared))


@st.composite
def cases(draw: st.DrawFn, *, one_size: bool) -> Case:
    capacity = {name: draw(st.integers(1, 3)) for name in "abcd"[: draw(st.integers(1, 4))]}
    running: dict[str, Running] = {}
    for name, gpus in capacity.items():
        left = gpus
        while left and draw(st.sampled_from([True, True, True, False])):
            gpu = draw(st.integers(1, left))
            left -= gpu
            priority, protected = draw(st.integers(0, IMPORTANCE)), draw(st.sampled_from([False, False, False, True]))
            running[f"u-low-{name}{left}"] = Running(name, gpu, priority, protected)
    size = draw(st.integers(2, 4))
    gpus = draw(st.lists(st.integers(1, 2), min_size=size, max_size=size))
    may_preempt = [True, *draw(st.lists(st.booleans(), min_size=size - 1, max_size=size - 1))]
    minimum = draw(st.integers(2, size))
    return Case(capacity, running, gpus[:1] * size if one_size else gpus, may_preempt, minimum)


def world_of(case: Case) -> PackingHarness:
    world = PackingHarness(*(node(name, gpu=gpu) for name, gpu in case.capacity.items()))
    for uid, each in case.running.items():
        world.bound(pod(uid.removeprefix("u-"), gpu=each.gpu, priority=each.priority), each.node)
    world.algorithm.set_protected_pods(case.protected())
    for number, (gpu, may_preempt) in enumerate(zip(case.gpus, case.may_preempt, strict=True)):
        record = member(f"m{number}", "g", case.minimum, gpu=gpu, priority=IMPORTANCE)
        world.submit(msgspec.structs.replace(record, may_preempt=may_preempt))
    return world


def plans_of(plan: Preempt) -> dict[str, MemberPlan]:
    return {each.uid: each for each in (MemberPlan("u-m0", plan.node, plan.victims), *plan.gang_members)}


def going(plan: Preempt) -> set[str]:
    return {victim.uid for each in plans_of(plan).values() for victim in each.victims}


def check(case: Case, plan: Preempt) -> None:
    """The plan is sound: there is room, nobody goes in vain, and nobody goes for a pod that must not preempt."""
    plans = plans_of(plan)
    assert len(plans) == case.minimum
    assert going(plan) <= set(case.evictable(case.protected()))
    demands: Counter[str] = Counter()
    for uid, each in plans.items():
        number = int(uid.removeprefix("u-m"))
        demands[each.node] += case.gpus[number]
        if not case.may_preempt[number]:
            assert not each.victims
        assert all(victim == Victim(case.running[victim.uid].node, victim.uid) for victim in each.victims)
    assert demands <= case.free(going(plan))
    assert not any(demands <= case.free(going(plan) - {spared}) for spared in going(plan)), "somebody goes in vain"
    for uid, each in plans.items():
        gpu = case.gpus[int(uid.removeprefix("u-m"))]
        stay = case.free(going(plan) - {victim.uid for victim in each.victims})
        for other in case.capacity if each.victims else ():
            moved = demands + Counter({other: gpu})
            moved[each.node] -= gpu
            assert not +moved <= stay, f"{uid} could go to {other}, and nobody would go for it"


def carry_out(world: PackingHarness, plan: Preempt) -> None:
    """The victims go one by one, while the plan stays as it is; then every pod of the plan gets its place.

    One victim may leave room for all: which pods go is decided seat by seat. Then the gang gets its places before.
    """
    asking = world.waiting["u-m0"]
    world.start_preempting(asking, plan)
    for each in plan.gang_members:
        world.start_preempting(world.waiting[each.uid], Preempt(each.victims, plan.reason, each.node))
    nodes = {uid: each.node for uid, each in plans_of(plan).items()}
    left = going(plan)
    for uid in sorted(left):
        now = world.schedule(asking, phase=Phase.EVICTING)
        if isinstance(now, Bind):
            return
        assert isinstance(now, Preempt), now
        assert (going(now), {uid: each.node for uid, each in plans_of(now).items()}) == (left, nodes)
        world.delete(uid)
        left = left - {uid}
    for uid, place in nodes.items():
        assert world.place(world.waiting[uid]) == place
    world.algorithm.validate()


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases(one_size=True))
def test_there_is_a_sound_plan_whenever_there_can_be_one(case: Case) -> None:
    world = world_of(case)
    answer = world.schedule(world.waiting["u-m0"], phase=Phase.EVICTING)
    if case.has_seats(()):
        assert isinstance(answer, Bind), answer
    elif case.has_plan(case.protected()):
        assert isinstance(answer, Preempt), answer
        check(case, answer)
        carry_out(world, answer)
    elif isinstance(answer, Preempt):
        check(case, answer)
        carry_out(world, answer)
    else:
        assert isinstance(answer, Wait), answer
        assert answer.reason.code is Code.VICTIM_PROTECTED or not case.has_plan(())


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases(one_size=False))
def test_plans_for_pods_of_two_sizes_are_sound(case: Case) -> None:
    world = world_of(case)
    answer = world.schedule(world.waiting["u-m0"], phase=Phase.EVICTING)
    if isinstance(answer, Preempt):
        check(case, answer)
        carry_out(world, answer)


def test_a_seat_moves_to_the_room_that_others_victims_leave() -> None:
    """The first seat is the cheapest on c. That of the second, on b, leaves room for both."""
    running = {
        "u-low-a": Running("a", 1, IMPORTANCE, False),
        "u-low-b": Running("b", 2, 1, False),
        "u-low-c0": Running("c", 1, 0, False),
        "u-low-c1": Running("c", 1, 1, False),
    }
    case = Case({"a": 1, "b": 2, "c": 2}, running, [1, 1], [True, True], 2)
    world = world_of(case)
    plan = world.schedule(world.waiting["u-m0"], phase=Phase.EVICTING)
    assert isinstance(plan, Preempt)
    check(case, plan)
    carry_out(world, plan)
