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
from tests.support.engine.direct_preemption import DirectPreemptionSimulation
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm


class Talkative(PlainAlgorithm):
    def changes_to(self, other: SchedulerAlgorithm) -> Sequence[str]:
        return (f"{type(other).__name__} knows {len(other.allocated)} pods",)


def prepare(engine: EngineHarness, new: PlainAlgorithm | None = None, number: int = 1) -> AlgorithmPrepared:
    """What the I/O layers do: the new algorithm has learnt what is true now."""
    out = engine.handle(ReconfigureRequested(number, "plain", {}))
    made = new or PlainAlgorithm()
    engine.machine.preparations.carry_out(only(out, PrepareAlgorithm), lambda name, settings: made)
    return AlgorithmPrepared(number)


def take_over(engine: EngineHarness, event: AlgorithmPrepared) -> list[Instruction]:
    out = engine.handle(event)
    engine.algorithm = engine.machine.driver.algorithm
    assert not engine.algorithm.broken, engine.algorithm.broken
    return out


def reconfigure(engine: EngineHarness, new: PlainAlgorithm | None = None) -> list[Instruction]:
    return take_over(engine, prepare(engine, new))


def a_engine(**policy: object) -> EngineHarness:
    engine = EngineHarness(**policy)
    engine.see(node("a"), node("b"))
    return engine


def test_it_decides_from_now_on_and_knows_what_the_old_one_knew() -> None:
    engine = a_engine()
    engine.see(pod("runs", cpu=4000, on="a"))
    new = PlainAlgorithm()
    assert only(reconfigure(engine, new), Reconfigured).refused == ""
    assert engine.machine.driver.algorithm is new
    assert engine.filter(pod("p", cpu=1000), "a", "b").node == "b"


def test_bound_pods_are_learnt_the_oldest_first() -> None:
    engine = a_engine()
    engine.see(pod("young", on="a", created="2026-02-02T00:00:00Z"), pod("old", on="b", created="2026-01-01T00:00:00Z"))
    reconfigure(engine)
    assert list(engine.algorithm.allocated) == ["uid-old", "uid-young"]


def test_what_happens_while_it_learns_is_told_before_it_decides() -> None:
    engine = a_engine()
    engine.see(pod("goes", cpu=4000, on="a"), pod("waits"))
    prepared = prepare(engine)
    engine.handle(PodGone("default", "goes", "uid-goes"))
    engine.see(pod("comes", cpu=4000, on="b"), node("c"))
    engine.filter(pod("waits", cpu=1000), "a")
    take_over(engine, prepared)
    assert engine.algorithm.allocated.keys() == {"uid-comes"}
    assert engine.algorithm.nodes.keys() == {"a", "b", "c"}


def test_a_binding_that_is_being_written_goes_on() -> None:
    engine = a_engine()
    p = pod("p")
    engine.filter(p, "a")
    write = only(engine.bind(p, "a"), WriteBinding)
    reconfigure(engine)
    assert engine.state(p) == "Binding"
    assert engine.algorithm.allocated.keys() == {p.uid}
    engine.finish(write.token, OutcomeKind.DONE)
    engine.see(pod("p", on="a"))
    assert engine.state(p) == "Bound"


def test_a_write_that_was_not_answered_keeps_its_place() -> None:
    engine = a_engine()
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    write = only(engine.bind(p, "a"), WriteBinding)
    read = engine.finish(write.token, OutcomeKind.UNKNOWN)[0]
    engine.read(read.token, p)
    reconfigure(engine)
    assert engine.state(p) == "Binding"
    assert p.uid in engine.algorithm.allocated


def test_a_place_that_was_only_proposed_is_asked_for_again() -> None:
    engine = a_engine()
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    out = reconfigure(engine)
    assert engine.state(p) == "Waiting"
    assert only(out, RequeuePod).name == "p"
    assert engine.machine.find("default", "p").reason.code == "Reconfigured"
    assert engine.algorithm.allocated == {}


def test_whoever_waits_is_nudged() -> None:
    engine = a_engine()
    engine.see(pod("q"))
    assert only(reconfigure(engine), RequeuePod).name == "q"


