"""The whole contract at random, against an oracle that computes everything anew from the records."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from algorithm.conformance.harness import AlgorithmHarness
from algorithm.fgd import FgdAlgorithm, FgdSettings
from algorithm.fgd.fragmentation import PodClass
from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes
from algorithm.model import Node, Pod
from tests.support.examples import few
from tests.support.fgd.records import GPU, naive_fragmentation, naive_score, node, pod

POLICIES = ("fgd", "random", "dotprod", "clustering", "packing", "bestfit")
TYPICAL = [
    {"cpu_milli": 1000, "gpu_milli": 300, "gpus": 1, "count": 5},
    {"cpu_milli": 1000, "gpu_milli": 1000, "gpus": 1, "count": 4},
    {"cpu_milli": 1000, "gpu_milli": 1000, "gpus": 2, "count": 2, "models": "A"},
    {"cpu_milli": 4000, "count": 2},
]
SHARES = {
    PodClass(each["cpu_milli"], each.get("gpu_milli", 0), each.get("gpus", 0), each.get("models", "")): each["count"]
    / 13
    for each in TYPICAL
}
picks = st.integers(0, 1 << 16)
SHAPES = ({}, {"milli": 300}, {"milli": 700}, {"gpus": 1}, {"gpus": 2, "model": "A"}, {"milli": 500, "model": "B|C"})


class Harness(AlgorithmHarness[FgdAlgorithm]):
    """Checks after each change that the room of each node is what its pods leave."""

    def check(self) -> None:
        for name, devices in self.algorithm._state.nodes.items():
            records = [each for each in self.allocated.values() if each.node_name == name]
            known = self.nodes.get(name)
            assert (devices.node is None) == (known is None)
            amounts = dict(known.allocatable) if known is not None else {}
            assert devices.cpu == amounts.get("cpu", 0) - sum(dict(each.requests)["cpu"] for each in records)
            assert devices.pods == amounts.get("pods", 0) - len(records)
            if all(each.annotation("waggle.dev/gpu-index") for each in records if asks(each)[1]):
                assert list(devices.free) == free_of(amounts.get(GPU, 0), records)

    def observe(self) -> object:
        state = self.algorithm._state
        rooms = {name: (each.cpu, each.memory, each.pods, each.free, each.tags) for name, each in state.nodes.items()}
        return self.algorithm.inspect(), rooms, sorted(state.waiting), sorted(state.allocated)


def asks(record: Pod) -> tuple[int, int]:
    """(thousandths, GPUs) that a pod asks for."""
    milli = int(record.annotation("waggle.dev/gpu-milli") or 0)
    gpus = dict(record.requests).get(GPU, 0)
    return (milli, 1) if milli else (1000 if gpus else 0, gpus)


def free_of(gpus: int, records: list[Pod]) -> list[int]:
    free = [1000] * gpus
    for each in records:
        milli, number = asks(each)
        for index in (each.annotation("waggle.dev/gpu-index") or "").split(",") if number else ():
            if int(index) < gpus:
                free[int(index)] = max(0, free[int(index)] - milli)
    return free


class FgdMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(POLICIES), learns=st.booleans(), nodes=st.integers(1, 4))
    def start(self, policy: str, learns: bool, nodes: int) -> None:
        chosen = FgdSettings.model_validate({"policy": policy, "typical": [] if learns else TYPICAL})
        self.policy, self.learns = policy, learns
        self.made = 0
        self.world = Harness(lambda: FgdAlgorithm(chosen))
        for number in range(nodes):
            self.world.add_node(self.node(f"n{number}", number))

    def node(self, name: str, pick: int) -> Node:
        return node(name, gpus=(2, 4, 0, 1)[pick % 4], cpu=(8000, 3000)[pick // 4 % 2], model="ABC"[pick % 3])

    def pick(self, records: dict[str, Pod], pick: int) -> Pod:
        return records[sorted(records)[pick % len(records)]]

    @rule(shape=st.sampled_from(SHAPES), priority=st.integers(0, 2))
    def submit(self, shape, priority: int) -> None:
        self.made += 1
        self.world.submit(pod(f"p{self.made:03}", priority=priority, **shape))

    @precondition(lambda self: self.world.waiting)
    @rule(pick=picks, without=picks)
    def schedule(self, pick: int, without: int) -> None:
        record = self.pick(self.world.waiting, pick)
        names = sorted(self.world.nodes)
        offered = names if without % 2 or not names else [each for each in names if each != names[without % len(names)]]
        answer = self.world.schedule(record, offered)
        self.judge(record, offered, answer)
        if isinstance(answer, Bind):
            self.world.allocate(record, answer)

    def judge(self, record: Pod, offered: list[str], answer: object) -> None:
        if self.world.algorithm._state.preempting:
            return
        fit = {name: gpus for name in offered if (gpus := self.fitting(record, name)) is not None}
        assert isinstance(answer, Bind) == bool(fit), (answer, fit)
        if not isinstance(answer, Bind):
            return
        assert answer.node in fit
        where = [int(part) for part in dict(answer.annotations).get("waggle.dev/gpu-index", "").split(",") if part]
        assert len(where) == asks(record)[1]
        assert set(where) <= set(fit[answer.node])
        if self.policy == "fgd" and not self.learns:
            scores = {name: self.best_score(record, name, gpus) for name, gpus in fit.items()}
            assert int(scores[answer.node] + 1e-6) >= max(int(score - 1e-6) for score in scores.values())

    def free(self, name: str) -> tuple[int, ...]:
        return self.world.algorithm._state.nodes[name].free

    def fitting(self, record: Pod, name: str) -> list[int] | None:
        """The GPUs that the pod can use on the node; None if it does not fit."""
        known = self.world.nodes.get(name)
        there = [each for each in self.world.allocated.values() if each.node_name == name]
        cpu = dict(known.allocatable)["cpu"] - sum(dict(each.requests)["cpu"] for each in there)
        milli, gpus = asks(record)
        models = record.annotation("waggle.dev/gpu-model")
        if (
            cpu < 1000
            or len(there) >= 10
            or (gpus and models and dict(known.labels).popitem()[1] not in models.split("|"))
        ):
            return None
        enough = [index for index, left in enumerate(self.free(name)) if left >= max(milli, 1)] if gpus else []
        return enough if len(enough) >= gpus else None

    def best_score(self, record: Pod, name: str, gpus: list[int]) -> float:
        known = self.world.nodes[name]
        there = [each for each in self.world.allocated.values() if each.node_name == name]
        cpu = dict(known.allocatable)["cpu"] - sum(dict(each.requests)["cpu"] for each in there)
        model, free = dict(known.labels).popitem()[1], list(self.free(name))
        milli, number = asks(record)
        before = naive_fragmentation(SHARES, model, cpu, free)
        ways = [[index] for index in gpus] if number == 1 else [gpus[:number]]
        found = []
        for way in ways or [[]]:
            left = [each - milli * (index in way) for index, each in enumerate(free)]
            found.append(naive_score(before, naive_fragmentation(SHARES, model, cpu - 1000, left)))
        return max(found)

    @precondition(lambda self: self.world.waiting)
    @rule(pick=picks, phase=st.sampled_from([Phase.PREEMPTING, Phase.EVICTING]))
    def preempt(self, pick: int, phase: Phase) -> None:
        record = self.pick(self.world.waiting, pick)
        answer = self.world.schedule(record, sorted(self.world.nodes), phase)
        if not isinstance(answer, Preempt) or record.uid in self.world.preempting:
            return
        for uid in self.world.start_preempting(record, answer):
            self.world.delete(uid)
        again = self.world.schedule(record, [answer.node])
        if answer.node in self.world.nodes and len(self.world.preempting) == 1:
            assert isinstance(again, Bind), again
            self.world.allocate(record, again)

    @precondition(lambda self: self.world.allocated or self.world.waiting)
    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        self.world.delete(self.pick(self.world.allocated | self.world.waiting, pick).uid)

    @precondition(lambda self: self.world.allocated)
    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        self.world.expire(self.pick(self.world.allocated, pick).uid, without=["waggle.dev/gpu-index"])

    @rule(shape=st.sampled_from(SHAPES), name=st.sampled_from(["n0", "n1", "unknown"]))
    def bound_by_somebody_else(self, shape, name: str) -> None:
        self.made += 1
        self.world.found_bound(msgspec.structs.replace(pod(f"p{self.made:03}", **shape), node_name=name))

    @rule(pick=picks, change=picks)
    def change_node(self, pick: int, change: int) -> None:
        name = f"n{pick % 5}"
        if name not in self.world.nodes:
            self.world.add_node(self.node(name, change))
        elif change % 4 == 0 and len(self.world.nodes) > 1:
            self.world.delete_node(name)
        else:
            self.world.update_node(self.node(name, change))

    @rule(seed=picks)
    def restart(self, seed: int) -> None:
        """The state follows from what is there, in whichever order it is reported."""
        fresh = self.world.restarted(seed)
        ours = self.world.algorithm._state
        rooms = {name: (each.cpu, each.free, each.tags) for name, each in ours.nodes.items()}
        assert {name: (each.cpu, each.free, each.tags) for name, each in fresh._state.nodes.items()} == rooms
        assert fresh._state.fragmentation().typical == ours.fragmentation().typical
        if not self.world.preempting:
            for record in self.world.waiting.values():
                offered = SuggestedNodes(sorted(self.world.nodes))
                assert fresh.schedule(record, offered, Phase.FILTERING) == self.world.algorithm.schedule(
                    record, offered, Phase.FILTERING
                )


TestFgd = FgdMachine.TestCase
TestFgd.settings = few(12, 30)


@pytest.mark.slow
class TestFgdAtLength(FgdMachine.TestCase):
    settings = hypothesis_settings(few(300, 60), derandomize=False)
