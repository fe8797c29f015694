"""A recording as a workload, and as what really happened: each rule with a few events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from algorithm.model import Node, Pod, Taint
from algorithm.packing.gangs import GANG, GANG_MIN, GANG_PLAN
from algorithm.registry import create
from extender.core.outcomes import Outcome, OutcomeKind
from extender.lab.as_recorded import as_recorded
from extender.lab.from_log import FromLog, GivenUp, Recorded
from extender.lab.results import Ended, JobResult, JobState
from extender.lab.workload import Job, NodeFailure
from extender.scheduling.commands import EvictFinished
from extender.scheduling.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from extender.scheduling.policy import Policy
from tests.support.engine.scripted_log import GPU, gpu_node, gpu_pod

DONE = Outcome(OutcomeKind.DONE)


class Told:
    """A recording that begins at 0 with one node of eight GPUs, n1."""

    def __init__(self, policy: Policy | None = None, *nodes: Node) -> None:
        self.made = FromLog(policy or Policy(), create("packing", {}), 0.0, decisions=frozenset({GANG_PLAN}))
        for each in nodes or (gpu_node("n1", 8),):
            self.tell(0.0, NodeSeen(each))

    def synced(self) -> Told:
        self.made.lives.synced()
        return self

    def tell(self, at: float, *events: Event) -> None:
        for event in events:
            self.made.lives.take(at, event, [])

    def runs(self, pod: Pod, came: float, placed: float, node: str = "n1") -> None:
        self.tell(came, PodSeen(pod))
        self.tell(placed, PodSeen(pod.placed(node)))

    def goes(self, pod: Pod, at: float) -> None:
        self.tell(at, PodGone(pod.namespace, pod.name, pod.uid))

    def evicted(self, pod: Pod, at: float) -> None:
        self.tell(at, EvictFinished(1, DONE, pod.uid))
        self.goes(pod, at + 1)

    def done(self, at: float) -> Recorded:
        self.tell(at, NodeSeen(gpu_node("n1", 8)))
        return self.made.finish()


def told() -> Told:
    return Told().synced()


def only(recorded: Recorded) -> tuple[Job, JobResult]:
    [job], [result] = recorded.workload.jobs, recorded.jobs
    return job, result


def gang(name: str, of: str = "g", minimum: int = 2, **fields: Any) -> Pod:
    return gpu_pod(name, 2, annotations=((GANG, of), (GANG_MIN, str(minimum)), (GANG_PLAN, "{}")), **fields)


# -- pods alone -----------------------------------------------------------------------------------------------


def test_a_pod_that_ran_to_its_end() -> None:
    log, pod = told(), gpu_pod("a", 2)
    log.runs(pod, 10.0, 25.0)
    log.tell(100.0, PodSeen(replace(pod.placed("n1"), phase="Succeeded")))
    job, result = only(log.done(200.0))

    assert (job.name, job.arrival, job.seconds, job.pods, job.gang) == ("default/a", 10.0, 75.0, 1, False)
    assert (job.requests["gpu"], job.tenant, job.templates[0].requests) == (2000, "default", pod.requests)
    assert (result.state, result.start, result.end, result.delay) == (JobState.DONE, 25.0, 100.0, 15.0)


def test_a_pod_that_still_runs_and_one_that_waits_have_no_run_time() -> None:
    log = told()
    log.runs(gpu_pod("a"), 10.0, 20.0)
    log.tell(30.0, PodSeen(gpu_pod("b")))
    recorded = log.done(100.0)

    assert [(job.name, job.seconds) for job in recorded.workload.jobs] == [("default/a", None), ("default/b", None)]
    assert [job.state for job in recorded.jobs] == [JobState.RUNNING, JobState.WAITING]
    assert "a job ran when the recording ended; it runs to the end (1 time)" in recorded.workload.remarks
    assert (
        "a job never had places for all of its pods; if it gets them, it runs to the end (1 time)"
        in recorded.workload.remarks
    )


def test_a_pod_that_was_deleted_while_it_waited_stops_waiting() -> None:
    log, pod = told(), gpu_pod("a")
    log.tell(10.0, PodSeen(pod))
    log.goes(pod, 40.0)
    recorded = log.done(100.0)

    assert recorded.given_up == (GivenUp(40.0, "default/a", 1),)
    assert recorded.workload.jobs[0].patience == 30.0
    assert recorded.workload.jobs[0].patience == 30.0
    points = as_recorded(recorded, name="r", algorithm="packing").series.points
    assert next(point.waiting_pods for point in points if 12 <= point.at <= 38) == 1
    assert points[-1].waiting_pods == 0


@pytest.mark.parametrize(
    ("waits", "seconds", "of"),
    [
        (gpu_pod("w", 2), 30.0, "its tenant's jobs of this size"),
        (gpu_pod("w", 2, namespace="others"), 30.0, "all jobs of this size"),
        (gpu_pod("w", 1, namespace="others"), 40.0, "all jobs"),
    ],
)
def test_a_job_without_a_run_runs_as_long_as_jobs_like_it(waits: Pod, seconds: float, of: str) -> None:
    log = told()
    for name, gpus, run in (("a", 2, 10.0), ("b", 2, 30.0), ("c", 2, 50.0), ("d", 4, 60.0)):
        pod = gpu_pod(name, gpus)
        log.runs(pod, log.made.lives.now, log.made.lives.now)
        log.goes(pod, log.made.lives.now + run)
    log.tell(200.0, PodSeen(waits))
    recorded = log.done(300.0)

    assert recorded.workload.jobs[-1].seconds == seconds
    said = (
        f"a job never had places for all of its pods; if it gets them, it runs as long as the median of {of} (1 time)"
    )
    assert said in recorded.workload.remarks


def test_a_gated_pod_arrives_when_its_gate_goes() -> None:
    log, pod = told(), gpu_pod("a")
    log.tell(10.0, PodSeen(replace(pod, gated=True)))
    log.tell(50.0, PodSeen(pod))
    assert only(log.done(100.0))[0].arrival == 50.0


_LEFT_OUT = "a pod kept its scheduling gate to the end; it is left out, with a gang that waited for it (1 time)"


def test_a_pod_that_keeps_its_gate_is_not_simulated_as_if_it_could_run() -> None:
    log, pod = told(), gpu_pod("a")
    log.runs(pod, 0.0, 10.0)
    log.tell(10.0, PodSeen(replace(gpu_pod("held"), gated=True)))
    recorded = log.done(100.0)
    assert [job.name for job in recorded.workload.jobs] == ["default/a"]
    assert _LEFT_OUT in recorded.workload.remarks


def test_a_gang_that_waits_for_its_gated_pod_is_left_out_as_well() -> None:
    log = told()
    log.runs(gpu_pod("a"), 0.0, 10.0)
    log.tell(10.0, PodSeen(gang("g-0")))
    log.tell(10.0, PodSeen(replace(gang("g-1"), gated=True)))
    recorded = log.done(100.0)
    assert [job.name for job in recorded.workload.jobs] == ["default/a"]
    assert _LEFT_OUT in recorded.workload.remarks


def test_a_gang_that_ran_without_its_gated_pod_is_simulated_without_it() -> None:
    log = told()
    log.runs(gang("g-0", minimum=1), 0.0, 10.0)
    log.tell(10.0, PodSeen(replace(gang("g-1", minimum=1), gated=True)))
    job, result = only(log.done(100.0))
    assert (job.pods, result.start) == (1, 10.0)


def one_after_the_other(*, controlled: bool) -> Told:
    """A pod is evicted; soon after, one comes that is like it, and has another name."""
    log = told()
    first, second = (gpu_pod(name, 2, labels=(("job", "a"),), controlled=controlled) for name in ("a-1", "a-2"))
    log.runs(first, 0.0, 10.0)
    log.evicted(first, 50.0)
    log.runs(second, 52.0, 90.0)
    log.goes(second, 190.0)
    return log


def test_an_evicted_pod_that_is_made_again_is_the_same_job() -> None:
    job, result = only(one_after_the_other(controlled=True).done(200.0))

    assert (job.arrival, job.seconds, job.templates[0].name) == (0.0, 100.0, "a-1")
    assert (result.start, result.end, result.evictions) == (10.0, 190.0, 1)
    assert result.lost_gpu_milli_seconds == 41.0 * 2000


def test_a_pod_without_a_controller_is_made_again_under_its_name_only() -> None:
    """Else each pod that is evicted would live on in the next one like it, and be evicted again and again."""
    log = one_after_the_other(controlled=False)
    jobs = log.done(200.0).workload.jobs
    assert [(job.name, job.again) for job in jobs] == [("default/a-1", False), ("default/a-2", False)]
    log.made._has_controllers = False  # an older recording: nobody knows
    assert [job.name for job in log.made.finish().workload.jobs] == ["default/a-1"]


def test_a_job_that_is_evicted_waits_until_it_has_places_again() -> None:
    log = told()
    first, second = (gpu_pod("a", 2, uid=uid) for uid in ("1", "2"))
    log.runs(first, 0.0, 100.0)
    log.evicted(first, 500.0)
    log.runs(second, 510.0, 700.0)
    points = as_recorded(log.done(1000.0), name="r", algorithm="packing").series.points

    def counted(at: float) -> tuple[float, float]:
        point = next(point for point in points if point.at >= at)
        return point.waiting_jobs, point.running_jobs

    assert [counted(at) for at in (50.0, 300.0, 600.0, 900.0)] == [(1, 0), (0, 1), (1, 0), (0, 1)]


def test_a_pod_that_is_placed_and_gone_at_one_time_leaves_nothing_behind() -> None:
    log, pod = told(), gpu_pod("a", 2)
    log.runs(pod, 10.0, 20.0)
    log.goes(pod, 20.0)
    points = as_recorded(log.done(100.0), name="r", algorithm="packing").series.points
    assert (points[-1].waiting_jobs, points[-1].running_jobs, points[-1].gpu_allocated_milli) == (0, 0, 0)


def test_a_pod_that_nobody_makes_again_is_over_once_it_is_evicted() -> None:
    log = told()
    for name, controlled in (("bare", False), ("owned", True)):
        log.tell(log.made.lives.now, PodSeen(gpu_pod(name, 2, controlled=controlled)))
    bare = gpu_pod("evicted", 2)
    log.runs(bare, 10.0, 10.0)
    log.evicted(bare, 50.0)
    recorded = log.done(200.0)
    jobs = {job.name: job for job in recorded.workload.jobs}

    assert jobs["default/evicted"].again is False
    last = as_recorded(recorded, name="r", algorithm="packing").series.points[-1]
    assert (last.waiting_jobs, last.waiting_pods, last.running_jobs) == (2, 2, 0)  # the two that never had a place
    assert jobs["default/owned"].again is True
    assert jobs["default/bare"].again is False
    log.made._has_controllers = False  # an older recording: nobody knows
    assert {job.name: job.again for job in log.made.finish().workload.jobs}["default/bare"] is True


def test_a_pod_of_others_is_no_continuation() -> None:
    log, pod = told(), gpu_pod("a", 2, labels=(("job", "a"),))
    log.runs(pod, 0.0, 10.0)
    log.evicted(pod, 50.0)
    log.runs(gpu_pod("b", 2, labels=(("job", "b"),)), 52.0, 60.0)
    log.runs(gpu_pod("late", 2, labels=(("job", "a"),)), 500.0, 510.0)
    assert [job.name for job in log.done(600.0).workload.jobs] == ["default/a", "default/b", "default/late"]


def test_a_pod_that_was_named_as_a_victim_long_ago_was_not_evicted() -> None:
    log, pod = told(), gpu_pod("a")
    log.runs(pod, 0.0, 10.0)
    log.tell(20.0, EvictFinished(1, DONE, pod.uid))
    log.goes(pod, 5000.0)
    _, result = only(log.done(6000.0))
    assert (result.state, result.evictions) == (JobState.DONE, 0)


@pytest.mark.parametrize("first", ["node", "pod"])
def test_a_pod_that_went_with_its_node_has_to_run_again(first: str) -> None:
    log, pod = told(), gpu_pod("a")
    log.runs(pod, 0.0, 10.0)
    events = [(NodeGone("n1"),), (PodGone("default", "a", pod.uid),)]
    for at, each in zip((50.0, 70.0), events if first == "node" else reversed(events), strict=True):
        log.tell(at, *each)
    recorded = log.done(200.0)
    assert recorded.jobs[0].failures == 1
    assert recorded.stays[0].ended is Ended.FAILED


# -- gangs ----------------------------------------------------------------------------------------------------


def test_a_gang_is_one_job_that_arrives_with_its_last_pod() -> None:
    log, pods = told(), [gang("a"), gang("b")]
    for came, pod in zip((10.0, 15.0), pods, strict=True):
        log.tell(came, PodSeen(pod))
    log.tell(40.0, *(PodSeen(pod.placed("n1")) for pod in pods))
    log.goes(pods[0], 100.0)
    log.goes(pods[1], 130.0)
    job, result = only(log.done(200.0))

    assert (job.name, job.arrival, job.seconds, job.pods, job.gang) == ("default/g", 15.0, 90.0, 2, True)
    assert [[key for key, _ in pod.annotations] for pod in job.templates] == [[GANG, GANG_MIN]] * 2
    assert (result.start, result.end, result.gpu_milli) == (40.0, 130.0, 4000)


def test_a_gang_begins_again_as_a_whole() -> None:
    log, pods = told(), [gang("a"), gang("b")]
    for pod in pods:
        log.runs(pod, 0.0, 10.0)
    log.evicted(pods[0], 50.0)
    log.goes(pods[1], 52.0)
    for pod in (gang("a", uid="again-a"), gang("b", uid="again-b")):
        log.runs(pod, 55.0, 80.0)
    job, result = only(log.done(200.0))

    assert (job.pods, result.evictions, result.state) == (2, 1, JobState.RUNNING)
    assert [stay.ended for stay in log.made.finish().stays] == [Ended.EVICTED, Ended.CUT, Ended.RESTARTED, Ended.CUT]


def test_the_name_of_a_gang_that_is_over_can_be_used_again() -> None:
    log = told()
    for came, uid in ((0.0, "1"), (1000.0, "2")):
        pod = gang("a", uid=uid)
        log.runs(pod, came, came + 5)
        log.goes(pod, came + 100)
    assert [job.name for job in log.done(2000.0).workload.jobs] == ["default/g", "default/g#2"]


def test_a_gang_of_minimum_one_is_only_a_name() -> None:
    log = told()
    log.runs(gang("a", minimum=1), 0.0, 1.0)
    log.runs(gang("b", minimum=1), 0.0, 1.0)
    assert [(job.name, job.gang) for job in log.done(10.0).workload.jobs] == [
        ("default/a", False),
        ("default/b", False),
    ]


def test_a_gang_of_which_half_has_places_is_partly_placed() -> None:
    log = told()
    log.runs(gang("a"), 0.0, 10.0)
    log.tell(0.0, PodSeen(gang("b")))
    recorded = log.done(100.0)
    assert recorded.jobs[0].state is JobState.PARTLY
    measured = as_recorded(recorded, name="r", algorithm="packing").measures
    assert (measured.gpu_utilisation, measured.gpu_allocation) == (0.0, pytest.approx(0.9 * 2 / 8))


# -- what was there before, and others ------------------------------------------------------------------------


def test_a_pod_that_ran_before_keeps_its_node_and_its_annotations() -> None:
    log = Told()
    log.tell(0.0, PodSeen(gang("a").placed("n1")))
    job, result = only(log.synced().done(100.0))

    assert (job.arrival, job.begins_placed, job.templates[0].node_name, result.start) == (0.0, True, "n1", 0.0)
    assert GANG_PLAN in dict(job.templates[0].annotations)


def test_pods_of_other_schedulers_take_their_room() -> None:
    log = Told(Policy(scheduler_names=frozenset({"waggle"})))
    log.tell(0.0, PodSeen(gpu_pod("daemon", 3).placed("n1")))
    log.synced().tell(50.0, PodSeen(gpu_pod("guest", 2).placed("n1")))
    recorded = log.done(100.0)

    assert recorded.workload.jobs == ()
    assert dict(recorded.workload.nodes[0].record.allocatable)[GPU] == 5  # type: ignore[union-attr]
    assert any("came or went; it is left out (1 time)" in each for each in recorded.workload.remarks)


def test_nodes_that_come_and_go_are_failures() -> None:
    log = told()
    log.tell(30.0, NodeSeen(gpu_node("n2")))
    log.tell(60.0, NodeGone("n2"))
    log.tell(80.0, NodeSeen(gpu_node("n2")))
    log.tell(90.0, NodeGone("n1"))
    log.tell(100.0, NodeSeen(gpu_node("n3")))
    failures = log.made.finish().workload.failures

    assert failures == (
        NodeFailure("n2", 0.0, 30.0),
        NodeFailure("n3", 0.0, 100.0),
        NodeFailure("n2", 60.0, 80.0),
        NodeFailure("n1", 90.0),
    )


def test_taints_go_and_a_cordon_is_a_change() -> None:
    node = replace(gpu_node("n1", 8), taints=(Taint("gpu", "NoSchedule"),))
    log = Told(None, node).synced()
    log.tell(10.0, NodeSeen(replace(node, unschedulable=True)))
    log.tell(11.0, NodeSeen(replace(node, unschedulable=True, resource_version="9")))
    recorded = log.made.finish()

    assert recorded.workload.nodes[0].record.taints == ()  # type: ignore[union-attr]
    [change] = recorded.workload.changes
    assert (change.at, change.record.unschedulable, change.record.taints) == (10.0, True, ())


def test_a_recording_without_a_node_is_refused() -> None:
    with pytest.raises(ValueError, match="no node"):
        FromLog(Policy(), create("packing", {}), 0.0).finish()


def test_a_thousand_equal_pods_cost_a_thousand_times_one() -> None:
    def steps(number: int) -> int:
        log = told()
        for each in range(number):
            log.runs(gpu_pod(f"p{each}"), 0.0, 1.0)
        looked = 0

        class Counted(str):
            """A namespace that counts how often it is compared."""

            def __eq__(self, other: object) -> bool:
                nonlocal looked
                looked += 1
                return str.__eq__(self, str(other))

            __hash__ = str.__hash__

        for life in log.made.lives.pods.values():
            life.record = replace(life.record, namespace=Counted("default"))
        log.done(10.0)
        return looked

    assert steps(1000) <= 12 * steps(100)