def test_a_follower_is_reconfigured_without_a_word_to_anybody() -> None:
    engine = a_engine(elected=True)
    engine.see(pod("q"))
    assert [type(item) for item in reconfigure(engine)] == [Reconfigured]
    engine.handle(TermBegan(1))
    assert engine.filter(pod("q"), "a").node == "a"


def test_what_it_failed_at_once_is_told_again() -> None:
    engine = a_engine()
    engine.see(pod("runs", on="a"))
    new = PlainAlgorithm()
    new.fail.add("add_allocated_pod")
    assert only(reconfigure(engine, new), Reconfigured).refused == ""
    assert new.allocated.keys() == {"uid-runs"}


def test_one_that_fails_at_what_the_old_one_understands_is_refused_and_nothing_changes() -> None:
    engine = a_engine()
    engine.see(pod("runs", on="a"), pod("proposed"))
    engine.filter(pod("proposed"), "b")
    out = engine.handle(prepare(engine, Stubborn()))
    assert "made to fail" in only(out, Reconfigured).refused
    assert engine.machine.driver.algorithm is engine.algorithm
    assert engine.state(pod("proposed")) == "Binding"
    assert [fault.call for _, fault in engine.machine.driver.fault_log.known()] == ["add_allocated_pod"]


class Stubborn(PlainAlgorithm):
    def add_allocated_pod(self, pod: object) -> None:
        raise RuntimeError("made to fail")


def test_what_the_old_one_could_not_be_told_the_new_one_learns() -> None:
    engine = a_engine()
    engine.algorithm.fail.add("add_allocated_pod")
    engine.see(pod("runs", on="a"))
    assert engine.machine.driver.pending_count == 1
    reconfigure(engine)
    assert engine.machine.driver.pending_count == 0
    assert engine.algorithm.allocated.keys() == {"uid-runs"}


def test_two_that_learn_at_the_same_time_take_over_one_after_the_other() -> None:
    engine = a_engine()
    last = PlainAlgorithm()
    first, second = prepare(engine, number=1), prepare(engine, last, number=2)
    engine.see(pod("runs", cpu=4000, on="a"))
    take_over(engine, first)
    take_over(engine, second)
    assert engine.machine.driver.algorithm is last
    assert engine.filter(pod("p"), "a", "b").node == "b"


def test_one_that_was_never_made_is_refused() -> None:
    assert only(a_engine().handle(AlgorithmPrepared(7)), Reconfigured).refused


def test_the_old_one_says_what_changes() -> None:
    engine = a_engine()
    engine.see(pod("runs", on="a"))
    reconfigure(engine, Talkative())
    assert only(reconfigure(engine, Talkative()), Reconfigured).changes == ("Talkative knows 1 pods",)


def test_a_preemption_by_kube_scheduler_goes_on() -> None:
    engine = a_engine()
    engine.see(pod("low", cpu=4000, on="a"))
    high = pod("high", cpu=4000, priority=9)
    engine.see(high)
    assert engine.preempt(high, "a").candidates
    reconfigure(engine)
    assert engine.state(high) == "Preempting"
    assert engine.algorithm.preempting.keys() == {high.uid}


class TestPreemptionsOfOurOwn:
    """The stages of `extender.scheduling.state.preemption_record`."""

    @staticmethod
    def world() -> tuple[DirectPreemptionSimulation, list[str]]:
        w = DirectPreemptionSimulation()
        w.fill()
        return w, w.gang("g", 4)

    @staticmethod
    def reconfigure(w: DirectPreemptionSimulation) -> None:
        w.reconfiguration_goes_on()
        ended = w.reconfiguration_ends()
        assert ended is not None
        assert not ended.refused

    def finish(self, w: DirectPreemptionSimulation, gang: list[str]) -> None:
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
    engine = a_engine()
    engine.see(node("v"), pod("low", cpu=4000, on="v"))
    p = pod("p", cpu=3000, priority=10)
    engine.preempt(p, "v")
    engine.see(pod("low", cpu=4000, on="v", terminating=True))
    engine.now += 150
    engine.filter(p, "v")
    new = PlainAlgorithm()
    reconfigure(engine, new)
    assert new.lingering == {"uid-low"}
