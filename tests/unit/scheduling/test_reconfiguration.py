"""Another algorithm takes over: completely, or not at all, whatever is under way."""

from __future__ import annotations

from collections.abc import Sequence

from algorithm.interface import SchedulerAlgorithm
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import Evict, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.events import (
    AlgorithmPrepared,
    Instruction,
    PodGone,
    PrepareAlgorithm,
    Reconfigured,
    ReconfigureRequested,
    TermBegan,
)
from tests.support.direct_world import DirectWorld
from tests.support.heart import Heart, only
from tests.support.objects import node, pod
from tests.support.plain_algorithm import PlainAlgorithm


class Talkative(PlainAlgorithm):
    def changes_to(self, other: SchedulerAlgorithm) -> Sequence[str]:
        return (f"{type(other).__name__} knows {len(other.allocated)} pods",)


def prepare(heart: Heart, new: PlainAlgorithm | None = None, number: int = 1) -> AlgorithmPrepared:
    """What the rim does: the new algorithm has learnt what is true now."""
    out = heart.handle(ReconfigureRequested(number, "plain", {}))
    made = new or PlainAlgorithm()
    heart.lifecycle.preparations.carry_out(only(out, PrepareAlgorithm), lambda name, settings: made)
    return AlgorithmPrepared(number)


def take_over(heart: Heart, event: AlgorithmPrepared) -> list[Instruction]:
    out = heart.handle(event)
    heart.algorithm = heart.lifecycle.driver.algorithm
    assert not heart.algorithm.broken, heart.algorithm.broken
    return out


def reconfigure(heart: Heart, new: PlainAlgorithm | None = None) -> list[Instruction]:
    return take_over(heart, prepare(heart, new))


def a_heart(**policy: object) -> Heart:
    heart = Heart(**policy)
    heart.see(node("a"), node("b"))
    return heart


def test_it_decides_from_now_on_and_knows_what_the_old_one_knew() -> None:
    heart = a_heart()
    heart.see(pod("runs", cpu=4000, on="a"))
    new = PlainAlgorithm()
    assert only(reconfigure(heart, new), Reconfigured).refused == ""
    assert heart.lifecycle.driver.algorithm is new
    assert heart.filter(pod("p", cpu=1000), "a", "b").node == "b"


def test_bound_pods_are_learnt_the_oldest_first() -> None:
    heart = a_heart()
    heart.see(pod("young", on="a", created="2026-02-02T00:00:00Z"), pod("old", on="b", created="2026-01-01T00:00:00Z"))
    reconfigure(heart)
    assert list(heart.algorithm.allocated) == ["uid-old", "uid-young"]


def test_what_happens_while_it_learns_is_told_before_it_decides() -> None:
    heart = a_heart()
    heart.see(pod("goes", cpu=4000, on="a"), pod("waits"))
    prepared = prepare(heart)
    heart.handle(PodGone("default", "goes", "uid-goes"))
    heart.see(pod("comes", cpu=4000, on="b"), node("c"))
    heart.filter(pod("waits", cpu=1000), "a")
    take_over(heart, prepared)
    assert heart.algorithm.allocated.keys() == {"uid-comes"}
    assert heart.algorithm.nodes.keys() == {"a", "b", "c"}


def test_a_binding_that_is_being_written_goes_on() -> None:
    heart = a_heart()
    p = pod("p")
    heart.filter(p, "a")
    write = only(heart.bind(p, "a"), WriteBinding)
    reconfigure(heart)
    assert heart.state(p) == "Binding"
    assert heart.algorithm.allocated.keys() == {p.uid}
    heart.finish(write.token, OutcomeKind.DONE)
    heart.see(pod("p", on="a"))
    assert heart.state(p) == "Bound"


def test_a_write_that_was_not_answered_keeps_its_place() -> None:
    heart = a_heart()
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    write = only(heart.bind(p, "a"), WriteBinding)
    read = heart.finish(write.token, OutcomeKind.UNKNOWN)[0]
    heart.read(read.token, p)
    reconfigure(heart)
    assert heart.state(p) == "Binding"
    assert p.uid in heart.algorithm.allocated


def test_a_place_that_was_only_proposed_is_asked_for_again() -> None:
    heart = a_heart()
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    out = reconfigure(heart)
    assert heart.state(p) == "Waiting"
    assert only(out, RequeuePod).name == "p"
    assert heart.lifecycle.find("default", "p").reason.code == "Reconfigured"
    assert heart.algorithm.allocated == {}


def test_whoever_waits_is_nudged() -> None:
    heart = a_heart()
    heart.see(pod("q"))
    assert only(reconfigure(heart), RequeuePod).name == "q"


def test_a_follower_is_reconfigured_without_a_word_to_anybody() -> None:
    heart = a_heart(elected=True)
    heart.see(pod("q"))
    assert [type(item) for item in reconfigure(heart)] == [Reconfigured]
    heart.handle(TermBegan(1))
    assert heart.filter(pod("q"), "a").node == "a"


