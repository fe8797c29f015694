"""Several pods that preempt at the same time, in any order of calls, writes and events.

Each gets a place of its own, no pod is evicted too much, and nobody gives up: nothing else is under way.
"""

from __future__ import annotations

import random

import pytest

from algorithm.fgd import FgdAlgorithm, FgdSettings
from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.hived.formats.podspec import SPEC
from algorithm.interface import SchedulerAlgorithm
from algorithm.packing import PackingAlgorithm
from extender.scheduling.commands import Evict, RecordEvent, RecordPreemption
from extender.scheduling.state.pod_info import State
from tests.support.engine.direct_preemption import DirectPreemptionSimulation
from tests.support.engine.simulation import CAPACITY

CELLS = {
    "physicalCluster": {
        "cellTypes": {
            "host": {"childCellType": "gpu", "childCellNumber": 4, "isNodeLevel": True},
            "rack": {"childCellType": "host", "childCellNumber": 3},
        },
        "physicalCells": [{"cellType": "rack", "cellChildren": [{"cellAddress": f"n{number}"} for number in range(3)]}],
    },
    "virtualClusters": {"vc": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 3}]}},
}


def make(name: str) -> SchedulerAlgorithm:
    match name:
        case "hived":
            return HivedAlgorithm(HivedSettings.model_validate(CELLS))
        case "fgd":
            return FgdAlgorithm(FgdSettings())
    return PackingAlgorithm()


def wanted(name: str, priority: int) -> tuple[tuple[str, str], ...]:
    """The annotations of a pod that takes a whole machine."""
    members = f"affinityGroup: {{name: {name}, members: [{{podNumber: 1, leafCellNumber: 4}}]}}"
    return ((SPEC, f"{{virtualCluster: vc, priority: {priority}, leafCellNumber: 4, {members}}}"),)


@pytest.mark.parametrize("algorithm", ["packing", "hived", "fgd"])
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_each_gets_a_place_and_nobody_gives_up(algorithm: str, number: int, seed: int) -> None:
    draws = random.Random(f"{algorithm} {number} {seed}")
    w = DirectPreemptionSimulation(nodes=3, strict=False, make=lambda: make(algorithm))
    for each in ("low0", "low1", "low2"):
        w.waits(each, cpu=CAPACITY, priority=-1, annotations=wanted(each, -1))
        assert w.filter(each).node
    high = [f"high{each}" for each in range(number)]
    for each in high:
        w.cluster.create(each, CAPACITY, 5, annotations=wanted(each, 5))
    for _ in range(60 * number):
        a_step(w, high, draws)
        w.now += draws.choice([0, 0, 0.01])
    for _ in range(3):
        w.rest()
        for each in high:
            if w.state(each) is not State.BOUND:
                w.filter(each)
    assert {w.state(each) for each in high} == {State.BOUND}, w.log[-1]
    assert len(w.gone()) == number
    codes = {x.reason.code.value for _, _, out, _ in w.log for x in out if isinstance(x, RecordEvent)}
    assert "PreemptionFailed" not in codes


def a_step(w: DirectPreemptionSimulation, high: list[str], draws: random.Random) -> None:
    match draws.randrange(4):
        case 0:
            name = draws.choice(high)
            pod_info = w.machine.find("default", name)
            if pod_info is not None and pod_info.state in (State.WAITING, State.PREEMPTING):
                w.filter(name)
        case 1 if w.work:
            w.do(draws.choice(w.work))
        case 2:
            w.event_arrives()
        case 3 if not draws.randrange(8):
            w.cluster.kubelets_stop()


@pytest.mark.parametrize("algorithm", ["packing", "hived", "fgd"])
@pytest.mark.parametrize("restarted", [False, True])
def test_two_in_lockstep_do_not_swap_places(algorithm: str, restarted: bool) -> None:
    """Each hears of its own note when the other one does."""
    w = DirectPreemptionSimulation(nodes=3, strict=False, make=lambda: make(algorithm))
    for each in ("low0", "low1", "low2"):
        w.waits(each, cpu=CAPACITY, priority=-1, annotations=wanted(each, -1))
        assert w.filter(each).node
    if restarted:
        w.boot()
    for each in ("high0", "high1"):
        w.cluster.create(each, CAPACITY, 5, annotations=wanted(each, 5))
        w.filter(each)
    w.deliver_all()
    for _ in range(12):
        w.do_all(Evict, dry_run=True)
        w.do_all(RecordPreemption)
    assert {w.state(each) for each in ("high0", "high1")} == {State.PREEMPTING}
    assert len(w.orders(Evict, dry_run=False)) == 2
    told = [item for item in w.log if any(isinstance(x, RecordPreemption) for x in item[2])]
    assert len(told) == 2, "one note for each: no plan was made again"
