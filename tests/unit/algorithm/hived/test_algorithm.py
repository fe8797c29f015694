"""HiveD through the contract of `algorithm.interface`: answers, reasons, and what is remembered on pods."""

import json

import msgspec
import pytest

from algorithm.hived.formats.bindinfo import BIND_INFO, ISOLATION
from algorithm.hived.state.groups import GroupState
from algorithm.hived.state.lazy_preemption import LAZILY_PREEMPTED
from algorithm.interface import Bind, Phase, PodRefused, Preempt, Unoffered, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code
from tests.support.hived.harness import PREEMPTING, RACKS, HivedHarness, gang, node, one, pod, snapshot

PINNED = RACKS.replace("{cellAddress: m1}", "{cellAddress: m1, pinnedCellId: pin}").replace(
    "  a:\n    virtualCells:\n    - {cellType: rack.host, cellNumber: 2}",
    "  a:\n    virtualCells:\n    - {cellType: rack.host, cellNumber: 1}\n    pinnedCells: [{pinnedCellId: pin}]",
)


@pytest.fixture
def world():
    return HivedHarness()


def refusal(world, each):
    with pytest.raises(PodRefused) as caught:
        world.ask(each)
    return caught.value.reason.text


# -- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"ready": False}, {"unschedulable": True}])
def test_a_node_that_is_not_ready_or_cordoned_is_bad(world, change):
    for name in ("m1", "m2", "m3"):
        world.algorithm.update_node(node(name), msgspec.structs.replace(node(name), **change))

    assert world.bind(one("g", leafs=4))[0][0] == "m4"


def test_what_else_changes_of_a_node_means_nothing(world):
    before = snapshot(world.hive)

    world.algorithm.update_node(node("m1"), Node(name="m1", uid="uid-m1", labels=(("a", "b"),)))

    assert snapshot(world.hive) == before


def test_a_node_that_is_not_configured_means_nothing(world):
    before = snapshot(world.hive)
    world.algorithm.add_node(node("stranger"))
    world.algorithm.delete_node(node("stranger"))

    assert snapshot(world.hive) == before


def test_a_machine_that_was_never_announced_is_bad():
    world = HivedHarness(nodes=False)
    world.turn("m4", healthy=True)

    assert world.bind(one("g", leafs=4)) == [("m4", "0,1,2,3")]


def test_pods_on_a_machine_that_turns_bad_are_left_alone(world):
    world.bind(*gang("g", pods=2, leafs=4))
    before = {group.name: list(group.members()) for group in world.hive.groups.values()}

    world.turn("m1", "m2", healthy=False)

    assert {group.name: list(group.members()) for group in world.hive.groups.values()} == before


# -- answers ----------------------------------------------------------------------------------------------------------


def test_the_whole_gang_is_planned_with_its_first_pod(world):
    first, second = gang("g", pods=2, leafs=4)

    assert world.bind(first) == [("m1", "0,1,2,3")]
    assert world.bind(second) == [("m2", "0,1,2,3")]


def test_a_decision_is_written_in_the_originals_annotations(world):
    answer = world.ask(one("g", leafs=2))

    assert isinstance(answer, Bind)
    assert dict(answer.annotations).keys() == {BIND_INFO, ISOLATION}


def test_members_of_different_sizes_have_places_of_their_own(world):
    placed = world.bind(*gang("g", members={1: 2, 2: 1}))

    assert sorted(devices for _, devices in placed) == ["0", "1", "2,3"]


def test_a_place_that_kube_scheduler_does_not_offer_is_waited_for(world):
    """The gang's place is decided; only this pod's node is not offered now."""
    first, second = gang("g", pods=2, leafs=4)
    world.bind(first)

    answer = world.ask(second, offered=["m1"])

    assert isinstance(answer, Wait)
    assert answer.reason.code is Code.GANG_ELSEWHERE


def test_or_it_is_taken_all_the_same_as_the_original_does():
    world = HivedHarness(RACKS + "bindUnoffered: true\n")

    assert isinstance(world.ask(one("g", leafs=4), offered=[]), Bind)
    assert isinstance(world.ask(one("h", leafs=4, ignoreK8sSuggestedNodes=False), offered=[]), Wait)


