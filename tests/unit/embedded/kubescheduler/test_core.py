"""The stand-in without sockets: what it hears, and what it then wants written. Extenders are scripted."""

from __future__ import annotations

from typing import Any

import pytest

from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import BindPod, Core, EmitEvent, Evict, PatchStatus, Write
from extender.embedded.kubescheduler.extenders import FilterResult, MetaVictims, SchedulerPanic
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.queue import Place
from tests.support.kubescheduler.objects import ScriptedExtender, a_node, a_pod, fail, refuse

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class CoreHarness:
    """A core with virtual time. `run` tries pods until none is left, playing the API server for conditions."""

    def __init__(self, *extenders: ScriptedExtender, nodes: int = 2, cpu: str = "4") -> None:
        config = SchedulerConfig(extenders=[extender.config for extender in extenders])
        self.now = 0.0
        self.core = Core(config, extenders, now=0.0)
        self.tried: list[str] = []
        for index in range(nodes):
            self.core.node_seen(a_node(f"n{index}", cpu=cpu), 0.0)

    def see(self, *pods: SchedPod) -> None:
        for pod in pods:
            self.core.pod_seen(pod, self.now)

    def attempt(self) -> list[Write]:
        self.core.tick(self.now)
        queued = self.core.next_pod()
        assert queued is not None, "nothing to try"
        self.tried.append(queued.pod.key.name)
        self.now += 0.001
        return self.core.conclude(queued.pod, self.core.decide(queued.pod), self.now)

    def rests(self) -> bool:
        self.core.tick(self.now)
        return self.core.next_pod() is None

    def place(self, name: str) -> Place | None:
        queued = self.core.queue.get(f"uid-{name}")
        return queued.place if queued else None


def one(writes: list[Write], kind: type[Any]) -> Any:
    (found,) = [write for write in writes if isinstance(write, kind)]
    return found


def with_condition(pod: str, patch: PatchStatus, **given: Any) -> SchedPod:
    """The pod as the API server has it after the patch."""
    assert patch.condition is not None
    condition = {
        "type": "PodScheduled",
        "status": patch.condition.status,
        "reason": patch.condition.reason,
        "message": patch.condition.message,
    }
    status = {"conditions": [condition], "nominatedNodeName": patch.nominated_node}
    return a_pod(pod, status=status, **given)


# -- binding -------------------------------------------------------------------------------------------------


def test_a_chosen_pod_is_assumed_and_bound_by_the_default_binder():
    world = CoreHarness()
    world.see(a_pod("p", cpu="3"), a_pod("q", cpu="3"))
    first, second = one(world.attempt(), BindPod), one(world.attempt(), BindPod)
    assert first.extender is second.extender is None
    assert {first.node, second.node} == {"n0", "n1"}
    assert not world.core.idle
    (event,) = world.core.bind_done(first.pod, first.node, None, world.now)
    assert (event.reason, event.warning) == ("Scheduled", False)
    assert event.note == f"Successfully assigned default/p to {first.node}"


def test_the_extender_with_the_verb_binds_pods_of_its_interest_only():
    extender = ScriptedExtender(bind_verb="bind", managed_resources=[{"name": "a.b/c", "ignored_by_scheduler": True}])
    world = CoreHarness(extender)
    world.see(a_pod("hers", requests={"a.b/c": "1"}), a_pod("plain"))
    assert one(world.attempt(), BindPod).extender is extender
    assert one(world.attempt(), BindPod).extender is None


def test_a_failed_bind_is_an_error_and_wakes_the_others():
    extender = ScriptedExtender(filter_verb="filter")
    world = CoreHarness(extender, nodes=1)
    extender.on_filter = refuse()
    world.see(a_pod("waiting"))
    world.attempt()
    extender.on_filter = lambda pod, names: FilterResult(tuple(names))
    world.see(a_pod("p"))
    bind = one(world.attempt(), BindPod)
    assert world.rests()
    event, patch = world.core.bind_done(bind.pod, bind.node, "no", world.now)
    assert (event.reason, event.note) == ("FailedScheduling", "no")
    assert (patch.condition.reason, patch.condition.message) == ("SchedulerError", "no")
    assert world.place("p") is Place.ERROR_BACKOFF
    assert world.place("waiting") is Place.BACKOFF
    assert world.core.cluster.place_of("uid-p") is None


