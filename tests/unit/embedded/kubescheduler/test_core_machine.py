"""The core under random clusters and extenders: every pod is somewhere, and no node is ever overbooked."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import BindPod, Core, Evict, PatchStatus, Write
from extender.embedded.kubescheduler.extenders import ExtenderError, FilterResult
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.queue import Place
from tests.support.kubescheduler.objects import ScriptedExtender, a_node, a_pod

NODES = ("n0", "n1", "n2")
CPU = 4


class CoreMachine(RuleBasedStateMachine):
    """Plays the API server: `stored` is what it holds; what the core is told of it may come late."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.mood = "accept"
        self.extender = ScriptedExtender(filter_verb="filter", preempt_verb="preempt")
        self.extender.on_filter = self.answer
        self.core = Core(SchedulerConfig(extenders=[self.extender.config]), [self.extender], now=0.0)
        for name in NODES:
            self.core.node_seen(a_node(name, cpu=str(CPU)), 0.0)
        self.stored: dict[str, SchedPod] = {}
        self.untold: list[SchedPod] = []
        self.binds: list[BindPod] = []
        self.evictions: list[Evict] = []
        self.made = 0
        for _ in NODES:
            self.create(3, 0)
        self.let_everything_happen()

    def answer(self, pod: SchedPod, names: list[str]) -> FilterResult:
        if self.mood == "fail":
            raise ExtenderError("boom")
        if self.mood == "refuse":
            return FilterResult((), None, dict.fromkeys(names, "busy"))
        return FilterResult(tuple(names))

    def write(self, pod: SchedPod) -> None:
        """The API server has a new state of the pod; the informer tells it some time later."""
        self.stored[pod.uid] = pod
        self.untold.append(pod)

    def remake(self, pod: SchedPod, *, node: str = "", patch: PatchStatus | None = None) -> SchedPod:
        nominated = pod.pod.nominated_node_name
        if patch is not None and patch.nominated_node is not None:
            nominated = patch.nominated_node
        before = pod.scheduled_condition if patch is None or patch.condition is None else patch.condition
        found = before and {"status": before.status, "reason": before.reason, "message": before.message}
        return a_pod(
            pod.key.name,
            cpu=f"{dict(pod.pod.requests)['cpu']}m",
            priority=pod.priority,
            node=node or pod.pod.node_name,
            status={
                "nominatedNodeName": "" if node else nominated,
                "conditions": [{"type": "PodScheduled", **found}] if found else [],
            },
        )

    def carry_out(self, writes: list[Write]) -> None:
        for write in writes:
            stored = self.stored.get(write.pod.uid)
            if isinstance(write, PatchStatus) and stored is not None:
                self.write(self.remake(stored, patch=write))
            elif isinstance(write, BindPod):
                self.binds.append(write)
            elif isinstance(write, Evict):
                self.evictions.append(write)

    @rule(cpu=st.integers(1, 4), priority=st.integers(0, 3))
    def create(self, cpu: int, priority: int) -> None:
        self.made += 1
        self.write(a_pod(f"p{self.made}", cpu=str(cpu), priority=priority))

    @precondition(lambda self: self.untold)
    @rule()
    def tell(self) -> None:
        pod = self.untold.pop(0)
        if pod.uid in self.stored:
            self.core.pod_seen(pod, self.now)

    @rule()
    def let_everything_happen(self) -> None:
        """Nobody is late, and nothing fails."""
        for _ in range(10):
            while self.untold:
                self.tell()
            while self.evictions:
                self.evict(fails=False)
            while self.binds:
                self.bind(fails=False, happens=True)
            self.attempt(0.01)

    @rule(number=st.integers(1, 30))
    def delete(self, number: int) -> None:
        uid = f"uid-p{number}"
        if self.stored.pop(uid, None) is not None:
            self.core.pod_gone(uid, self.now)

    @rule(mood=st.sampled_from(["accept", "accept", "refuse", "fail"]))
    def change_mood(self, mood: str) -> None:
        self.mood = mood

    @rule()
    def annotate_a_node(self) -> None:
        self.core.node_seen(a_node("n0", cpu=str(CPU), annotations={"at": str(self.now)}), self.now)

    @rule(seconds=st.sampled_from([0.01, 1.0, 12.0]))
    def attempt(self, seconds: float) -> None:
        self.now += seconds
        self.core.tick(self.now)
        queued = self.core.next_pod()
        if queued is not None:
            self.carry_out(self.core.conclude(queued.pod, self.core.decide(queued.pod), self.now))

    @precondition(lambda self: self.binds)
    @rule(fails=st.booleans(), happens=st.booleans())
    def bind(self, fails: bool, happens: bool) -> None:
        """A bind ends; it may have happened although it is said to have failed."""
        write = self.binds.pop(0)
        stored = self.stored.get(write.pod.uid)
        if stored is not None and (happens or not fails):
            self.write(self.remake(stored, node=write.node))
        self.carry_out(self.core.bind_done(write.pod, write.node, "no" if fails else None, self.now))

    @rule(happens=st.booleans())
    def try_and_fail_to_bind(self, happens: bool) -> None:
        while self.untold:
            self.tell()
        self.attempt(0.01)
        while self.binds:
            self.bind(fails=True, happens=happens)

    @precondition(lambda self: self.evictions)
    @rule(fails=st.booleans())
    def evict(self, fails: bool) -> None:
        write = self.evictions.pop(0)
        gone = [] if fails else [victim.uid for victim in write.victims]
        for uid in gone:
            if self.stored.pop(uid, None) is not None:
                self.core.pod_gone(uid, self.now)
        self.core.preemption_done(write, gone, self.now)

    @invariant()
    def every_waiting_pod_is_queued_or_assumed(self) -> None:
        for uid in self.stored:
            seen = self.core.pod(uid)
            if seen is not None and not seen.pod.node_name:
                assert (uid in self.core.queue) or self.core.cluster.is_assumed(uid)
            if seen is not None and seen.pod.node_name:
                assert uid not in self.core.queue
                assert self.core.cluster.place_of(uid) == seen.pod.node_name

    @invariant()
    def whoever_is_bound_or_being_bound_takes_room_and_nobody_else(self) -> None:
        binding = {write.pod.uid for write in self.binds}
        assert self.core.queue.count(Place.IN_FLIGHT) <= len(binding)
        for uid in self.stored:
            assumed = self.core.cluster.is_assumed(uid)
            assert not assumed or uid in binding or self.stored[uid].pod.node_name

    @invariant()
    def room_is_kept_only_for_pods_that_exist(self) -> None:
        for node in NODES:
            assert all(self.core.pod(pod.uid) for pod in self.core.cluster.nominated(node))

    @invariant()
    def accounts_add_up(self) -> None:
        for info in self.core.cluster.nodes():
            total = sum(dict(pod.pod.requests)["cpu"] for pod in info.pods.values())
            assert info.requested.get("cpu", 0) == total

    def teardown(self) -> None:
        """Once everything is told and the extender accepts, whoever fits somewhere is bound."""
        self.mood = "accept"
        for _ in range(100):
            self.now += 12.0
            self.annotate_a_node()
            self.let_everything_happen()
            if not (self.untold or self.evictions or self.binds) and len(self.core.queue) == self.core.queue.count(
                Place.UNSCHEDULABLE
            ):
                break
        waiting = [pod for pod in self.stored.values() if not pod.pod.node_name]
        for pod in waiting:
            for info in self.core.cluster.nodes():
                nominated = sum(dict(p.pod.requests)["cpu"] for p in self.core.cluster.nominated(info.name))
                assert dict(pod.pod.requests)["cpu"] > info.free("cpu") - nominated, pod.key


TestCoreMachine = CoreMachine.TestCase
TestCoreMachine.settings = settings(max_examples=50, stateful_step_count=40, derandomize=True, deadline=None)