@pytest.mark.parametrize(
    ("more", "wish", "declared"),
    [
        ("", {}, Unoffered.PLANS),
        ("bindUnoffered: true\n", {}, Unoffered.PLACES),
        ("bindUnoffered: true\n", {"ignoreK8sSuggestedNodes": False}, Unoffered.NOTHING),
        ("bindUnoffered: true\n", {"virtualCluster": ""}, Unoffered.NOTHING),
    ],
)
def test_it_declares_which_pods_leave_the_offer(more, wish, declared):
    world = HivedHarness(RACKS + more)

    assert world.algorithm.unoffered(one("g", leafs=4, **wish)) is declared


def test_a_member_waits_while_the_node_of_its_place_does_not_exist():
    world = HivedHarness(RACKS + "bindUnoffered: true\n")
    first, second = gang("g", pods=2, leafs=4)
    world.bind(first)
    world.algorithm.delete_node(node("m2"))

    answer = world.ask(second, offered=["m1", "m3", "m4"])

    assert isinstance(answer, Wait)
    assert answer.reason.code is Code.GANG_ELSEWHERE


def test_a_pod_without_room_is_told_what_is_used_up(world):
    world.bind(*gang("g", pods=2, leafs=4))

    answer = world.ask(one("h", leafs=1))

    assert (answer.reason.code, answer.reason.text.count("insufficient capacity when scheduling in VC a")) == (
        Code.CELLS_EXHAUSTED,
        1,
    )


def test_a_pod_that_would_need_a_bad_machine_is_told_so(world):
    world.turn("m1", "m2", "m3", "m4", healthy=False)

    assert world.ask(one("g", leafs=4)).reason.code is Code.CELLS_BAD


def test_a_pod_that_would_need_what_is_not_offered_is_told_so(world):
    answer = world.ask(one("g", leafs=4, ignoreK8sSuggestedNodes=False), offered=[])

    assert answer.reason.code is Code.CELLS_NOT_OFFERED


def test_the_same_calls_give_the_same_answers():
    def answers():
        world = HivedHarness()
        for number in range(8):
            each = one(f"g{number}", tenant="ab"[number % 2], leafs=1 + number % 4, priority=number % 3 - 1)
            answer = world.ask(each)
            if isinstance(answer, Bind):
                world.take(each, answer)
            yield answer

    assert list(answers()) == list(answers())


# -- pods that are wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"tenant": "nobody"}, "VC nobody does not exists!"),
        ({"leafCellType": "tpu"}, "leaf cell type tpu which the whole cluster does not have"),
        ({"pinnedCellId": "ghost"}, "VC a does not have pinned cell ghost"),
        ({"priority": 1001}, "Priority is greater than 1000"),
    ],
)
def test_a_wish_that_can_never_be_is_refused(world, wish, text):
    assert text in refusal(world, one("g", **wish))


def test_a_tenant_without_that_type_is_refused_unless_opportunistic():
    world = HivedHarness(RACKS + "  c: {}\n")

    assert "which VC c does not have" in refusal(world, one("g", tenant="c", leafCellType="gpu"))
    assert world.bind(one("o", tenant="c", leafCellType="gpu", priority=-1))


def test_opportunistic_pods_have_no_pinned_cells():
    assert "opportunistic pod not supported" in refusal(HivedHarness(PINNED), one("g", pinnedCellId="pin", priority=-1))


def test_more_pods_than_were_declared_are_refused(world):
    pods = gang("g", pods=1, leafs=1)
    world.bind(*pods)

    assert "more pods than the configured number" in refusal(world, pod("late", pods[0].annotations[0][1]))


@pytest.mark.parametrize("spec", ["", "nonsense", "[" * 100_000, "x" * 10_000_000])
def test_a_wish_that_cannot_be_read_is_refused(world, spec):
    assert "pod-scheduling-spec" in refusal(world, pod("p", spec))


# -- pinned cells -----------------------------------------------------------------------------------------------------


def test_a_pod_that_names_a_pinned_cell_runs_in_it():
    world = HivedHarness(PINNED)

    assert world.bind(one("g", pinnedCellId="pin", leafs=2)) == [("m1", "0,1")]