def test_a_bind_that_failed_although_it_happened_is_reported_and_not_retried():
    world = CoreHarness(nodes=1)
    world.see(a_pod("p"))
    bind = one(world.attempt(), BindPod)
    world.see(a_pod("p", node="n0"))
    _, patch = world.core.bind_done(bind.pod, bind.node, "timeout", world.now)
    assert patch.condition.reason == "SchedulerError"
    assert world.place("p") is None
    assert world.core.cluster.place_of("uid-p") == "n0"


def test_a_bind_that_was_only_said_to_have_happened_keeps_the_pod_assumed_for_ever():
    world = CoreHarness(nodes=1)
    world.see(a_pod("p", cpu="3"))
    bind = one(world.attempt(), BindPod)
    world.core.bind_done(bind.pod, bind.node, None, world.now)
    world.now = 10_000.0
    world.see(a_pod("p", cpu="3", labels={"new": "1"}), a_pod("q", cpu="3"))
    world.attempt()
    assert world.tried == ["p", "q"]
    assert world.place("q") is Place.UNSCHEDULABLE


def test_a_pod_that_was_bound_elsewhere_moves():
    world = CoreHarness()
    world.see(a_pod("p"))
    bind = one(world.attempt(), BindPod)
    other = {"n0": "n1", "n1": "n0"}[bind.node]
    world.see(a_pod("p", node=other))
    assert world.core.cluster.place_of("uid-p") == other


# -- rejections ----------------------------------------------------------------------------------------------


