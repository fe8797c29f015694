"""What a gang costs by the number of its pods, which its author chooses: bounded, or not at all."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import Bind, Phase, PodRefused, Preempt, SuggestedNodes, Wait
from algorithm.model import Pod, pairs
from algorithm.packing import PackingAlgorithm, PackingSettings
from algorithm.packing.gangs import GANG_PLAN, MOST_MEMBERS, MOST_SIZES, read_plan
from algorithm.reasons import Code
from tests.support.effort import effort
from tests.support.packing.harness import PackingHarness, member, node
from tests.support.packing.harness import pod as a_pod


def told(size: int, minimum: int, *, placed: int = 0) -> PackingAlgorithm:
    """A gang of so many pods, of which some have places. The world's own checks would take longer than the test."""
    algorithm = PackingAlgorithm()
    for index in range(4):
        algorithm.add_node(node(f"n{index}", cpu=1_000_000, pods=100_000))
    for index in range(size):
        algorithm.add_unallocated_pod(member(f"m{index}", "g", minimum, cpu=1))
    for index in range(placed):
        pod = member(f"m{index}", "g", minimum, cpu=1)
        answer = ask(algorithm, pod)
        assert isinstance(answer, Bind)
        algorithm.add_allocated_pod(pod.placed(answer.node, answer.annotations))
    return algorithm


def ask(algorithm: PackingAlgorithm, pod: Pod) -> object:
    return algorithm.schedule(pod, SuggestedNodes([f"n{index}" for index in range(4)]), Phase.FILTERING)


def refusal(algorithm: PackingAlgorithm, pod: Pod) -> tuple[Code, str]:
    with pytest.raises(PodRefused) as caught:
        ask(algorithm, pod)
    return caught.value.reason.code, caught.value.reason.text


# -- bounds -------------------------------------------------------------------------------------------------------


def test_a_gang_of_more_pods_than_can_be_planned_for_is_refused() -> None:
    algorithm = told(MOST_MEMBERS + 1, 2)
    why = (Code.GANG_INVALID, "gang ns/g is declared wrongly: it has more than 1000 pods")
    assert refusal(algorithm, member("m0", "g", 2, cpu=1)) == why
    algorithm.delete_unallocated_pod(member("m1", "g", 2, cpu=1))
    assert isinstance(ask(algorithm, member("m0", "g", 2, cpu=1)), Bind)


def test_a_gang_whose_pods_differ_more_than_can_be_planned_for_is_refused() -> None:
    algorithm = told(0, 2)
    pods = [member(f"m{index}", "g", 2, cpu=1 + index) for index in range(MOST_SIZES + 1)]
    for pod in pods:
        algorithm.add_unallocated_pod(pod)
    why = (Code.GANG_INVALID, "gang ns/g is declared wrongly: its pods have more than 16 different requests")
    assert refusal(algorithm, pods[0]) == why
    assert refusal(algorithm.fork(), pods[0]) == why
    algorithm.delete_unallocated_pod(pods[1])
    answer = ask(algorithm, pods[0])
    assert isinstance(answer, Bind)
    algorithm.add_allocated_pod(pods[0].placed(answer.node, answer.annotations))
    algorithm.add_unallocated_pod(pods[1])
    assert isinstance(ask(algorithm, pods[2]), Bind), "those that run do not count"
    algorithm.validate()


def test_a_gang_of_which_a_newer_record_differs_too_much_is_refused() -> None:
    algorithm = told(0, 2)
    for index in range(MOST_SIZES):
        algorithm.add_unallocated_pod(member(f"m{index % MOST_SIZES}", "g", 2, cpu=1 + index))
    algorithm.add_unallocated_pod(member("last", "g", 2, cpu=1))
    assert isinstance(ask(algorithm, member("last", "g", 2, cpu=1)), Bind)
    assert refusal(algorithm, member("last", "g", 2, cpu=99))[0] is Code.GANG_INVALID