def test_a_pod_that_names_none_never_does():
    world = HivedHarness(PINNED)

    assert world.bind(one("g", leafs=4))[0][0] != "m1"
    assert isinstance(world.ask(one("h", leafs=4)), Wait)


def test_opportunistic_pods_may_use_a_pinned_cell_while_it_is_idle():
    world = HivedHarness(PINNED)
    opportunistic = [one(f"o{number}", tenant="b", leafs=4, priority=-1) for number in range(4)]
    world.bind(*opportunistic)

    assert world.preempt(one("g", pinnedCellId="pin", leafs=4)) == {
        each.uid for each in world.allocated.values() if each.node_name == "m1"
    }


# -- others -----------------------------------------------------------------------------------------------------------


def test_pods_that_ask_for_nothing_here_are_not_looked_at(world):
    before = snapshot(world.hive)
    other = Pod(namespace="kube-system", name="proxy", uid="u", node_name="m1")
    world.found(other)
    world.delete(other)

    assert snapshot(world.hive) == before
    assert not world.algorithm.unrecoverable_pods


def test_a_pod_whose_devices_are_not_configured_runs_unaccounted(world):
    pods = gang("g", pods=1, leafs=4)
    world.bind(*pods)
    world.restart(config=RACKS.replace("m1", "m9"))

    assert list(world.group("g").leafs()) == []
    assert world.bind(*gang("h", pods=2, leafs=4))
    world.delete(*pods)
    assert "g" not in world.hive.groups


def test_a_proposal_that_comes_to_nothing_gives_all_back(world):
    before = snapshot(world.hive)
    each = one("g", leafs=4)
    world.bind(each)
    world.expire(each)

    assert snapshot(world.hive)["groups"] == before["groups"]
    assert world.bind(each)


def test_lazy_preemptions_are_remembered_on_the_pod_that_took_the_quota():
    world = HivedHarness()
    lazy = gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True)
    world.bind(*lazy)
    high = one("high", leafs=4, priority=5)
    world.bind(high)
    assert [place.types for place in world.group("lazy").places[4]] == [("",) * 4] * 2
    said = json.loads(world.allocated[high.uid].annotation(LAZILY_PREEMPTED))
    assert said == [{"group": "lazy", "by": "high", "pods": ["u-lazy-0", "u-lazy-1"]}]

    for order in ([high.uid], [each.uid for each in lazy]):
        world.restart(order)
        assert world.group("lazy").virtual is None
        assert world.group("high").virtual is not None


def test_who_came_after_a_lazy_preemption_keeps_what_it_was_given_whoever_is_found_first():
    """The preemptor is gone, and less important pods have the quota by now."""
    world = HivedHarness()
    lazy = gang("lazy", pods=2, leafs=4, priority=3, lazyPreemptionEnable=True)
    world.bind(*lazy)
    high = one("high", leafs=4, priority=5)
    world.bind(high)
    world.delete(world.allocated[high.uid])
    later = gang("later", pods=2, leafs=4)
    world.bind(*later)

    for order in (later, lazy, [lazy[0], later[1]], [later[1], lazy[1]]):
        world.restart([each.uid for each in order])
        assert world.group("lazy").virtual is None
        assert world.group("later").virtual is not None
        assert world.group("lazy").lazily_preempted_by == "high"


def test_people_see_the_priority_that_counts_after_a_lazy_preemption():
    world = HivedHarness()
    lazy = gang("lazy", pods=2, leafs=4, priority=3, lazyPreemptionEnable=True)
    world.bind(*lazy)
    bound = [world.allocated[each.uid] for each in lazy]
    described = [(each, world.algorithm.describe(each)) for each in bound]
    assert [world.algorithm.current_priority(*each) for each in described] == [3, 3]
    world.bind(one("high", leafs=4, priority=5))
    assert [world.algorithm.current_priority(*each) for each in described] == [-1, -1]
    assert [world.algorithm.describe(each).priority for each in bound] == [3, 3]


