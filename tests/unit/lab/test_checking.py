"""What cannot be simulated is named, with its field."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from extender.lab.checking import MOST_NODES, check, too_large
from extender.lab.workload import CPU, GPU, Job, MachineNode, NodeFailure, Workload
from extender.lab.workload_file import WorkloadError

NODE = MachineNode("n0", {CPU: 1000, GPU: 2000})
JOB = Job("a", 1.0, {GPU: 1000}, 5.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arrival": -1.0}, "job 'a': arrival: expected seconds, 0 or more, got -1.0"),
        ({"arrival": math.nan}, "job 'a': arrival: expected seconds, 0 or more, got nan"),
        ({"seconds": -2.0}, "job 'a': seconds: expected seconds, 0 or more, got -2.0"),
        ({"seconds": math.inf}, "job 'a': seconds: expected seconds, 0 or more, got inf"),
        ({"pods": 0}, "job 'a': pods: expected 1 to 100000, got 0"),
        ({"pods": 100_001}, "job 'a': pods: expected 1 to 100000, got 100001"),
        ({"requests": {CPU: -1}}, "job 'a': requests: cpu: expected a number from 0"),
        ({"requests": {GPU: 1500}}, "job 'a': requests: gpu: expected a part of one GPU or whole GPUs, got 1500"),
        ({"priority": 2**31}, "job 'a': priority: expected a number of 32 bits"),
        ({"name": ""}, "job '': name: expected 1 to 240 characters, got 0"),
    ],
)
def test_a_wrong_job_is_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        check(Workload("w", (replace(JOB, **wrong),), (NODE,)))
    assert message in str(caught.value)


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(WorkloadError, match="job 'a': name: there are two of this name"):
        check(Workload("w", (JOB, JOB), (NODE,)))


def test_jobs_that_are_not_in_order_are_refused() -> None:
    with pytest.raises(WorkloadError, match="job 'b': arrival: expected jobs in order of arrival, got 0.5 after 1.0"):
        check(Workload("w", (JOB, replace(JOB, name="b", arrival=0.5)), (NODE,)))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((), "nodes: expected at least one"),
        ((NODE, NODE), "node 'n0': name: there are two of this name"),
        ((MachineNode("n0", {GPU: 500}),), "node 'n0': capacity: gpu: expected whole GPUs, thousands, got 500"),
        ((NODE,) * (MOST_NODES + 1), f"nodes: expected at most {MOST_NODES}, got {MOST_NODES + 1}"),
    ],
)
def test_wrong_nodes_are_named(nodes: tuple[MachineNode, ...], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        check(Workload("w", (JOB,), nodes))


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ((NodeFailure("n9", 1.0),), "failure 1: node: there is no node 'n9'"),
        ((NodeFailure("n0", -1.0),), "failure 1: at: expected seconds, 0 or more, got -1.0"),
        ((NodeFailure("n0", 5.0, 5.0),), "failure 1: until: expected more than 5.0, got 5.0"),
        ((NodeFailure("n0", 5.0, 9.0), NodeFailure("n0", 7.0)), "failure 2: at: node n0 has failed before"),
        ((NodeFailure("n0", 5.0, 6.0), NodeFailure("n0", 2.0)), "failure 2: at: expected failures in order"),
    ],
)
def test_wrong_failures_are_named(failures: tuple[NodeFailure, ...], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        check(Workload("w", (JOB,), (NODE,), failures))


def test_jobs_whose_pods_fit_no_node_are_counted_and_simulated_nevertheless() -> None:
    workload = Workload("w", (JOB, replace(JOB, name="b", requests={GPU: 3000})), (NODE,))
    check(workload)
    assert too_large(workload) == 1
