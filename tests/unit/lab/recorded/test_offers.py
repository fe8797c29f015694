"""Which nodes pods can not go to: those with room that kube-scheduler does not offer."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from extender.lab.from_log import Recorded
from extender.lab.recorded.offers import LOOKS, MOST_OFFERED, SETTLED, Offers
from extender.lab.run.simulation import RunOptions
from extender.lab.workload import CPU, GPU, Job, MachineNode, Workload
from extender.replay.comparing import closeness
from extender.replay.counterfactual import Other, counterfactual
from extender.replay.history import recorded_history
from extender.replay.logs import open_log
from tests.support.engine.scripted_log import gpu_node, gpu_pod
from tests.support.engine.simulated_log import simulated_log

POD = gpu_pod("p", 2)


def offers(*names: str, gpus: int = 4) -> Offers:
    made = Offers()
    for name in names:
        made.node(gpu_node(name, gpus), 0.0)
    return made


def test_a_node_with_room_that_is_not_offered_is_excluded() -> None:
    made = offers("n1", "n2")
    made.asked("k", POD, ["n1"], 100.0)
    assert made.excluded("k") == ("n2",)
    assert made.excluded("others") == ()


def test_a_node_without_room_says_nothing() -> None:
    made = offers("n1", "n2")
    made.placed(gpu_pod("other", 3), "n2")
    made.asked("k", POD, ["n1"], 100.0)
    assert made.excluded("k") == ()

    made.left("uid-other", 200.0)
    made.asked("k", POD, ["n1"], 200.0 + SETTLED / 2)  # kube-scheduler may not know yet
    assert made.excluded("k") == ()
    made.asked("k", POD, ["n1"], 200.0 + SETTLED)
    made.asked("k", POD, ["n1"], 300.0)
    assert made.excluded("k") == ("n2",)


def test_once_is_not_enough_where_there_are_several_attempts() -> None:
    made = offers("n1", "n2")
    made.placed(gpu_pod("other", 3), "n2")
    made.asked("k", POD, ["n1"], 100.0)
    made.left("uid-other", 200.0)
    made.asked("k", POD, ["n1"], 300.0)
    assert made.excluded("k") == ()


def test_a_node_that_was_offered_ever_or_used_is_not_excluded() -> None:
    made = offers("n1", "n2", "n3")
    made.asked("k", POD, ["n1"], 100.0)
    made.asked("k", POD, ["n2"], 200.0)
    made.ran("k", "n3")
    assert made.excluded("k") == ()


def test_a_sample_of_many_nodes_and_a_nominated_node_say_nothing() -> None:
    many = [f"m{number}" for number in range(MOST_OFFERED)]
    made = offers("n1", *many)
    made.asked("k", POD, many, 100.0)
    made.asked("k", replace(POD, nominated_node_name="m1"), ["m1"], 100.0)
    assert made.excluded("k") == ()


def test_nodes_that_take_no_pods_say_nothing() -> None:
    made = offers("n1", "n2", "n3")
    made.node(replace(gpu_node("n2"), unschedulable=True), 1.0)
    made.node_gone("n3")
    made.asked("k", POD, ["n1"], 100.0)
    assert made.excluded("k") == ()
    made.node(gpu_node("n2"), 99.0)  # a moment ago
    made.asked("k", POD, ["n1"], 100.0)
    assert made.excluded("k") == ()


def test_only_the_first_attempts_of_a_kind_are_looked_at() -> None:
    made = offers("n1", "n2")
    made.placed(gpu_pod("other", 3), "n2")
    for each in range(LOOKS):
        made.asked("k", POD, ["n1"], float(each))
    made.left("uid-other", 100.0)
    for each in range(5):
        made.asked("k", POD, ["n1"], 200.0 + each)
    assert made.excluded("k") == ()


def test_pods_of_two_pools_of_nodes_stay_in_their_pools(tmp_path: Path) -> None:
    """The recorded pods had a node affinity, which no recording has."""
    nodes = tuple(MachineNode(f"n{at}", {CPU: 64_000, GPU: 8000}, "A" if at < 2 else "B") for at in range(4))
    models = ["A" if at % 3 else "B" for at in range(30)]
    jobs = tuple(
        Job(f"j{at}", 100.0 * at, {CPU: 1000, GPU: 4000}, 60.0, tenant=model.lower(), gpu_models=(model,))
        for at, model in enumerate(models)
    )
    options = RunOptions(algorithm="packing", horizon=5000.0)
    simulated_log(tmp_path / "pools.log", Workload("pools", jobs, nodes), options)
    log = open_log(tmp_path / "pools.log")

    recorded: Recorded = recorded_history(log)
    assert {job.excluded for job in recorded.workload.jobs} == {("n0", "n1"), ("n2", "n3")}
    found = counterfactual(log, Other("fgd"))
    assert "agrees for 30 of 30 jobs (100 %)" in closeness(found)
    of_b = {job.name for number, job in enumerate(found.other.jobs) if number % 3 == 0}
    assert {stay.node for stay in found.other.stays if stay.job in of_b} <= {"n2", "n3"}
