"""Counting seats says no only where a search would, and the words are the search's."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from algorithm.interface import Phase, Preempt, SuggestedNodes
from algorithm.packing.algorithm import PackingAlgorithm
from algorithm.packing.counting import Seats
from algorithm.packing.demand import demand_of, least_of
from algorithm.packing.index import OfferedNodes
from algorithm.packing.nodes import NodeRoom
from algorithm.packing.plan import Member, seat_gang
from algorithm.packing.preemption import Effort, Preemptor
from algorithm.packing.trial import Trial
from algorithm.packing.victims import ANY_PRIORITY
from algorithm.reasons import Code
from tests.support.packing.harness import FILTERING, PREEMPTING, PackingHarness, member, node, pod

CASES = settings(max_examples=150, deadline=None, derandomize=True, database=None)

small = st.integers(0, 3)
#: GPUs of a node, and of the pods on it with their priorities.
clusters = st.lists(st.tuples(st.integers(1, 4), st.lists(st.tuples(small, small), max_size=3)), min_size=1, max_size=5)
#: GPUs and priorities of a gang's members.
gangs = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=2, max_size=6)


class Searching(Preemptor):
    """Never counts."""

    def _enough(self, *_):
        return True


def build(rooms, sizes, crowd):
    algorithm = PackingAlgorithm()
    for i, (gpus, pods) in enumerate(rooms):
        algorithm.add_node(node(f"n{i}", gpu=gpus))
        for j, (gpu, priority) in enumerate(pods):
            algorithm.add_allocated_pod(pod(f"p{i}{j}", gpu=gpu, priority=priority, node_name=f"n{i}"))
    for i in range(20 * crowd):
        algorithm.add_node(node(f"crowd{i:02}", pods=0))
    minimum = len(sizes) - 1
    members = [member(f"m{i}", "g", minimum, gpu=gpu, priority=high) for i, (gpu, high) in enumerate(sizes)]
    for each in members:
        algorithm.add_unallocated_pod(each)
    return algorithm, members


def offer_of(algorithm):
    return OfferedNodes(SuggestedNodes(algorithm._state.cluster.rooms))


#: A pod that comes to the first node in between, in GPUs.
later = st.integers(0, 2)


@CASES
@given(rooms=clusters, sizes=gangs, crowd=st.booleans(), gpu=later)
def test_where_a_gang_can_be_seated_the_count_is_high_enough(rooms, sizes, crowd, gpu):
    """Also when it is asked again, with what is remembered."""
    algorithm, pods = build(rooms, sizes, crowd)
    members = [Member(each) for each in pods]
    needed, offered = len(pods) - 1, offer_of(algorithm)
    algorithm._seat_counts.want((least_of([each.demand for each in members]), None))
    for i in range(3):
        with Trial(algorithm._state.cluster) as trial:
            seated = seat_gang(trial, members, asking=pods[0].uid, offered=offered, needed=needed).left_out is None
        seats = Seats(algorithm._seat_counts, members)
        with Trial(algorithm._state.cluster) as trial:
            counted = seats.enough_free(trial, offered, needed)
        assert counted or not seated
        if len({each.requests for each in pods}) == 1:
            assert counted == seated
        algorithm.add_allocated_pod(pod(f"later{i}", gpu=gpu, node_name="n0"))
    algorithm.validate()


LOW = (1, [(1, 0)])


@CASES
@given(rooms=clusters, sizes=gangs, crowd=st.booleans(), ahead=st.integers(0, 2), gpu=later)
@example(rooms=[LOW, LOW], sizes=[(1, 1)] * 3, crowd=False, ahead=1, gpu=0)  # the seat that a mate holds counts
def test_counting_changes_no_preemption(rooms, sizes, crowd, ahead, gpu):
    """Also when the first members have preempted already, and hold their seats, and with what is remembered."""
    algorithm, pods = build(rooms, sizes, crowd)
    for each in pods[:ahead]:
        answer = algorithm.schedule(each, offer_of(algorithm).nodes, PREEMPTING)
        if isinstance(answer, Preempt):
            algorithm.add_preempting_pod(each, answer.victims, answer.node)
    state, asking = algorithm._state, pods[-1]
    gang_members = [Member(each, state.holds.get(each.uid)) for each in pods[:-1]]
    needed = len(pods) - 1
    for below in (max(each.priority for each in pods), ANY_PRIORITY):
        algorithm._seat_counts.want((least_of([demand_of(each.requests) for each in pods]), below))
    for i in range(3):
        gang, offered, counts = state.gangs.of(asking.uid), offer_of(algorithm), algorithm._seat_counts
        question = (state, asking, gang, offered, Effort(enough=9), counts)
        counting, searching = Preemptor(*question), Searching(*question)
        assert counting.make_room(gang_members, needed) == searching.make_room(gang_members, needed)
        forbids = counting.only_priority_forbids(gang_members, needed)
        assert forbids == searching.only_priority_forbids(gang_members, needed)
        algorithm.add_allocated_pod(pod(f"later{i}", gpu=gpu, priority=i, node_name="n0"))
    algorithm.validate()


def test_what_is_missing_is_what_the_last_member_would_lack():
    """Two of three find a seat; where they sit cpu is short for the third, elsewhere the GPUs are."""
    world = PackingHarness(node("a", gpu=4, cpu=5), node("b", gpu=8, cpu=6), node("c", gpu=1, cpu=9))
    gang = [member(f"m{i}", "g", 3, gpu=2, cpu=4) for i in range(3)]
    world.submit(*gang)
    assert world.schedule(gang[0]).reason.text.endswith("insufficient cpu")
    world.bound(pod("x", gpu=7), "b")
    assert world.schedule(gang[0]).reason.text.endswith("insufficient cpu, example.com/gpu")


def test_a_gang_larger_than_the_cluster_is_refused_by_name():
    world = PackingHarness(*(node(f"n{i:02}", gpu=8) for i in range(20)))
    gang = [member(f"m{i:02}", "g", 21, gpu=8, priority=1) for i in range(21)]
    for each in gang:
        world.algorithm.add_unallocated_pod(each)
    world.bound(pod("x", gpu=8), "n00")
    for phase in (FILTERING, PREEMPTING):
        assert world.schedule(gang[0], phase=phase).reason.text == (
            "gang ns/g does not fit as a whole: insufficient example.com/gpu"
        )


def test_a_node_given_up_by_a_mate_is_looked_at_again():
    """m1's seat is a stranger's for good; m2's too, but that one can be evicted: m2 counts, so z may evict."""
    world = PackingHarness(*(node(name, gpu=1) for name in "abc"))
    for name in "abc":
        world.bound(pod(f"low-{name}", gpu=1), name)
    m1, m2, z = gang = [member(name, "g", 2, gpu=1, priority=1) for name in ("m1", "m2", "z")]
    world.submit(*gang)
    for each, place in ((m1, "a"), (m2, "b")):
        assert world.start_preempting(each, world.schedule(each, phase=PREEMPTING)) == (f"u-low-{place}",)
    for place, priority in (("a", 5), ("b", 0)):
        world.delete(f"u-low-{place}")
        world.bound(pod(f"stranger-{place}", gpu=1, priority=priority), place)
    answer = world.schedule(z, ["c"], PREEMPTING)
    assert isinstance(answer, Preempt)
    assert [victim.uid for victim in answer.victims] == ["u-low-c"]


