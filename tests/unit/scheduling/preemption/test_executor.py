"""Preemptions that the server carries out by itself, step by step."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from algorithm.interface import MemberPlan, Victim
from algorithm.reasons import Code
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import Evict, EvictFinished, RecordEvent, RecordPreemption, RequeuePod
from extender.scheduling.events import NodeSeen, TermBegan, TermEnded
from extender.scheduling.policy import Policy, PreemptionMode
from extender.scheduling.state.pod_info import State
from extender.scheduling.state.preemption_record import read, written
from extender.scheduling.writes.preemption_mark import ANNOTATION
from tests.support.engine.direct_preemption import DIRECT, DirectPreemptionSimulation
from tests.support.engine.objects import node


def gang_before_full_nodes() -> tuple[DirectPreemptionSimulation, list[str], list[str]]:
    """A gang of four that needs all of two nodes, on each of which two pods of lower priority run."""
    w = DirectPreemptionSimulation()
    return w, w.fill(), w.gang("g", 4)


def events(w: DirectPreemptionSimulation) -> list[tuple[str, str]]:
    return [(x.name, x.reason.code.value) for _, _, out, _ in w.log for x in out if isinstance(x, RecordEvent)]


def nudged(w: DirectPreemptionSimulation) -> list[str]:
    return [x.name for _, _, out, _ in w.log for x in out if isinstance(x, RequeuePod)]


def policy(mode: PreemptionMode) -> Policy:
    return dataclasses.replace(DIRECT, preemption=mode)


class TestTheCourse:
    def test_a_refused_member_begins_it_for_the_whole_gang(self) -> None:
        w, low, gang = gang_before_full_nodes()
        answer = w.filter(gang[2])
        assert answer.reason.code is Code.WAITING_FOR_VICTIMS
        assert not answer.reason.preemptible, "kube-scheduler need not look for victims"
        assert {w.state(name) for name in gang} == {State.PREEMPTING}
        assert sorted(x.name for x in w.orders()) == low

    def test_first_every_victim_is_asked_for_in_a_dry_run(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.filter(gang[0])
        assert all(x.dry_run for x in w.orders())
        w.do(w.orders()[0])
        assert not w.orders(RecordPreemption), "three are still to be answered"

    def test_then_the_intention_is_written_on_every_preemptor(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.filter(gang[0])
        w.do_all(Evict)
        assert sorted(x.name for x in w.orders(RecordPreemption)) == gang
        w.do_all(RecordPreemption)
        member_plans = [read(w.cluster.pods[name]).member_plan for name in gang]
        uids = {w.cluster.pods[name].uid for name in low}
        assert {victim.uid for member_plan in member_plans for victim in member_plan.victims} == uids
        assert sorted(member_plan.node for member_plan in member_plans) == ["n0", "n0", "n1", "n1"]

    @pytest.mark.parametrize(("changed", "calls"), [(False, []), (True, ["delete", "add"])])
    def test_the_note_is_no_change_to_the_algorithm_which_would_plan_anew(
        self, changed: bool, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """HiveD chose other cells each time, and two pods that preempted at once swapped theirs until both gave up."""
        w = DirectPreemptionSimulation()
        w.fill(cpu=4000)
        w.filter(w.waits("p", cpu=4000))
        w.do_all(Evict)
        heard: list[str] = []
        algorithm = w.machine.driver.algorithm
        for name in ("add", "delete"):
            call = getattr(algorithm, f"{name}_preempting_pod")
            monkeypatch.setattr(
                algorithm,
                f"{name}_preempting_pod",
                lambda *args, name=name, call=call: (heard.append(name), call(*args)),
            )
        if changed:
            w.cluster.pods["p"] = msgspec.structs.replace(w.cluster.pods["p"], labels=(("team", "a"),))
        w.do_all(RecordPreemption)
        assert read(w.cluster.pods["p"]) is not None
        assert len(w.orders(Evict, dry_run=False)) == 1
        assert heard == calls

    def test_nobody_is_evicted_before_the_informer_shows_it_on_all(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.filter(gang[0])
        w.do_all(Evict)
        for order in w.orders(RecordPreemption):
            w.do(order)
        while len(w.cluster.queue) > 1:
            w.event_arrives()
        assert not w.orders(Evict)
        w.event_arrives()
        assert len(w.orders(Evict, dry_run=False)) == 4

    def test_the_victims_are_told_for_whom(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.do_all(Evict)
        assert sorted(events(w)) == [(name, "Preempted") for name in low]

    def test_meanwhile_the_preemptors_wait_and_the_text_does_not_change(self) -> None:
        w, _, gang = gang_before_full_nodes()
        texts = {w.filter(gang[0]).reason.text}
        for _ in range(4):
            w.do_all()
            texts |= {w.filter(name).reason.text for name in gang}
        assert len(texts) == 1

    def test_when_the_last_victim_is_gone_the_preemptors_are_nudged_and_placed(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.do_all(Evict)
        w.cluster.delete(low[0])
        w.deliver_all()
        assert not nudged(w)
        w.rest()
        assert sorted(nudged(w)) == gang
        assert all(w.filter(name).node for name in gang)
        w.rest()
        assert {w.state(name) for name in gang} == {State.BOUND}

    def test_a_pod_that_is_being_deleted_anyway_is_waited_for_and_not_evicted(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.pod_changed(low[0], "terminating")
        w.deliver_all()
        w.begin(gang[0])
        assert sorted(x.name for x in w.orders()) == low[1:]
        w.rest()
        assert all(w.filter(name).node for name in gang)

    def test_nobody_else_gets_the_room_meanwhile(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.rest()
        for name, priority in (("equal", 10), ("lesser", 5)):
            w.waits(name, priority=priority)
            assert w.filter(name).node is None
        assert all(w.filter(name).node for name in gang)

    def test_a_higher_preemptor_takes_over(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        high, highest = w.waits("high", cpu=4000), w.waits("highest", cpu=4000, priority=20)
        w.begin(high)
        w.filter(highest)
        w.rest()
        assert w.filter(high).node is None
        assert w.filter(highest).node == "n0"

    def test_the_metrics_say_what_happened(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.rest()
        w.filter(gang[0])
        counts = w.machine.counts
        assert counts["preemptions", "direct started"] == counts["preemptions", "direct placed"] == 1
        assert counts["victims", "evicted"] == counts["eviction_checks", "done"] == counts["evictions", "done"] == 4


class TestWhoMay:
    @pytest.mark.parametrize("priority", [10, 11])
    def test_nobody_of_the_same_or_higher_priority_goes(self, priority: int) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.runs("other", "n0", cpu=4000, priority=priority)
        w.filter(w.waits("p", cpu=4000))
        assert not w.work

    def test_a_pod_that_must_not_preempt_does_not(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill()
        w.filter(w.waits("polite", may_preempt=False))
        assert not w.work

    def test_nobody_goes_for_a_pod_that_only_a_caller_has_spoken_of(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill()
        w.cluster.create("new", 2000, 10)
        w.ask(w.cluster.pods["new"], ["n0"])
        assert not w.work
        w.deliver_all()
        w.time_passes(0)
        assert len(w.orders(Evict)) == 1, "now it is known"

    def test_nobody_goes_who_is_only_proposed_for_the_node(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.waits("trial", cpu=4000, priority=0)
        w.ask(w.cluster.pods["trial"], ["n0"])
        w.waits("high", cpu=4000)
        assert w.filter("high").reason.code is Code.PREEMPTIBLE
        assert not w.work
        w.filter("trial")
        assert [x.name for x in w.orders(Evict)] == ["trial"], "now it is bound"

    def test_a_trial_begins_nothing(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill()
        w.waits("p")
        w.ask(msgspec.structs.replace(w.cluster.pods["p"], nominated_node_name="n0"), ["n0"])
        assert not w.work
        assert w.state("p") is State.WAITING


class TestWhatComesBetween:
    def test_if_room_appears_before_anybody_was_evicted_nobody_is(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        low = w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        w.do_all(Evict)
        w.cluster.delete(low[0])  # kube-scheduler may have known, and we did not
        w.do_all()
        w.rest()
        assert not w.gone()
        assert "high" in nudged(w)
        assert w.filter("high").node == "n0"

    def test_a_deleted_preemptor_spares_those_who_are_still_there(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill()
        w.waits("high", cpu=4000)
        w.filter("high")
        w.do_all(Evict)
        w.cluster.delete("high")
        w.rest()
        assert not w.gone()
        assert w.machine.counts["preemptions", "direct cancelled"] == 1

    def test_a_gang_that_loses_a_member_evicts_nobody_more(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.do(w.orders()[0])
        w.cluster.delete(gang[1])
        w.deliver_all()
        assert {w.state(name) for name in gang if name != gang[1]} == {State.WAITING}
        assert w.pod_info(gang[0]).reason.code is Code.GANG_INCOMPLETE
        w.do_all(RecordPreemption)
        assert not w.marked()

    def test_a_gang_with_a_spare_member_goes_on(self) -> None:
        w = DirectPreemptionSimulation()
        w.fill()
        gang = w.gang("g", 4, minimum=3)
        w.begin(gang[0])
        w.cluster.delete(gang[1])
        w.rest()
        left = [name for name in gang if name != gang[1]]
        assert [w.filter(name).node is not None for name in left] == [True] * 3

    def test_a_victim_that_was_replaced_is_gone(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        [low] = w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.begin("high")
        w.cluster.delete(low)
        w.cluster.create(low, 1000, 0)
        w.do_all()
        assert w.cluster.pods[low].uid != w.pod_info("high").victims
        assert w.filter("high").node == "n0"
        assert not w.gone()

    def test_if_the_seats_node_is_deleted_others_go(self) -> None:
        w = DirectPreemptionSimulation()
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        first = w.orders()[0].name
        w.do_all(Evict)
        w.node_flaps("n0" if "n0" in first else "n1")  # back at once, but not before the plan was changed
        w.rest()
        assert len(w.gone()) == 1
        assert w.filter("high").node is not None


class TestRefused:
    def test_protected_pods_are_planned_around(self) -> None:
        w = DirectPreemptionSimulation()
        low = w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        w.cluster.protected = {w.orders()[0].name}
        w.rest()
        assert w.gone() == sorted(set(low) - w.cluster.protected)
        assert w.filter("high").node is not None

    def test_if_only_they_are_in_the_way_nobody_goes_and_the_reason_says_so(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.cluster.protected = {low[3]}
        w.filter(gang[0])
        w.rest()
        assert not w.gone()
        assert not w.marked()
        answer = w.filter(gang[1])
        assert answer.reason.code is Code.VICTIM_PROTECTED
        assert answer.reason.text == "pods that would have to go cannot be evicted now: default/low-n1-1"
        assert events(w) == [(gang[0], "VictimProtected")]
        assert w.pod_info(gang[0]).reason.code is Code.VICTIM_PROTECTED
        assert "a disruption budget needs it" in "\n".join(line.text for line in w.pod_info(gang[0]).history)

    def test_after_a_while_it_is_tried_again(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.cluster.protected = {low[3]}
        w.filter(gang[0])
        w.rest()
        w.filter(gang[0])
        w.cluster.protected.clear()
        assert not w.work
        w.time_passes(DIRECT.eviction_backoff)
        assert w.orders(Evict), "kube-scheduler may have no reason to ask again"
        w.rest()
        assert all(w.filter(name).node for name in gang)

    def test_once_somebody_has_gone_the_others_are_tried_again(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.cluster.protected = {low[3]}
        w.rest()
        assert w.gone() == low[:3]
        assert w.state(gang[0]) is State.PREEMPTING
        w.cluster.protected.clear()
        w.time_passes(DIRECT.verify)
        w.rest()
        assert all(w.filter(name).node for name in gang)

    def test_but_not_for_ever(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.cluster.protected = {low[3]}
        for _ in range(20):
            w.rest()
            w.time_passes(DIRECT.verify)
        assert w.state(gang[0]) is State.WAITING
        assert w.pod_info(gang[0]).reason.code is Code.VICTIM_PROTECTED

    def test_an_api_server_that_is_busy_is_asked_again_and_not_for_ever(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        asked = 0
        while w.state("high") is State.PREEMPTING:
            asked += len(w.do_all(Evict, "429"))
            w.time_passes(DIRECT.verify)
        assert asked == 5
        assert w.pod_info("high").reason.code is Code.VICTIM_PROTECTED

    def test_an_intention_that_must_not_be_written_is_the_end_and_not_tried_at_every_filter(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        w.do_all(Evict)
        w.do_all(RecordPreemption, "403")
        assert not w.gone()
        w.do_all()
        for _ in range(3):
            assert w.filter("high").reason.text == "preemption could not be recorded on the pods: forbidden"
        assert not w.work

    def test_a_victim_that_does_not_go_is_waited_for_as_long_as_it_may_take_and_then_planned_around(self) -> None:
        w = DirectPreemptionSimulation()
        low = w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.begin("high")
        w.cluster.stuck = {w.orders()[0].name}
        w.rest()
        grace = w.cluster.pods[low[0]].grace_period
        w.time_passes(grace + DIRECT.patience - 1)
        assert len(w.gone()) == 1
        w.time_passes(2)
        w.rest()
        assert w.gone() == sorted(low)
        assert w.filter("high").node is not None

    def test_if_there_is_nobody_else_that_is_the_reason(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        [low] = w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.begin("high")
        w.cluster.stuck = {low}
        w.rest()
        w.time_passes(w.cluster.pods[low].grace_period + DIRECT.patience + 1)
        assert w.pod_info("high").reason.text == f"evicted pods are not going: default/{low}"
        assert ("high", "VictimStays") in events(w)

    def test_a_cleared_room_that_nobody_asks_for_is_let_go(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.begin("high")
        w.rest()
        w.time_passes(DIRECT.lease + 1)
        assert w.state("high") is State.WAITING
        assert not w.machine.state.ledger.active()

    def test_a_late_report_changes_nothing(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        order = w.orders()[0]
        w.cluster.delete("high")
        w.deliver_all()
        assert w.handle(EvictFinished(order.token, Outcome(OutcomeKind.DONE), order.uid, True)) == []


class TestModes:
    def test_kube_scheduler_mode_leaves_it_to_kube_scheduler(self) -> None:
        w = DirectPreemptionSimulation(policy(PreemptionMode.KUBE_SCHEDULER))
        w.fill()
        gang = w.gang("g", 4)
        assert w.filter(gang[0]).reason.code is Code.PREEMPTIBLE
        assert not w.work
        assert w.preempt(gang[0]).candidates

    def test_direct_mode_has_nobody_for_kube_scheduler_to_evict(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        assert w.preempt("high").candidates == ()
        assert len(w.orders(Evict)) == 1, "but plans on its candidates, if filter was not asked at all"
        assert w.preempt("high").candidates == ()
        assert len(w.orders(Evict)) == 1

    def test_auto_leaves_a_plain_pod_to_kube_scheduler(self) -> None:
        w = DirectPreemptionSimulation(policy(PreemptionMode.AUTO), nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        assert w.preempt("high").candidates
        w.filter("high")
        assert not w.work, "kube-scheduler is about to evict for it"

    def test_auto_evicts_for_a_plain_pod_where_kube_scheduler_sees_room(self) -> None:
        w = DirectPreemptionSimulation(policy(PreemptionMode.AUTO), nodes=1)
        w.fill(cpu=4000)
        w.waits("high", cpu=4000)
        w.filter("high")
        assert len(w.orders(Evict)) == 1
        assert w.preempt("high").candidates == ()

    def test_auto_evicts_for_a_gang_also_on_nodes_that_only_preempt_names(self) -> None:
        w = DirectPreemptionSimulation(policy(PreemptionMode.AUTO), strict=False)
        low = [w.runs(f"low{i}", "n1") for i in range(2)]
        gang = w.gang("g", 4)
        w.filter(gang[0], "n0")  # n1 is full for kube-scheduler too
        assert not w.work
        assert w.preempt(gang[0], "n1").candidates == ()
        assert sorted(x.uid for x in w.orders(Evict)) == sorted(low)
        w.do_all()
        w.rest()
        assert all(w.filter(name).node for name in gang)

    def test_auto_does_not_let_kube_scheduler_evict_for_a_gang_that_cannot_be_helped_as_a_whole(self) -> None:
        w = DirectPreemptionSimulation(policy(PreemptionMode.AUTO))
        low = w.fill()
        w.cluster.protected = {low[0]}
        gang = w.gang("g", 4)
        w.filter(gang[0])
        w.rest()
        answer = w.preempt(gang[0])
        assert answer.candidates == ()
        assert answer.reason.code is Code.VICTIM_PROTECTED


class TestAfterACrash:
    def crash(self, w: DirectPreemptionSimulation) -> None:
        """What waits for the committer is lost."""
        w.work.clear()
        w.boot()
        w.time_passes(0.1)

    @pytest.mark.parametrize("done", range(5))
    def test_between_any_two_evictions_it_is_resumed_and_nobody_goes_twice(self, done: int) -> None:
        w, low, gang = gang_before_full_nodes()
        w.begin(gang[0])
        for order in w.orders()[:done]:
            w.do(order)
        self.crash(w)
        assert sorted(nudged(w)) == gang
        w.waits("thief", priority=5)
        for name in (gang[3], "thief", gang[1]):
            w.filter(name)
        w.rest()
        w.rest()
        assert w.gone() == low
        assert w.filter("thief").node is None
        assert all(w.filter(name).node for name in gang)

    def test_when_all_are_gone_and_nobody_was_nudged_the_room_is_still_kept(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.begin(gang[0])
        for order in w.orders():
            w.do(order)
        w.cluster.kubelets_stop()
        self.crash(w)
        assert sorted(nudged(w)) == gang
        w.waits("thief", priority=10)
        assert w.filter("thief").node is None
        assert all(w.filter(name).node for name in gang)

    def test_an_annotation_alone_evicts_nobody(self) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        low = w.runs("low", "n0", cpu=1000)
        other = w.runs("other", "n0", cpu=3000)
        claim = written("x/1", MemberPlan("", "n0", tuple(Victim("n0", uid) for uid in (low, other, "never-was"))))
        w.waits("sly", cpu=1000, annotations=((ANNOTATION, claim),))
        self.crash(w)
        w.rest()
        assert w.gone() == ["low"], "for the room of one, as the algorithm has it"

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"plan":1}', '{"plan":"a","node":"n","victims":[{}]}', "[" * 9999]
    )
    def test_an_annotation_that_cannot_be_read_is_ignored(self, text: str) -> None:
        w = DirectPreemptionSimulation(nodes=1)
        w.waits("p", annotations=((ANNOTATION, text),))
        self.crash(w)
        assert w.state("p") is State.WAITING
        assert w.filter("p").node == "n0"

    def test_the_next_leader_goes_on(self) -> None:
        w = DirectPreemptionSimulation(dataclasses.replace(DIRECT, elected=True))
        w.handle(TermBegan(1))
        low, gang = w.fill(), w.gang("g", 4)
        w.begin(gang[0])
        w.do(w.orders()[0])
        w.handle(TermEnded(1))
        assert {w.state(name) for name in gang} == {State.WAITING}
        assert w.machine._terms.unreported == 3, "so many evictions of this term may yet arrive"
        for order in w.orders():
            w.do(order, "429")  # the committer sends nothing for a term that is over
        w.deliver_all()
        assert w.machine._terms.unreported == 0
        w.handle(TermBegan(2))
        assert {order.term for order in w.orders()} == {2}
        w.rest()
        assert w.gone() == low
        assert all(w.filter(name).node for name in gang)

    def test_kube_scheduler_need_not_ask_again(self) -> None:
        w, low, gang = gang_before_full_nodes()
        w.filter(gang[0])
        w.do_all(Evict)
        for order in w.orders(RecordPreemption):
            w.do(order)
        self.crash(w)
        w.rest()
        assert w.gone() == low
        assert all(w.filter(name).node for name in gang)

    def test_a_room_that_is_resumed_and_not_asked_for_is_let_go(self) -> None:
        w, _, gang = gang_before_full_nodes()
        w.begin(gang[0])
        w.rest()
        self.crash(w)
        w.time_passes(DIRECT.lease + 1)
        assert {w.state(name) for name in gang} == {State.WAITING}
        w.do_all()
        assert not w.marked()


def test_a_refused_pod_that_is_reported_late_is_requeued_only_if_a_preemption_may_help() -> None:
    """Its request arrived before the informer's event. The event frees no room."""
    w = DirectPreemptionSimulation()
    w.fill()
    w.cluster.create("hopeless", 2000, 0)
    assert w.filter("hopeless").node is None
    w.deliver_all()
    w.time_passes(1.0)
    assert nudged(w) == []
    w.cluster.create("high", 2000, 10)
    assert w.filter("high").node is None
    w.deliver_all()
    assert w.state("high") is State.PREEMPTING