def test_a_group_whose_quota_nobody_needs_any_more_may_have_it_back_after_a_restart():
    world = HivedHarness()
    world.bind(*gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True))
    high = one("high", leafs=4, priority=5)
    world.bind(high)
    assert world.group("lazy").virtual is None
    world.delete(world.allocated[high.uid])
    world.restart()

    assert world.group("lazy").virtual is not None


def test_a_later_group_of_the_same_name_has_its_own_quota():
    world = HivedHarness()
    lazy = gang("lazy", pods=2, leafs=4, lazyPreemptionEnable=True)
    world.bind(*lazy)
    world.bind(one("high", leafs=4, priority=5))
    world.delete(*[world.allocated[each.uid] for each in lazy])
    again = msgspec.structs.replace(one("lazy", leafs=4, lazyPreemptionEnable=True), uid="u-again")
    world.bind(again)
    world.restart()

    assert world.group("lazy").virtual is not None


def test_only_who_agreed_can_be_preempted_lazily_whatever_stands_on_a_pod():
    """Anybody may write that annotation on a pod that is bound already."""
    world = HivedHarness()
    world.bind(one("proud", leafs=4))
    liar = one("liar", leafs=4)
    answer = world.ask(liar)
    names = [{"group": name, "by": "liar", "pods": [f"u-{name}"]} for name in ("proud", "liar", "ghost")]
    lie = msgspec.structs.replace(answer, annotations=(*answer.annotations, (LAZILY_PREEMPTED, json.dumps(names))))
    world.take(liar, lie)

    assert world.group("proud").virtual is not None


@pytest.mark.parametrize("text", ["lazy", "[[[[[[[[", '[{"group": 1}]', "{}", "[" * 100_000])
def test_what_cannot_be_read_takes_no_quota(text):
    world = HivedHarness()
    world.bind(one("lazy", leafs=4, lazyPreemptionEnable=True))
    answer = world.ask(other := one("other", leafs=4))
    world.take(other, msgspec.structs.replace(answer, annotations=(*answer.annotations, (LAZILY_PREEMPTED, text))))

    assert world.group("lazy").virtual is not None
    assert not world.algorithm.unrecoverable_pods


# -- preemption -------------------------------------------------------------------------------------------------------


def test_whom_a_pod_would_preempt_is_told_on_all_machines(world):
    world.bind(*gang("low", pods=2, leafs=4))

    answer = world.ask(gang("high", pods=2, leafs=4, priority=5)[0], phase=PREEMPTING)

    assert isinstance(answer, Preempt)
    assert {(victim.node, victim.uid) for victim in answer.victims} == {("m1", "u-low-0"), ("m2", "u-low-1")}


def test_asking_alone_reserves_nothing(world):
    world.bind(*gang("low", pods=2, leafs=4))
    world.ask(gang("high", pods=2, leafs=4, priority=5)[0], phase=PREEMPTING)

    assert list(world.hive.groups) == ["low"]


def test_a_proposal_that_is_out_of_date_is_worked_out_again(world):
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    answer = world.ask(high, phase=PREEMPTING)
    world.delete(*low)

    world.take_preemption(high, answer)

    assert world.group("high").state is GroupState.PREEMPTING


def test_room_is_kept_for_a_preemptor_whose_victims_are_gone_already(world):
    """Its record changed, or Waggle was started again: it is claimed anew, and nobody comes first."""
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    high = gang("high", pods=2, leafs=4, priority=5)
    answer = world.ask(high[0], phase=PREEMPTING)
    world.delete(*low)
    world.take_preemption(high[0], answer)

    assert isinstance(world.ask(one("equal", leafs=4, priority=5)), Wait)
    assert len(world.bind(*high)) == 2


def test_a_preemption_that_came_to_nothing_is_planned_the_same_again(world):
    """Else it would never begin: it is looked at once more after it was written down."""
    world.bind(*[one(f"low{i}", leafs=4, priority=-1) for i in range(4)])
    high = one("high", tenant="b", leafs=2)
    answer = world.ask(high, phase=PREEMPTING)
    for _ in range(3):
        world.take_preemption(high, answer)
        world.stop_preempting(high)
        assert world.ask(high, phase=PREEMPTING) == answer


