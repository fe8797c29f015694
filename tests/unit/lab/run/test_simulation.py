"""Jobs that come, run, are evicted and end, under the algorithms that run live."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from algorithm.model import Node, Pod
from extender.lab.results import Ended, JobResult, JobState, Run
from extender.lab.run.simulation import RunOptions, simulate
from extender.lab.workload import CPU, GPU, Job, MachineNode, NodeChange, NodeFailure, Workload


def nodes(number: int, gpus: int = 8, cpu: int = 64_000) -> tuple[MachineNode, ...]:
    return tuple(MachineNode(f"n{at}", {CPU: cpu, GPU: gpus * 1000}, "A100") for at in range(number))


def job(name: str, arrival: float = 0.0, *, gpus: int = 8, seconds: float | None = 100.0, pods: int = 1) -> Job:
    return Job(name, arrival, {CPU: 1000, GPU: gpus * 1000}, seconds, pods, gang=pods > 1)


def run(*jobs: Job, number: int = 1, failures: tuple[NodeFailure, ...] = (), algorithm: str = "packing") -> Run:
    workload = Workload("test", jobs, nodes(number), failures)
    return simulate(workload, RunOptions(algorithm=algorithm, stays=True))


def by_name(run: Run) -> dict[str, JobResult]:
    return {each.name: each for each in run.jobs}


def test_a_job_runs_from_its_arrival_if_there_is_room() -> None:
    found = by_name(run(job("a", 5.0)))["a"]
    assert (found.state, found.first_start, found.start, found.end) == (JobState.DONE, 5.0, 5.0, 105.0)


def test_jobs_without_room_wait_in_order_of_arrival() -> None:
    found = by_name(run(job("a"), job("b", 1.0), job("c", 2.0)))
    assert [found[name].start for name in "abc"] == [0.0, 100.0, 200.0]


def test_a_gang_runs_when_all_of_its_pods_have_places() -> None:
    found = by_name(run(job("a", seconds=50.0), job("gang", 1.0, pods=2), number=2))
    assert (found["gang"].first_start, found["gang"].start, found["gang"].end) == (50.0, 50.0, 150.0)


def test_pods_of_a_job_that_is_no_gang_run_from_their_own_starts() -> None:
    alone = Job("alone", 0.0, {GPU: 8000}, 10.0, pods=3)
    found = by_name(run(alone, number=2))["alone"]
    assert (found.first_start, found.start, found.end) == (0.0, 10.0, 20.0)


def test_an_urgent_job_evicts_and_the_evicted_one_begins_again() -> None:
    urgent = Job("urgent", 40.0, {GPU: 8000}, 10.0, priority=10)
    done = run(job("a"), urgent)
    found = by_name(done)
    assert found["urgent"].start == 40.0
    assert (found["a"].evictions, found["a"].lost_gpu_milli_seconds, found["a"].end) == (1, 40.0 * 8000, 150.0)
    assert [(stay.job, stay.start, stay.end, stay.ended) for stay in done.stays] == [
        ("a", 0.0, 40.0, Ended.EVICTED),
        ("urgent", 40.0, 50.0, Ended.DONE),
        ("a", 50.0, 150.0, Ended.DONE),
    ]


def test_a_node_that_fails_takes_a_whole_gang_with_it() -> None:
    done = run(job("gang", pods=2), number=2, failures=(NodeFailure("n1", 30.0, 60.0),))
    found = by_name(done)["gang"]
    assert (found.failures, found.evictions, found.start) == (1, 0, 0.0)
    assert (found.end, found.lost_gpu_milli_seconds) == (160.0, 2 * 30.0 * 8000)


def test_a_job_that_fits_nowhere_waits_and_says_why() -> None:
    found = by_name(run(job("large", gpus=9), job("a", 1.0)))
    assert (found["large"].state, found["a"].state) == (JobState.WAITING, JobState.DONE)
    assert "Insufficient nvidia.com/gpu" in found["large"].text


@pytest.mark.parametrize(("algorithm", "start"), [("fgd", 0.0), ("packing", 100.0)])
def test_parts_of_gpus_are_shared_if_the_algorithm_can(algorithm: str, start: float) -> None:
    jobs = [Job(name, 0.0, {GPU: 500}, 100.0) for name in "ab"]
    done = simulate(Workload("test", tuple(jobs), nodes(1, gpus=1)), RunOptions(algorithm=algorithm))
    assert by_name(done)["b"].start == start
    assert ("a part of a GPU was rounded up to a whole one (2 jobs)" in done.remarks) == (algorithm == "packing")


def test_a_job_that_loses_its_patience_is_deleted_and_the_next_one_gets_its_turn() -> None:
    hurried = Job("hurried", 1.0, {GPU: 8000}, 50.0, patience=20.0)
    done = run(job("a"), hurried, job("b", 2.0))
    found = by_name(done)

    assert (found["hurried"].state, found["hurried"].start) == (JobState.WAITING, None)
    assert found["hurried"].text == "deleted after it had waited for 20 s"
    assert found["b"].start == 100.0
    assert done.series.points[-1].waiting_pods == 0


def test_a_job_that_has_begun_has_all_the_patience() -> None:
    hurried = Job("hurried", 0.0, {GPU: 8000}, 50.0, patience=20.0)
    assert by_name(run(hurried))["hurried"].end == 50.0


def test_a_node_that_is_cordoned_keeps_its_pods_and_takes_no_more() -> None:
    record = Node(name="n0", allocatable=(("cpu", 64_000), ("nvidia.com/gpu", 8), ("pods", 110)))
    changes = (NodeChange(10.0, replace(record, unschedulable=True)), NodeChange(90.0, record))
    jobs = (job("a", gpus=4, seconds=50.0), job("b", 20.0, gpus=4, seconds=5.0))
    cordoned = (MachineNode("n0", {CPU: 64_000, GPU: 8000}, record=record),)
    found = by_name(simulate(Workload("test", jobs, cordoned, changes=changes), RunOptions(algorithm="packing")))
    assert (found["a"].end, found["b"].start) == (50.0, 90.0)


def test_pods_that_run_when_it_begins_are_where_they_are() -> None:
    template = Pod(namespace="t", name="old", requests=(("nvidia.com/gpu", 8),), node_name="n1")
    old = Job("old", 0.0, {GPU: 8000}, 30.0, templates=(template,))
    urgent = Job("urgent", 5.0, {GPU: 8000}, 10.0, pods=2, priority=10)
    found = run(old, urgent, number=2)

    assert next((stay.node, stay.start) for stay in found.stays if stay.job == "old") == ("n1", 0.0)
    assert (by_name(found)["old"].evictions, by_name(found)["old"].end) == (1, 45.0)


def test_without_any_node_everything_waits_until_one_is_back() -> None:
    done = run(job("a"), job("b", 10.0), failures=(NodeFailure("n0", 5.0, 1000.0), NodeFailure("n0", 1150.0)))
    found = by_name(done)
    assert (found["a"].failures, found["a"].end) == (1, 1100.0)
    assert (found["b"].start, found["b"].failures, found["b"].state) == (1100.0, 1, JobState.WAITING)


def test_without_a_controller_an_evicted_gang_is_over() -> None:
    gang = Job("gang", 0.0, {GPU: 8000}, 100.0, 2, True, again=False)
    urgent = Job("urgent", 40.0, {GPU: 8000}, 10.0, priority=10)
    done = run(gang, urgent, job("next", 41.0, gpus=8, seconds=5.0), number=2)
    found = by_name(done)

    assert (found["gang"].evictions, found["gang"].end, found["gang"].text) == (
        1,
        None,
        "evicted, or lost its node, and nobody made it again",
    )
    assert (found["urgent"].start, found["next"].start) == (40.0, 41.0)
    assert (done.series.points[-1].waiting_pods, done.series.points[-1].running_jobs) == (0, 0)


def test_a_job_that_lost_a_pod_for_ever_is_not_done_when_its_other_pods_are() -> None:
    three = Job("three", 0.0, {GPU: 8000}, 100.0, 3, again=False)
    done = run(three, job("later", 150.0, seconds=5.0), number=3, failures=(NodeFailure("n0", 40.0),))
    found = by_name(done)["three"]
    assert (found.state, found.end, found.failures) == (JobState.WAITING, None, 1)
    assert found.text == "evicted, or lost its node, and nobody made it again"
    assert done.measures.all.done == 1
    between = done.series.points[len(done.series.points) * 120 // 155]
    assert (between.running_jobs, between.waiting_jobs) == (0, 0)


@pytest.mark.parametrize(("whole", "end"), [(False, 5.0), (True, 60.0)])
def test_a_run_is_followed_to_its_horizon_if_that_is_wanted(whole: bool, end: float) -> None:
    forever = job("forever", 5.0, seconds=None)
    options = RunOptions(algorithm="packing", horizon=60.0, whole=whole, stays=True)
    done = simulate(Workload("test", (forever,), nodes(1)), options)
    assert (done.stays[0].end, done.measures.until) == (end, end)


def test_what_runs_at_the_horizon_is_cut_there() -> None:
    options = RunOptions(algorithm="packing", horizon=60.0, stays=True)
    done = simulate(Workload("test", (job("a", 5.0),), nodes(1)), options)
    assert [(stay.end, stay.ended) for stay in done.stays] == [(60.0, Ended.CUT)]
