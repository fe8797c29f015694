"""The owner of the engine: every caller is answered, whatever breaks; nothing it does needs the caller to stay."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pytest

from algorithm.gauges import Gauge, Sample
from algorithm.interface import SchedulerAlgorithm, SuggestedNodes, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.informers.podreader import PodReader
from extender.scheduling.commands import BindFinished, Command, WriteBinding
from extender.scheduling.events import Candidate, NodeSeen, PodSeen, Synced, Ticked
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.server.runtime import Runtime
from extender.server.views import Explanation
from tests.support.apiserver.api import eventually
from tests.support.engine.logs import Listening
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

DONE = Outcome(OutcomeKind.DONE)
FAILED = "the algorithm failed to explain: ZeroDivisionError: division by zero"


class Bench:
    """A runtime whose commands are only kept, with a clock that the test sets."""

    def __init__(self, **policy: float) -> None:
        self.commands: list[Command] = []
        self.record = Listening()
        self.recorded = self.record.events
        self.now = 100.0
        self.machine = SchedulerStateMachine(PlainAlgorithm(), Policy(**policy))
        self.runtime = Runtime(self.machine, self.carry_out, clock=lambda: self.now, record=self.record)
        self.fail = False

    def carry_out(self, command: Command) -> None:
        if self.fail:
            raise RuntimeError("committer is gone")
        self.commands.append(command)

    def ready(self) -> None:
        self.runtime.handle(NodeSeen(node("a")), Synced())

    def propose(self, name: str = "p"):
        p = pod(name)
        assert self.runtime.filter(p, SuggestedNodes(["a"])).node == "a"
        return p

    def bind(self, p):
        return self.runtime.bind(p.namespace, p.name, p.uid, "a")

    def write(self) -> WriteBinding:
        return next(each for each in self.commands if isinstance(each, WriteBinding))

    def break_engine(self) -> None:
        self.machine.handle = None


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.ready()
    yield bench
    bench.runtime.stop()


def code(future) -> Code | None:
    error = future.result(timeout=30).error
    return error.code if error else None


def test_a_bind_is_answered_when_its_outcome_is_known(bench: Bench) -> None:
    future = bench.bind(bench.propose())
    assert not future.done()
    bench.runtime.handle(BindFinished(bench.write().token, DONE))
    assert code(future) is None


def test_a_caller_that_went_away_does_not_stop_the_write_nor_the_report(bench: Bench) -> None:
    future = bench.bind(bench.propose())
    assert future.cancel()
    bench.runtime.handle(BindFinished(bench.write().token, DONE))
    bench.runtime.handle(PodSeen(pod("p", on="a")))
    assert bench.runtime.model.pods()[0].state == "Bound"
    assert not bench.runtime._binds


def test_a_bug_of_the_engine_is_said_by_every_verb_and_probe(bench: Bench) -> None:
    bench.break_engine()
    p = pod("p")
    answer = bench.runtime.filter(p, SuggestedNodes(["a"]))
    assert answer.error
    assert answer.reason is not None
    assert "restart needed" in answer.reason.text
    assert bench.runtime.preempt(p, (Candidate("a"),)).error
    assert code(bench.bind(p)) is Code.NOT_READY
    assert "restart needed" in bench.runtime.liveness().detail
    assert not bench.runtime.readiness().ready


def test_binds_that_wait_are_refused_when_the_engine_breaks(bench: Bench) -> None:
    bench.runtime.start()
    future = bench.bind(bench.propose())
    bench.break_engine()
    bench.runtime.handle(Ticked())
    assert code(future) is Code.NOT_READY


def test_a_engine_that_cannot_say_when_it_is_due_is_broken_and_stops_nobody_else(bench: Bench) -> None:
    bench.machine.next_due = None
    assert bench.runtime.filter(pod("p"), SuggestedNodes(["a"])).error
    assert not bench.runtime.liveness().ready


def test_stopping_refuses_the_binds_that_wait_and_those_that_come(bench: Bench) -> None:
    waiting = bench.bind(bench.propose("p"))
    bench.propose("q")
    bench.runtime.stop()
    assert code(waiting) is Code.NOT_READY
    assert code(bench.bind(pod("q"))) is Code.NOT_READY
    assert len([each for each in bench.commands if isinstance(each, WriteBinding)]) == 1


def test_a_committer_that_fails_costs_the_command_but_not_the_answer() -> None:
    bench = Bench(force_bind_after=1)
    bench.ready()
    bench.propose()
    bench.fail = True
    assert bench.propose("p")
    assert bench.runtime.liveness().ready
    bench.runtime.stop()


def test_stop_before_start_and_twice_is_harmless() -> None:
    bench = Bench()
    bench.runtime.stop()
    bench.runtime.stop()
    assert bench.runtime.readiness().detail == "shutting down"


def test_while_not_synced_readiness_says_what_is_in_the_way() -> None:
    bench = Bench()
    trouble = ["nodes: connection refused"]
    bench.runtime.add_not_ready_reason(lambda: trouble[0])
    assert bench.runtime.readiness().detail == "nodes and pods are not synced yet: nodes: connection refused"
    trouble[0] = ""
    assert bench.runtime.readiness().detail == "nodes and pods are not synced yet"
    bench.ready()
    assert bench.runtime.readiness().ready


def test_the_timer_handles_what_is_due(bench: Bench) -> None:
    bench.runtime.start()
    bench.propose()
    bench.now += 61
    bench.runtime.handle(Synced())  # the clock of this test does not wake the timer by itself
    bench.runtime.loop._timer_wake.set()
    eventually(lambda: bench.commands)


def test_the_timer_sleeps_on_while_others_come_that_are_due_no_sooner(bench: Bench) -> None:
    bench.propose("p")
    bench.runtime.start()
    eventually(lambda: bench.runtime.loop._wakes_at < float("inf") and not bench.runtime.loop._timer_wake.is_set())
    bench.propose("q")
    assert not bench.runtime.loop._timer_wake.is_set()


def test_the_timer_sleeps_on_while_the_same_tick_is_planned_though_time_passes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.propose("p")
    moments = count()
    loop = bench.runtime.loop
    loop.clock = lambda: bench.now + next(moments) / 1024
    loop._timer_wake.clear()  # it was not asleep when the first one was proposed
    bench.runtime.start()
    eventually(lambda: loop._wakes_at < float("inf") and not loop._timer_wake.is_set())
    monkeypatch.setattr(loop._timer_wake, "set", lambda: pytest.fail("woken"))
    bench.propose("q")


def test_a_timer_that_was_woken_is_not_woken_again_by_each_that_is_due_sooner_than_the_others(bench: Bench) -> None:
    bench.runtime.start()
    loop = bench.runtime.loop
    eventually(lambda: loop._wakes_at == loop.clock() + 3600)
    bench.propose("p")
    eventually(lambda: loop._wakes_at == loop.clock() + 1)
    eventually(lambda: loop._wakes_at > loop.clock() + 1)  # nobody wakes it, so it sleeps until the lease is over


def test_events_are_recorded_in_the_order_in_which_they_were_handled(bench: Bench) -> None:
    """Under concurrency too: replaying the record gives the same engine."""
    threads = [threading.Thread(target=_some_pods, args=(bench, name)) for name in "uvwx"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = SchedulerStateMachine(PlainAlgorithm())
    for event, at in bench.recorded:
        again.handle(event, at)
    assert [(e.key, e.state, e.node) for e in again.pod_infos()] == [
        (e.key, e.state, e.node) for e in bench.machine.pod_infos()
    ]
    bench.machine.validate()


def _some_pods(bench: Bench, name: str) -> None:
    for number in range(30):
        p = pod(f"{name}{number}", cpu=200)
        bench.runtime.handle(PodSeen(p))
        bench.runtime.filter(p, SuggestedNodes(["a"]))


def test_people_may_look_while_pods_change(bench: Bench) -> None:
    stop = threading.Event()
    changing = threading.Thread(target=_change_until, args=(bench, stop))
    changing.start()
    try:
        for _ in range(50):
            bench.runtime.model.explain("default", "p")
            bench.runtime.model.pods()
            bench.runtime.model.stats()
    finally:
        stop.set()
        changing.join()


def _change_until(bench: Bench, stop: threading.Event) -> None:
    while not stop.is_set():
        p = pod("p")
        bench.runtime.filter(p, SuggestedNodes(["a"]))
        bench.runtime.filter(p, SuggestedNodes(["unknown"]))


def test_the_algorithms_gauges_are_shown_under_its_name() -> None:
    algorithm = PlainAlgorithm()
    algorithm.metrics = lambda: (Gauge("slots", "Slots in use.", (Sample(3, (("zone", "z"),)),)),)
    runtime = Runtime(SchedulerStateMachine(algorithm), lambda _: None, algorithm="My-Slots")
    (shown,) = [metric for metric in runtime.model.stats() if metric.name.startswith("waggle_my")]
    assert (shown.name, shown.kind, shown.help) == ("waggle_my_slots_slots", "gauge", "Slots in use.")
    assert shown.samples == [({"zone": "z"}, 3.0)]


def test_an_algorithm_that_fails_to_count_costs_its_own_metrics_only(bench: Bench) -> None:
    before = [metric.name for metric in bench.runtime.model.stats()]
    bench.machine.driver.algorithm.metrics = lambda: 1 / 0
    found = {metric.name: metric.samples for metric in bench.runtime.model.stats()}
    assert list(found) == before
    assert ({"algorithm": "algorithm", "kind": "raised"}, 1) in found["waggle_algorithm_faults_total"]


def test_what_the_algorithm_says_takes_the_place_of_the_nearest_nodes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.runtime.handle(PodSeen(pod("large", cpu=1_000_000)))
    [plain] = bench.runtime.model.explain("default", "large").nearest
    assert plain.startswith("a: lacks ")

    def told(explain: Callable[[PlainAlgorithm, Pod], Iterable[str]]) -> Explanation:
        monkeypatch.setattr(PlainAlgorithm, "explain", explain)
        bench.machine.driver.calls += 1
        monkeypatch.setattr(bench.runtime.model._what_if, "_next_copy", 0.0)
        return bench.runtime.model.explain("default", "large")

    found = told(lambda *_: ("It can never run.",))
    assert (found.nearest, found.advice) == ([], ["It can never run."])

    found = told(lambda *_: 1 / 0)
    assert (found.nearest, found.advice) == (
        [plain],
        ["the algorithm failed to explain: ZeroDivisionError: division by zero"],
    )


def test_an_algorithm_that_cannot_be_copied_explains_by_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainAlgorithm, "fork", SchedulerAlgorithm.fork)
    bench.machine.driver.algorithm.explain = lambda _: ("It can never run.",)
    bench.runtime.handle(PodSeen(pod("large", cpu=1_000_000)))

    found = bench.runtime.model.explain("default", "large")

    assert (found.advice, found.pod.summary) == (["It can never run."], "It can never run.")
    assert found.reason_if_asked is None
    bench.machine.driver.algorithm.explain = lambda _: 1 / 0
    assert bench.runtime.model.explain("default", "large").advice == [FAILED]


def test_the_nodes_that_one_pod_fits_on_are_not_named_for_a_pod_of_a_gang(bench: Bench) -> None:
    """The nearest node of one pod says nothing about a gang that can never run."""
    bench.runtime.handle(PodSeen(pod("alone", cpu=1_000_000)), PodSeen(pod("member", cpu=1_000_000, group="gang")))
    assert bench.runtime.model.explain("default", "alone").nearest
    assert bench.runtime.model.explain("default", "member").nearest == []


@pytest.mark.parametrize("cpu", [100, 1_000_000])
@pytest.mark.parametrize(
    ("why", "is_amounts"),
    [
        (reason(Code.OTHER, detail="the quota of the team is used up"), False),
        (reason(Code.POD_INVALID, detail="its shape is unknown"), False),
        (reason(Code.NO_NODE_FITS), True),
    ],
    ids=lambda each: getattr(each, "code", ""),
)
def test_no_node_is_named_as_the_nearest_where_the_algorithm_refuses_for_something_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, cpu: int, why: Reason, is_amounts: bool
) -> None:
    """`a: lacks 999 cpu`, or even that it has room, beside a reason that has nothing to do with amounts."""
    monkeypatch.setattr(PlainAlgorithm, "schedule", lambda *_: Wait(why))
    bench.runtime.handle(PodSeen(pod("p", cpu=cpu)))
    found = bench.runtime.model.explain("default", "p")
    assert found.reason_if_asked == why
    assert [each.startswith("a: lacks ") for each in found.nearest] == [True] * (is_amounts and cpu > 100)


def test_no_node_is_named_as_the_nearest_for_a_pod_that_would_get_a_place(bench: Bench) -> None:
    bench.runtime.handle(PodSeen(pod("p")))
    found = bench.runtime.model.explain("default", "p")
    assert (found.node_if_asked, found.nearest) == ("a", [])


def refused_by_kube_scheduler(p: Pod, message: str) -> bytes:
    """A pod without a node, as the API server shows it."""
    conditions = [{"type": "PodScheduled", "status": "False", "message": message}]
    return json.dumps({"metadata": {"name": p.name, "uid": p.uid}, "status": {"conditions": conditions}}).encode()


def test_a_pod_that_was_never_asked_about_has_what_kube_scheduler_wrote_as_its_reason() -> None:
    reader = PodReader()
    runtime = Runtime(SchedulerStateMachine(PlainAlgorithm()), lambda _: None, reader=reader)
    never, full = pod("never"), pod("full")
    message = "0/3 nodes are available: 3 Insufficient cpu."
    reader.informed(refused_by_kube_scheduler(full, message))
    runtime.handle(PodSeen(never), PodSeen(full))

    by_name = {view.name: view for view in runtime.model.pods()}

    assert by_name["never"].reason.code is Code.NOT_ASKED
    assert by_name["full"].reason == reason(Code.REFUSED_BEFORE, detail=message)
    assert (by_name["never"].kube_scheduler, by_name["full"].kube_scheduler) == ("", message)
    assert runtime.model.explain("default", "full").reason == by_name["full"].reason
    pending = {metric.name: metric.samples for metric in runtime.model.stats()}["waggle_pending_pods"]
    assert pending == [({"reason": "NotAsked"}, 1.0), ({"reason": "RefusedByKubeScheduler"}, 1.0)]


def test_what_kube_scheduler_wrote_before_the_pod_got_its_place_is_not_shown() -> None:
    reader, placed = PodReader(), pod("p", on="a")
    runtime = Runtime(SchedulerStateMachine(PlainAlgorithm()), lambda _: None, reader=reader)
    reader.informed(refused_by_kube_scheduler(placed, "0/1 nodes are available"))
    runtime.handle(PodSeen(placed))
    [view] = runtime.model.pods()
    assert (view.state, view.reason, view.kube_scheduler) == ("Bound", None, "")