def test_a_minimum_of_more_pods_than_can_be_planned_for_is_refused() -> None:
    algorithm = told(1, MOST_MEMBERS + 1)
    assert refusal(algorithm, member("m0", "g", MOST_MEMBERS + 1, cpu=1)) == (
        Code.GANG_INVALID,
        "gang ns/g is declared wrongly: annotation waggle.dev/gang-min must be at most 1000, not 1001",
    )


def test_a_group_that_is_placed_seat_by_seat_may_have_as_many_pods_as_it_likes() -> None:
    algorithm = told(MOST_MEMBERS + 1, 1)
    assert isinstance(ask(algorithm, member("m0", "g", 1, cpu=1)), Bind)


@pytest.mark.parametrize("phase", [Phase.FILTERING, Phase.PREEMPTING, Phase.EVICTING])
def test_a_gang_for_which_too_many_pods_would_have_to_go_waits_and_says_so(
    phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = on_many_nodes(4, pods=4, lower=2)
    assert isinstance(ask_about_all(algorithm, 4, phase, 4), Preempt)
    monkeypatch.setattr("algorithm.packing.trial.MOST_VICTIMS", 7)
    monkeypatch.setattr("algorithm.packing.algorithm.MOST_VICTIMS", 7)
    algorithm = on_many_nodes(4, pods=4, lower=2)
    answer = ask_about_all(algorithm, 4, phase, 4)
    assert isinstance(answer, Wait)
    assert answer.reason.text == "gang ns/g does not fit as a whole: more than 7 pods would have to go"
    algorithm.validate()


def test_a_plan_forgets_members_that_are_gone() -> None:
    w = PackingHarness(node("n"))
    first = w.submit(*(member(name, "g", 2, cpu=1) for name in "ab")) or w.waiting["u-a"]
    w.place(first)
    w.place(w.waiting["u-b"])
    for index in range(5):
        late = member(f"late{index}", "g", 2, cpu=1)
        w.place(late)
        w.delete(late.uid)
    last = member("last", "g", 2, cpu=1)
    w.place(last)
    plan = read_plan(w.allocated["u-last"].annotation(GANG_PLAN) or "")
    assert set(plan.seats) == {"u-a", "u-b", "u-last"}


# -- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimum", [1, 2, 100])
def test_a_pod_that_comes_or_goes_costs_the_same_however_many_others_wait(minimum: int) -> None:
    def cost(size: int) -> int:
        algorithm, pod = told(size, minimum), member("new", "g", minimum, cpu=1)

        def come_and_go() -> None:
            algorithm.add_unallocated_pod(pod)
            algorithm.delete_unallocated_pod(pod)

        come_and_go()
        return effort(come_and_go)

    assert cost(400) == cost(200)


def test_a_member_that_is_placed_by_the_plan_costs_about_the_same_however_many_wait() -> None:
    def cost(size: int) -> int:
        algorithm, pod = told(size, 100, placed=1), member("m1", "g", 100, cpu=1)
        answer = ask(algorithm, pod)
        assert isinstance(answer, Bind)
        placed = pod.placed(answer.node, answer.annotations)
        return effort(lambda: algorithm.add_allocated_pod(placed))

    assert cost(400) < 1.2 * cost(200)


def test_asking_about_one_of_a_group_without_minimum_costs_the_same_however_many_wait() -> None:
    def cost(size: int) -> int:
        algorithm = told(size, 1)
        return effort(lambda: ask(algorithm, member("m0", "g", 1, cpu=1)))

    assert cost(400) == cost(200)


def test_asking_about_a_gang_costs_in_proportion_to_its_pods() -> None:
    def cost(size: int) -> int:
        algorithm = told(size, size)
        return effort(lambda: ask(algorithm, member("m0", "g", size, cpu=1)))

    assert cost(400) < 2.3 * cost(200)


def on_many_nodes(nodes: int, *, pods: int, lower: int = 0, strategy: str = "pack") -> PackingAlgorithm:
    """A gang of so many pods, each of which takes a node of its own; `lower` pods in the way on each of these."""
    algorithm = PackingAlgorithm(PackingSettings.model_validate({"strategy": strategy}))
    for index in range(nodes):
        algorithm.add_node(node(f"n{index}", cpu=100))
        for other in range(lower):
            blocker = a_pod(f"low{index}-{other}", cpu=50, priority=-1)
            algorithm.add_allocated_pod(blocker.placed(f"n{index}"))
    for index in range(pods):
        algorithm.add_unallocated_pod(member(f"m{index}", "g", pods, cpu=100))
    return algorithm


def ask_about_all(algorithm: PackingAlgorithm, nodes: int, phase: Phase, pods: int) -> object:
    return algorithm.schedule(
        member("m0", "g", pods, cpu=100), SuggestedNodes([f"n{index}" for index in range(nodes)]), phase
    )


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_a_seat_of_a_gang_costs_a_fraction_of_what_a_pod_costs_that_is_placed_alone(strategy: str) -> None:
    def cost(pods: int) -> int:
        algorithm = on_many_nodes(500, pods=pods, strategy=strategy)
        return effort(lambda: ask_about_all(algorithm, 500, Phase.FILTERING, pods))

    assert (cost(400) - cost(200)) / 200 < cost(1) / 2


def test_a_plan_is_taken_over_at_a_cost_in_proportion_to_its_seats() -> None:
    def cost(pods: int) -> int:
        algorithm = on_many_nodes(500, pods=pods)
        answer = ask_about_all(algorithm, 500, Phase.FILTERING, pods)
        assert isinstance(answer, Bind)
        placed = member("m0", "g", pods, cpu=100).placed(answer.node, answer.annotations)
        return effort(lambda: algorithm.add_allocated_pod(placed))

    assert cost(400) < 2.2 * cost(200)


def test_taking_over_a_plan_looks_at_each_node_once_however_many_seats_it_has_there() -> None:
    def cost(cpu: int) -> int:
        algorithm = PackingAlgorithm()
        for index in range(100):
            algorithm.add_node(node(f"n{index}", cpu=100))
        for index in range(100):
            algorithm.add_unallocated_pod(member(f"m{index}", "g", 100, cpu=cpu))
        answer = algorithm.schedule(
            member("m0", "g", 100, cpu=cpu), SuggestedNodes([f"n{index}" for index in range(100)]), Phase.FILTERING
        )
        assert isinstance(answer, Bind)
        before = algorithm._state.cluster.generation
        algorithm.add_allocated_pod(member("m0", "g", 100, cpu=cpu).placed(answer.node, answer.annotations))
        return algorithm._state.cluster.generation - before

    assert cost(100) == 100
    assert cost(10) <= 11


@pytest.mark.parametrize(
    "phase", [Phase.FILTERING, Phase.PREEMPTING, pytest.param(Phase.EVICTING, marks=pytest.mark.slow)]
)
def test_making_room_for_a_gang_costs_in_proportion_to_its_pods(phase: Phase) -> None:
    def cost(pods: int) -> int:
        algorithm = on_many_nodes(pods, pods=pods, lower=2)
        return effort(lambda: ask_about_all(algorithm, pods, phase, pods))

    assert cost(160) < 2.3 * cost(80)


def test_members_that_carry_different_plans_do_not_keep_them_all_read() -> None:
    algorithm = PackingAlgorithm()
    for index in range(50):
        seats = ",".join(f'"u{index}-{number}":"n0"' for number in range(100))
        record = msgspec.structs.replace(
            member(f"m{index}", f"g{index}", 2, cpu=1),
            node_name="n0",
            annotations=pairs(
                {
                    "waggle.dev/gang": f"g{index}",
                    "waggle.dev/gang-min": "2",
                    GANG_PLAN: f'{{"generation":1,"seats":{{{seats}}}}}',
                }
            ),
        )
        algorithm.add_allocated_pod(record)
    assert read_plan.cache_info().currsize <= 16