def test_what_it_failed_at_once_is_told_again() -> None:
    heart = a_heart()
    heart.see(pod("runs", on="a"))
    new = PlainAlgorithm()
    new.fail.add("add_allocated_pod")
    assert only(reconfigure(heart, new), Reconfigured).refused == ""
    assert new.allocated.keys() == {"uid-runs"}


def test_one_that_fails_at_what_the_old_one_understands_is_refused_and_nothing_changes() -> None:
    heart = a_heart()
    heart.see(pod("runs", on="a"), pod("proposed"))
    heart.filter(pod("proposed"), "b")
    out = heart.handle(prepare(heart, Stubborn()))
    assert "made to fail" in only(out, Reconfigured).refused
    assert heart.lifecycle.driver.algorithm is heart.algorithm
    assert heart.state(pod("proposed")) == "Binding"


class Stubborn(PlainAlgorithm):
    def add_allocated_pod(self, pod: object) -> None:
        raise RuntimeError("made to fail")


def test_what_the_old_one_could_not_be_told_the_new_one_learns() -> None:
    heart = a_heart()
    heart.algorithm.fail.add("add_allocated_pod")
    heart.see(pod("runs", on="a"))
    assert heart.lifecycle.driver.pending_count == 1
    reconfigure(heart)
    assert heart.lifecycle.driver.pending_count == 0
    assert heart.algorithm.allocated.keys() == {"uid-runs"}


def test_two_that_learn_at_the_same_time_take_over_one_after_the_other() -> None:
    heart = a_heart()
    last = PlainAlgorithm()
    first, second = prepare(heart, number=1), prepare(heart, last, number=2)
    heart.see(pod("runs", cpu=4000, on="a"))
    take_over(heart, first)
    take_over(heart, second)
    assert heart.lifecycle.driver.algorithm is last
    assert heart.filter(pod("p"), "a", "b").node == "b"


def test_one_that_was_never_made_is_refused() -> None:
    assert only(a_heart().handle(AlgorithmPrepared(7)), Reconfigured).refused


def test_the_old_one_says_what_changes() -> None:
    heart = a_heart()
    heart.see(pod("runs", on="a"))
    reconfigure(heart, Talkative())
    assert only(reconfigure(heart, Talkative()), Reconfigured).changes == ("Talkative knows 1 pods",)


def test_a_preemption_by_kube_scheduler_goes_on() -> None:
    heart = a_heart()
    heart.see(pod("low", cpu=4000, on="a"))
    high = pod("high", cpu=4000, priority=9)
    heart.see(high)
    assert heart.preempt(high, "a").candidates
    reconfigure(heart)
    assert heart.state(high) == "Preempting"
    assert heart.algorithm.preempting.keys() == {high.uid}


class TestPreemptionsOfOurOwn:
    """The stages of `extender.scheduling.state.preemption_record`."""

    @staticmethod
    def world() -> tuple[DirectWorld, list[str]]:
        w = DirectWorld()
        w.fill()
        return w, w.gang("g", 4)

    @staticmethod
    def reconfigure(w: DirectWorld) -> None:
        w.reconfiguration_goes_on()
        ended = w.reconfiguration_ends()
        assert ended is not None
        assert not ended.refused

    def finish(self, w: DirectWorld, gang: list[str]) -> None:
        for _ in range(4):
            w.rest()
            for name in gang:
                if not w.cluster.pods[name].node_name:
                    w.filter(name)
        assert all(w.cluster.pods[name].node_name for name in gang)
        w.settle()

    def test_before_the_intention_is_written(self) -> None:
        w, gang = self.world()
        w.filter(gang[0])
        self.reconfigure(w)
        self.finish(w, gang)

    def test_while_evictions_are_on_their_way(self) -> None:
        w, gang = self.world()
        w.begin(gang[0])
        w.do(w.orders(Evict)[0])
        self.reconfigure(w)
        self.finish(w, gang)
        assert len(w.cluster.evicted) == 4, "nobody more had to go"

    def test_when_all_are_gone_the_room_is_still_kept(self) -> None:
        w, gang = self.world()
        w.begin(gang[0])
        w.do_all(Evict)
        w.rest()
        self.reconfigure(w)
        thief = w.waits("thief", cpu=2000, priority=5)
        assert w.filter(thief).node is None
        self.finish(w, gang)

    def test_writes_of_the_intention_may_be_late(self) -> None:
        w, gang = self.world()
        w.filter(gang[0])
        w.do_all(Evict, dry_run=True)
        assert w.orders(RecordPreemption)
        self.reconfigure(w)
        self.finish(w, gang)


def test_the_new_one_knows_which_pods_do_not_go() -> None:
    heart = a_heart()
    heart.see(node("v"), pod("low", cpu=4000, on="v"))
    p = pod("p", cpu=3000, priority=10)
    heart.preempt(p, "v")
    heart.see(pod("low", cpu=4000, on="v", terminating=True))
    heart.now += 150
    heart.filter(p, "v")
    new = PlainAlgorithm()
    reconfigure(heart, new)
    assert new.lingering == {"uid-low"}