@pytest.mark.parametrize("ignores", [True, False])
@pytest.mark.parametrize("again", [False, True])
def test_preemptors_keep_their_machines_if_they_are_claimed_anew(world, again, ignores):
    """Their records changed, or Waggle was started again: pods may have been evicted there already."""
    world.bind(*[one(f"low{i}", leafs=4, priority=-1) for i in range(4)])
    high = [one(f"high{i}", leafs=4, ignoreK8sSuggestedNodes=ignores) for i in range(2)]
    answers = [world.ask(high[0], phase=PREEMPTING)]
    world.take_preemption(high[0], answers[0])
    answers.append(world.ask(high[1], phase=PREEMPTING))
    world.take_preemption(high[1], answers[1])
    assert answers[0].victims != answers[1].victims

    if again:
        world.restart()
    for _ in range(3):
        for each, answer in reversed(list(zip(high, answers, strict=True))):
            world.delete(each)
            world.submit(each)
            world.take_preemption(each, answer)
            assert world.ask(each, phase=PREEMPTING).victims == answer.victims


def test_what_a_preemptor_waits_for_is_nobody_elses(world):
    low = gang("low", pods=2, leafs=4)
    world.bind(*low)
    high = gang("high", pods=2, leafs=4, priority=5)
    world.preempt(high[0])
    world.delete(low[0])

    assert isinstance(world.ask(one("late", leafs=4, priority=5)), Wait)

    world.delete(low[1])
    assert len(world.bind(*high)) == 2


@pytest.mark.parametrize("annotations", [(), None])
def test_a_preemptor_that_somebody_else_binds_gives_its_reservation_up(world, annotations):
    """Without what a binding of ours says, or without any request at all. The conformance kit found the mistake."""
    world.bind(*gang("low", pods=2, leafs=4))
    high = gang("high", pods=1, leafs=4, priority=5)[0]
    world.preempt(high)
    bound = msgspec.structs.replace(high, node_name="m4")
    world.algorithm.add_allocated_pod(
        bound if annotations is None else msgspec.structs.replace(bound, annotations=annotations)
    )

    assert list(world.hive.groups) == ["low"]


def test_whoever_stops_asking_gives_its_reservation_up(world):
    world.bind(*gang("low", pods=2, leafs=4))
    high = gang("high", pods=2, leafs=4, priority=5)[0]
    world.preempt(high)
    world.stop_preempting(high)

    assert list(world.hive.groups) == ["low"]


def test_tenants_never_preempt_each_others_guaranteed_pods(world):
    world.bind(*gang("b", tenant="b", pods=1, leafs=4), *gang("c", tenant="b", pods=1, leafs=2))
    world.bind(*gang("a", pods=2, leafs=4))

    assert isinstance(world.ask(one("more", leafs=4, priority=1000), phase=PREEMPTING), Preempt)
    victims = world.ask(one("most", leafs=4, priority=1000), phase=PREEMPTING).victims
    assert {victim.uid.rpartition("-")[0] for victim in victims} == {"u-a"}


# -- for people -------------------------------------------------------------------------------------------------------


def test_the_summary_counts_devices_by_virtual_cluster(world):
    world.bind(one("g", leafs=4), one("o", tenant="b", leafs=3, priority=-1))
    world.turn("m3", "m4", healthy=False)

    clusters = world.algorithm.inspect()["virtualClusters"]

    assert {key: clusters["a"][key] for key in ("guaranteed", "used", "borrowed")} == {
        "guaranteed": 8,
        "used": 4,
        "borrowed": 0,
    }
    assert clusters["b"]["borrowed"] == 3


@pytest.mark.parametrize("phase", Phase)
def test_a_pod_that_may_not_preempt_waits_and_is_told_so(world, phase):
    world.bind(*gang("low", pods=2, leafs=4, priority=-1), *gang("low2", pods=2, leafs=4, priority=-1))
    polite = msgspec.structs.replace(one("high", leafs=4), may_preempt=False)

    assert isinstance(world.ask(one("high", leafs=4), phase=phase), Preempt)
    answer = world.ask(polite, phase=phase)

    assert isinstance(answer, Wait)
    assert answer.reason.code is Code.CELLS_EXHAUSTED
    assert "its preemptionPolicy is Never" in answer.reason.text
