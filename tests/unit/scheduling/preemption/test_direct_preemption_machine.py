"""Direct preemption against a naive oracle: anything happens in any order, and then it comes to rest.

`DirectPreemptionSimulation` checks every eviction as it is decided: of a lower priority, written on the preemptors
first, needed, and for a plan that makes room for the whole gang. At the end nothing is half done: the gangs of the
highest priority are placed as a whole or not at all, and who is not placed could not be, even if everybody of lower
priority who may go went.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from algorithm.model import CPU, Pod
from extender.scheduling.state.pod_info import State
from tests.support.engine.direct_preemption import DIRECT, DirectPreemptionSimulation
from tests.support.engine.rules import SimulationRules
from tests.support.engine.simulation import CAPACITY

GANGS = ("g", "h")
HIGHEST = 20
FAULTS = ("none",) * 5 + ("429", "403", "not applied, no answer", "applied, no answer", "lost", "slow")
picks = st.integers(0, 2**16)
nodes = st.sampled_from(["n0", "n1", "n2"])


class Chaos(DirectPreemptionSimulation):
    """What may happen, by name, with a number that says to whom."""

    def __init__(self) -> None:
        super().__init__(nodes=3)
        self.made = 0

    def somebody_runs(self, where: str, cpu: int, priority: int) -> None:
        self.made += 1
        if self._has_room(Pod(namespace="", name="", requests=((CPU, cpu),)), where):
            self.runs(f"run-{self.made}", where, cpu=cpu, priority=priority)

    def gang_comes(self, name: str, size: int, cpu: int) -> None:
        if not any(pod.name.startswith(f"{name}-") for pod in self.cluster.pods.values()):
            self.gang(name, size, cpu=cpu, priority=HIGHEST)

    def single_comes(self, cpu: int, priority: int) -> None:
        self.made += 1
        if len(self.cluster.pods) < 16:
            self.waits(f"one-{self.made}", cpu=cpu, priority=priority)

    def pod_goes(self, pick: int) -> None:
        if (name := self._pick(pick)) is not None:
            self.cluster.delete(name)

    def budget_changes(self, pick: int) -> None:
        if (name := self._pick(pick)) is not None:
            self.cluster.protected ^= {name}

    def asked(self, pick: int, which: int) -> None:
        waiting = [pod.name for pod in self.cluster.pods.values() if not pod.node_name and not pod.terminating]
        if waiting:
            offered = [name for i, name in enumerate(self.names) if which & 1 << i]
            self.filtered(
                waiting[pick % len(waiting)], offered or list(self.names), stale=False, trial=False, bind=True
            )

    def preempt_is_asked(self, pick: int) -> None:
        if (name := self._pick(pick)) is not None:
            self.preempt_asked(name, list(self.names))

    def _pick(self, pick: int) -> str | None:
        names = sorted(self.cluster.pods)
        return names[pick % len(names)] if names else None

    # -- the end --------------------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """No more faults and budgets; kube-scheduler asks about whoever waits, as long as that changes anything."""
        self.cluster.protected.clear()
        for _ in range(12):
            self.late_write(until=float("inf"))
            while self.late:
                self.late_report(0)
            self.rest()
            by_priority = sorted(self.cluster.pods.values(), key=lambda pod: (-pod.priority, pod.created, pod.name))
            for pod in by_priority:
                if pod.name in self.cluster.pods and not self.cluster.pods[pod.name].node_name:
                    self.filter(pod.name)
            self.rest()
            self.time_passes(DIRECT.lease + 1)
        self.rest()

    def check_rest(self) -> None:
        members: dict[str, list[Pod]] = {}
        for pod in self.cluster.pods.values():
            gang = pod.annotation("waggle.dev/gang")
            assert self.state(pod.name) is (State.BOUND if pod.node_name else State.WAITING), self.machine.history(
                pod.uid
            )
            if gang is not None:
                members.setdefault(gang, []).append(pod)
            elif pod.priority == HIGHEST and not pod.node_name:
                assert not self._could_fit([pod]), f"{pod.name} could be placed"
        for gang, pods in members.items():
            if len(pods) < int(pods[0].annotation("waggle.dev/gang-min") or 0):
                continue
            placed = [pod for pod in pods if pod.node_name]
            assert len(placed) in (0, len(pods)), f"gang {gang} is split"
            assert placed or not self._could_fit(pods), f"gang {gang} could be placed"

    def _could_fit(self, pods: list[Pod]) -> bool:
        """Whether they would, if everybody of lower priority went. They are of one size."""
        wanted = dict(pods[0].requests)[CPU]
        free: Counter[str] = Counter(dict.fromkeys(self.names, CAPACITY))
        for pod in self.cluster.pods.values():
            if pod.node_name and pod.priority >= HIGHEST:
                free[pod.node_name] -= dict(pod.requests)[CPU]
        return sum(room // wanted for room in free.values()) >= len(pods)


class DirectPreemption(SimulationRules[Chaos]):
    faults = FAULTS

    @initialize()
    def begin(self) -> None:
        self.world = Chaos()
        self.world.fill()

    @rule(where=nodes, cpu=st.sampled_from([1000, 2000]), priority=st.sampled_from([0, 5]))
    def somebody_runs(self, where: str, cpu: int, priority: int) -> None:
        self.world.somebody_runs(where, cpu, priority)

    @rule(name=st.sampled_from(GANGS), size=st.integers(2, 4), cpu=st.sampled_from([1000, 2000, 3000]))
    def gang_comes(self, name: str, size: int, cpu: int) -> None:
        self.world.gang_comes(name, size, cpu)

    @rule(cpu=st.sampled_from([1000, 3000]), priority=st.sampled_from([5, 10, HIGHEST]))
    def single_comes(self, cpu: int, priority: int) -> None:
        self.world.single_comes(cpu, priority)

    @rule(pick=picks)
    def pod_goes(self, pick: int) -> None:
        self.world.pod_goes(pick)

    @rule(pick=picks)
    def budget_changes(self, pick: int) -> None:
        self.world.budget_changes(pick)

    @rule(pick=picks, which=st.sampled_from([7, 7, 7, 3, 4]))
    def asked(self, pick: int, which: int) -> None:
        self.world.asked(pick, which)

    @rule(pick=picks)
    def preempt_is_asked(self, pick: int) -> None:
        self.world.preempt_is_asked(pick)

    @rule()
    def all_work_is_done(self) -> None:
        self.world.do_all()

    @rule()
    def kubelets_stop(self) -> None:
        self.world.cluster.kubelets_stop()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.come_to_rest()
            self.world.check_rest()


DirectPreemption.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)
TestDirectPreemption = DirectPreemption.TestCase


def drive(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    world = Chaos()
    world.fill()
    doings = [
        (
            1,
            lambda: world.somebody_runs(rng.choice(world.names), rng.choice((1000, 2000)), rng.choice((0, 5))),
        ),
        (1.5, lambda: world.gang_comes(rng.choice(GANGS), rng.randint(2, 4), rng.choice((1000, 2000, 3000)))),
        (1, lambda: world.single_comes(rng.choice((1000, 3000)), rng.choice((5, 10, HIGHEST)))),
        (1.5, lambda: world.pod_goes(rng.getrandbits(16))),
        (0.7, lambda: world.budget_changes(rng.getrandbits(16))),
        (6, lambda: world.asked(rng.getrandbits(16), rng.choice((7, 7, 7, 3, 4)))),
        (1, lambda: world.preempt_is_asked(rng.getrandbits(16))),
        (8, lambda: world.work_is_done(rng.randint(0, 5), rng.choice(FAULTS))),
        (1, lambda: world.late_report(rng.randint(0, 3))),
        (6, world.event_arrives),
        (1, world.cluster.kubelets_stop),
        (1.5, lambda: world.time_passes(rng.choice((0.5, 3.0, 11.0)))),
        (0.2, world.crash),
    ]
    weights = [weight for weight, _ in doings]
    for _ in range(steps):
        rng.choices([do for _, do in doings], weights)[0]()
        world.check_room()
    world.come_to_rest()
    world.check_rest()


@pytest.mark.parametrize("seed", range(8))
def test_long_random_runs(seed: int) -> None:
    drive(seed, 300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(8, 20), *range(100, 150)])
def test_many_more_of_them(seed: int) -> None:
    drive(seed, 600)
