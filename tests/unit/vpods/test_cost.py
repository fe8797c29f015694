"""What a stranger writes costs no more than its bound, however large the number. Counted in decisions and in places."""

import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.vpods.events import HostPodSeen, SetsConfigured, WorkloadSeen
from extender.vpods.names import MOST, MOST_NAMED, read_placements
from extender.vpods.records import HostPod, ObjectKey, Reason, SetSettings, Workload
from extender.vpods.scaling import MOST_PODS
from tests.unit.vpods.world import SET, SS, World, key

NOWHERE = ObjectKey("ns", "nowhere")


@pytest.mark.parametrize("policy", ["balanced", "head", "v0.43.1"])
def test_the_largest_number_on_the_largest_pods(policy):
    world = World(replicas=30, capacity=1_000_000, scales=False, policy=policy)
    world.want("a", MOST)
    world.settle()
    assert set(world.placed("a").values()) == {1_000_000}


@pytest.mark.parametrize("predicates", [[], [{"name": "PodFitsResources"}]])
def test_a_policy_that_decides_for_each_vreplica_refuses_a_large_number(predicates):
    world = World(
        replicas=3,
        capacity=1_000_000,
        scales=False,
        policy="v0.43.0",
        policy_settings={"adding": {"predicates": predicates}},
    )
    world.want("a", MOST)
    world.want("b", 5)
    world.settle()
    tracked = world.engine.vpods[key("a")]
    assert tracked.reason is Reason.POLICY_FAILED
    assert "expected at most" in tracked.message
    assert sum(world.placed("b").values()) == 5


def test_a_stateful_set_of_any_number_of_replicas():
    world = World(replicas=1, scales=False)
    world.workload = Workload(SS, "ss-uid", world.next_version(), MOST)
    world.tell(WorkloadSeen(world.workload))
    assert world.engine.sets[SET].replicas == MOST_PODS
    assert [each.reason for each in world.notices if each.reason == "TooManyReplicas"] == ["TooManyReplicas"]


def test_a_stateful_set_with_too_many_replicas_shrinks_to_what_is_needed():
    world = World(replicas=1, max_replicas=5, scale_down_seconds=10.0)
    world.want("a", 15)
    world.settle()
    world.workload = Workload(SS, "ss-uid", world.next_version(), MOST)
    world.tell(WorkloadSeen(world.workload))
    world.pass_time(11.0)
    assert [sent.command.replicas for sent in world.sent] == [2]


@pytest.mark.parametrize("kind", [OutcomeKind.THROTTLED, OutcomeKind.REJECTED])
def test_a_refused_write_to_a_vpod_without_a_set_is_not_repeated_at_once(kind):
    world = World()
    world.want("a", 3, set=NOWHERE)
    world.observe()
    world.answer(world.sent[0], Outcome(kind, "no", retry_after=5.0))
    assert not world.sent
    world.pass_time(4.0)
    assert not world.sent
    world.pass_time(2.0)
    assert len(world.sent) == 1


def test_vpods_that_no_room_can_help_are_not_decided_again_and_again():
    world = World(replicas=5, max_replicas=5, capacity=1000)
    for number in range(40):
        world.want(f"v{number}", 6, max_per_pod=1)
    world.settle()
    hosted, decided = world.engine.sets[SET], []
    assert len(hosted.waiting) == len(hosted.capped) == 40
    policy = hosted.policy
    hosted.policy = lambda vpod, *rest: decided.append(vpod.key) or policy(vpod, *rest)
    world.want("other", 50)
    world.settle()
    world.want("other", 3)
    world.settle()
    assert set(decided) == {"ns/other"}


def test_vpods_that_wait_for_more_pods_get_them():
    world = World(replicas=5, max_replicas=5, capacity=1000)
    for number in range(3):
        world.want(f"v{number}", 6, max_per_pod=1)
    world.settle()
    world.configure(max_replicas=6)
    world.settle()
    assert world.workload.replicas == 6
    assert not world.engine.sets[SET].waiting
    assert not world.engine.sets[SET].capped


def test_edits_of_one_vpod_do_not_add_up():
    world = World(max_replicas=3)
    for number in range(1, 50):
        world.want("a", MOST, max_per_pod=number, spread=number)
        world.settle()
    assert len(world.engine.sets[SET].spreads) == 1


def test_each_of_many_sets_gets_its_own_pods():
    world = World(replicas=3)
    for name in ("w1-0", "w1-1", "w2-0"):
        world.tell(HostPodSeen(HostPod(key=ObjectKey("ns", name), uid=name, node="n0")))
    sets = [SetSettings(key=ObjectKey("ns", f"s{n}"), workload=f"w{n}", capacity=1) for n in range(4)]
    world.tell(SetsConfigured((world.settings, *sets)))
    found = {key.name: [*hosted.pods] for key, hosted in world.engine.sets.items()}
    assert found == {"fleet": [0, 1, 2], "s0": [], "s1": [0, 1], "s2": [0], "s3": []}


def test_not_all_wrong_placements_are_named():
    counts, problems = read_placements([("other-0", 1)] * 10_001, "ss")
    assert not counts
    assert len(problems) == MOST_NAMED + 1
    assert problems[-1] == "status.placements: expected at most 10000 entries"