def test_a_node_that_was_closed_after_it_was_offered_is_not_waited_for() -> None:
    """No node is left to kube-scheduler, so it asks for no filter, and offers only where evictions could help."""
    w = DirectPreemptionSimulation()
    low = w.fill(cpu=4000)
    w.waits("p", cpu=4000)
    w.filter("p")
    w.rest()
    (first,) = w.gone()
    closed = first.split("-")[1]
    w.handle(NodeSeen(msgspec.structs.replace(node(closed, cpu=4000, pods=50), unschedulable=True)))
    (other,) = (name for name in w.names if name != closed)
    for _ in range(5):
        w.preempt("p", other)
        w.rest()
        w.time_passes(30.0)
    assert w.gone() == low
    assert w.filter("p", other).node == other


def test_a_node_that_is_only_late_to_be_offered_is_waited_for() -> None:
    w = DirectPreemptionSimulation()
    w.fill(cpu=4000)
    w.waits("p", cpu=4000)
    w.filter("p")
    w.rest()
    (first,) = w.gone()
    freed = first.split("-")[1]
    (other,) = (name for name in w.names if name != freed)
    for _ in range(5):
        w.preempt("p", other)
        w.rest()
        w.time_passes(30.0)
    assert w.gone() == [first]
    assert w.filter("p", *w.names).node == freed