def test_a_newly_rejected_pod_is_tried_exactly_twice():
    """Its own condition is an update that wakes it; the second time nothing changes, so it rests."""
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = refuse()
    world = CoreHarness(extender)
    world.see(a_pod("p"))
    patch = one(world.attempt(), PatchStatus)
    assert patch.condition.message == (
        "0/2 nodes are available: 2 busy. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    world.see(with_condition("p", patch))
    writes = world.attempt()
    assert [type(write) for write in writes] == [EmitEvent]
    assert world.rests()
    assert len(extender.asked) == 2


def test_a_reason_that_moves_makes_a_hot_loop():
    extender = ScriptedExtender(filter_verb="filter")
    world = CoreHarness(extender)
    world.see(a_pod("p"))
    for attempt in range(20):
        extender.on_filter = refuse(f"{attempt} tries")
        world.see(with_condition("p", one(world.attempt(), PatchStatus)))
    assert world.now < 0.1


def test_an_error_is_shown_and_backs_off_whatever_happens():
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = fail("boom")
    world = CoreHarness(extender)
    world.see(a_pod("p"))
    event, patch = world.attempt()
    assert (event.reason, event.warning, event.note) == ("FailedScheduling", True, "boom")
    assert (patch.condition.reason, patch.condition.message) == ("SchedulerError", "boom")
    world.see(with_condition("p", patch))
    world.core.node_seen(a_node("new"), world.now)
    assert world.rests()
    assert world.core.idle


def test_a_cluster_without_nodes_is_unschedulable_but_retried_as_an_error():
    world = CoreHarness(nodes=0)
    world.see(a_pod("p"))
    patch = one(world.attempt(), PatchStatus)
    assert (patch.condition.reason, patch.condition.message) == ("Unschedulable", "no nodes available to schedule pods")
    assert world.place("p") is Place.ERROR_BACKOFF


@pytest.mark.parametrize(
    "happen",
    [
        lambda world: world.core.node_seen(a_node("new"), world.now),
        lambda world: world.core.node_gone("n1", world.now),
        lambda world: world.core.node_seen(a_node("n1", labels={"a": "b"}), world.now),
        lambda world: world.core.node_seen(a_node("n1", annotations={"a": "b"}), world.now),
        lambda world: world.see(a_pod("bound", node="n0", labels={"a": "b"})),
        lambda world: world.see(a_pod("bound2", node="n0")),
        lambda world: world.see(a_pod("bound", node="n0", status={"phase": "Succeeded"})),
        lambda world: world.core.pod_gone("uid-bound", world.now),
        lambda world: world.see(a_pod("p", metadata={"annotations": {"a": "b"}})),
    ],
)
def test_what_wakes_a_pod_that_an_extender_rejected(happen: Any):
    world = CoreHarness(rejecting())
    world.see(a_pod("bound", node="n0"), a_pod("p"))
    world.attempt()
    happen(world)
    assert world.attempt()


@pytest.mark.parametrize(
    "happen",
    [
        lambda world: world.core.node_seen(a_node("n1"), world.now),
        lambda world: world.core.node_seen(a_node("n1", spec={"unschedulable": True}), world.now),
        lambda world: world.see(a_pod("other", spec={"schedulerName": "other"})),
        lambda world: world.core.pod_gone("uid-pending", world.now),
        lambda world: world.core.node_gone("never there", world.now),
    ],
)
def test_what_does_not_wake_it(happen: Any):
    world = CoreHarness(rejecting())
    world.see(a_pod("pending", spec={"schedulerName": "other"}), a_pod("p"))
    world.attempt()
    happen(world)
    assert world.rests()


def rejecting() -> ScriptedExtender:
    extender = ScriptedExtender(filter_verb="filter")
    extender.on_filter = refuse()
    return extender


@pytest.mark.parametrize(
    "given",
    [
        {"spec": {"schedulingGates": [{"name": "g"}]}},
        {"spec": {"schedulerName": "other"}},
        {"node": "n0"},
        {"status": {"phase": "Succeeded"}},
    ],
)
def test_pods_that_are_none_of_ours_are_never_tried(given: dict[str, Any]):
    world = CoreHarness()
    world.see(a_pod("p", **given))
    assert world.rests()


def test_a_pod_that_is_being_deleted_is_skipped_and_said_so():
    extender = ScriptedExtender(filter_verb="filter")
    world = CoreHarness(extender)
    world.see(a_pod("p", metadata=DELETED))
    (event,) = world.attempt()
    assert (event.reason, event.note) == ("FailedScheduling", "skip schedule deleting pod: default/p")
    assert extender.asked == []
    assert world.rests()


def test_a_pod_that_is_deleted_while_it_is_being_bound_gives_its_room_back():
    world = CoreHarness(nodes=1)
    world.see(a_pod("p", cpu="4"))
    one(world.attempt(), BindPod)
    world.see(a_pod("q", cpu="4"))
    assert one(world.attempt(), PatchStatus).condition.reason == "Unschedulable"
    world.see(a_pod("p", cpu="4", metadata=DELETED))
    assert one(world.attempt(), BindPod).pod.key.name == "q"


def test_a_nomination_that_is_taken_away_lets_lesser_pods_try():
    world = CoreHarness(nodes=1)
    world.see(a_pod("hi", cpu="4", priority=10, spec={"schedulingGates": []}, status={"nominatedNodeName": "n0"}))
    world.core.queue.pop()
    world.see(a_pod("low", cpu="4"))
    assert one(world.attempt(), PatchStatus).condition.reason == "Unschedulable"
    world.see(a_pod("hi", cpu="4", priority=10))
    assert one(world.attempt(), BindPod).pod.key.name == "low"


def test_a_gate_that_opens_lets_the_pod_in():
    world = CoreHarness()
    world.see(a_pod("p", spec={"schedulingGates": [{"name": "g"}]}))
    world.see(a_pod("p"))
    assert one(world.attempt(), BindPod)


def test_a_pod_recreated_under_its_name_is_another_pod():
    world = CoreHarness()
    world.see(a_pod("p", uid="1", node="n0", cpu="3"), a_pod("p", uid="2", cpu="3"))
    assert world.core.pod("1") is None
    assert world.core.cluster.place_of("1") is None
    assert one(world.attempt(), BindPod).pod.uid == "2"


# -- preemption ----------------------------------------------------------------------------------------------


def preempting(*extenders: ScriptedExtender) -> tuple[CoreHarness, list[Write]]:
    world = CoreHarness(*extenders, nodes=1)
    world.see(a_pod("low", node="n0", cpu="4"), a_pod("hi", cpu="4", priority=10))
    return world, world.attempt()


def test_the_flow_of_a_preemption():
    extender = ScriptedExtender(filter_verb="filter", preempt_verb="preempt")
    world, writes = preempting(extender)
    assert [(write.pod.key.name, write.reason) for write in writes if isinstance(write, EmitEvent)] == [
        ("hi", "FailedScheduling"),
        ("low", "Preempted"),
    ]
    patch, evict = one(writes, PatchStatus), one(writes, Evict)
    assert patch.nominated_node == "n0"
    assert patch.condition.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert [victim.key.name for victim in evict.victims] == ["low"]

    world.see(with_condition("hi", patch, cpu="4", priority=10))
    assert world.rests(), "held back until the victims are on their way"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    world.see(a_pod("low", node="n0", cpu="4", metadata=DELETED, status={"conditions": [condition]}))
    world.core.preemption_done(evict, ["uid-low"], world.now)
    assert world.rests(), "its own update does not help, and nobody has gone yet"

    world.core.pod_gone("uid-low", world.now)
    assert one(world.attempt(), BindPod).node == "n0"
    assert extender.asked == [("preempt", "hi", ["n0"]), ("filter", "hi", ["n0"])]


def test_lower_priority_pods_leave_room_for_the_nominated_one():
    world, _ = preempting()
    world.core.pod_gone("uid-low", world.now)
    world.see(a_pod("later", cpu="4", priority=5))
    message = one(world.attempt(), PatchStatus).condition.message
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    one(world.attempt(), BindPod)
    assert world.tried == ["hi", "later", "hi"]


def test_a_preemption_that_fails_lets_the_pod_try_again():
    world, writes = preempting()
    world.core.preemption_done(one(writes, Evict), [], world.now)
    assert one(world.attempt(), Evict)


def test_the_late_word_of_a_preemption_that_is_over_says_nothing_of_the_next_one():
    only_one = iter(["low-1", "low-2"])
    extender = ScriptedExtender(preempt_verb="preempt")
    extender.on_preempt = lambda candidates: {"n0": MetaVictims((f"uid-{next(only_one)}",))}
    world = CoreHarness(extender, nodes=1)
    world.see(a_pod("low-1", node="n0", cpu="2"), a_pod("low-2", node="n0", cpu="2"), a_pod("hi", cpu="4", priority=10))
    first = one(world.attempt(), Evict)
    world.core.pod_gone("uid-low-1", world.now)
    assert one(world.attempt(), Evict) != first
    world.core.preemption_done(first, ["uid-low-1"], world.now)
    assert world.rests()


def test_the_nomination_of_a_lower_pod_on_the_node_ends():
    world = CoreHarness(nodes=1)
    world.see(a_pod("low", node="n0", cpu="4"))
    world.see(a_pod("middle", cpu="4", priority=5, status={"nominatedNodeName": "n0"}))
    world.see(a_pod("hi", cpu="4", priority=10))
    patches = [write for write in world.attempt() if isinstance(write, PatchStatus)]
    assert [(patch.pod.key.name, patch.nominated_node) for patch in patches] == [("hi", "n0"), ("middle", "")]


def test_a_nomination_that_no_longer_helps_is_taken_away():
    world = CoreHarness(nodes=1)
    world.see(a_pod("same", node="n0", cpu="4", priority=10))
    world.see(a_pod("hi", cpu="4", priority=10, status={"nominatedNodeName": "n0"}))
    assert one(world.attempt(), PatchStatus).nominated_node == ""
    assert world.core.cluster.nominated("n0") == []


def test_a_deleted_preemptor_gives_its_nomination_back():
    world, _ = preempting(rejecting())
    world.see(a_pod("waiting", cpu="5"))
    world.core.pod_gone("uid-hi", world.now)
    assert world.core.cluster.nominated("n0") == []


def test_a_panic_is_not_swallowed():
    extender = ScriptedExtender(preempt_verb="preempt")

    def panic(_: object) -> Any:
        raise SchedulerPanic("null")

    extender.on_preempt = panic
    with pytest.raises(SchedulerPanic):
        preempting(extender)