def looks_of_refusals(nodes, monkeypatch):
    """How often a node is looked at when a gang is refused in each phase, after one node has changed."""
    world = PackingHarness(*(node(f"n{i:03}", gpu=8) for i in range(nodes)))
    for i in range(nodes):
        world.bound(pod(f"low{i:03}", gpu=5), f"n{i:03}")
        world.bound(pod(f"high{i:03}", gpu=3, priority=9), f"n{i:03}")
    gang = [member(f"m{i}", "g", 4, gpu=8, priority=5) for i in range(4)]
    world.submit(*gang)
    offered, looks = SuggestedNodes(f"n{i:03}" for i in range(nodes)), Counter()
    fitting = NodeRoom.pods_that_fit

    def counted(self, *question):
        looks[phase] += 1
        return fitting(self, *question)

    monkeypatch.setattr(NodeRoom, "pods_that_fit", counted)
    for phase in (FILTERING, Phase.EVICTING):
        for i in range(3):
            world.bound(pod(f"x{phase}{i}"), f"n{i:03}")
            looks[phase] = 0
            answer = world.algorithm.schedule(gang[i], offered, phase)  # `world` would ask a new fork, too
            assert answer.reason.code is Code.GANG_DOES_NOT_FIT
    monkeypatch.undo()
    world.algorithm.validate()
    return looks


def test_a_gang_refused_again_looks_only_at_what_has_changed(monkeypatch):
    """The second refusal in each phase makes the tables, the third is as cheap as that: the nodes do not matter."""
    assert looks_of_refusals(100, monkeypatch) == looks_of_refusals(20, monkeypatch)
    assert max(looks_of_refusals(20, monkeypatch).values()) <= 6
