"""Checks whether a workload can be simulated. Errors name the job, the node or the failure, and its field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from extender.lab.workload import CPU, GPU, LONGEST_NAME, Job, MachineNode, NodeChange, NodeFailure, Workload
from extender.lab.workload_file import WorkloadError

MOST_JOBS, MOST_PODS, MOST_PODS_OF_JOB, MOST_NODES = 5_000_000, 10_000_000, 100_000, 50_000
#: Seconds: some three thousand years. Amounts: more than any resource.
LATEST, MOST_AMOUNT = 1e11, 2**53
#: Priorities of pods in Kubernetes are numbers of 32 bits.
_PRIORITIES = 2**31
_WHOLE = 1000


def check(workload: Workload) -> None:
    """Raise WorkloadError if the workload cannot be simulated."""
    _check_number("jobs", len(workload.jobs), MOST_JOBS)
    _check_number("nodes", len(workload.nodes), MOST_NODES)
    _check_number("pods of all jobs", sum(job.pods for job in workload.jobs), MOST_PODS)
    if not workload.nodes:
        raise WorkloadError("nodes: expected at least one")
    check_contents(workload)


def check_contents(workload: Workload) -> None:
    """Raise WorkloadError if a job, node, failure or change cannot be right, whatever else the workload lacks."""
    names = _check_nodes(workload.nodes)
    _check_jobs(workload.jobs)
    _check_failures(workload.failures, names)
    _check_changes(workload.changes, names)


def _check_number(what: str, number: int, most: int) -> None:
    if number > most:
        raise WorkloadError(f"{what}: expected at most {most}, got {number}")


def _check_nodes(nodes: Sequence[MachineNode]) -> frozenset[str]:
    names: set[str] = set()
    for node in nodes:
        where = f"node {node.name[:100]!r}"
        _check_name(where, node.name, names)
        if node.record is not None and node.record.name != node.name:
            raise WorkloadError(f"{where}: record: expected a node of this name, got {node.record.name[:100]!r}")
        _check_amounts(where, "capacity", node.capacity.items())
        if node.capacity.get(GPU, 0) % _WHOLE:
            raise WorkloadError(f"{where}: capacity: {GPU}: expected whole GPUs, thousands, got {node.capacity[GPU]}")
    return frozenset(names)


def _check_name(where: str, name: str, known: set[str]) -> None:
    if not name or len(name) > LONGEST_NAME:
        raise WorkloadError(f"{where}: name: expected 1 to {LONGEST_NAME} characters, got {len(name)}")
    if name in known:
        raise WorkloadError(f"{where}: name: there are two of this name")
    known.add(name)


def _check_amounts(where: str, field: str, amounts: Iterable[tuple[str, int]]) -> None:
    for resource, amount in amounts:
        if not 0 <= amount <= MOST_AMOUNT:
            raise WorkloadError(
                f"{where}: {field}: {resource}: expected a number from 0 to {MOST_AMOUNT}, got {amount}"
            )


def _check_jobs(jobs: Sequence[Job]) -> None:
    names: set[str] = set()
    before = 0.0
    for job in jobs:
        where = f"job {job.name[:100]!r}"
        _check_name(where, job.name, names)
        _check_time(where, "arrival", job.arrival)
        if job.arrival < before:
            raise WorkloadError(
                f"{where}: arrival: expected jobs in order of arrival, got {job.arrival} after {before}"
            )
        before = job.arrival
        if job.seconds is not None:
            _check_time(where, "seconds", job.seconds)
        if job.patience is not None:
            _check_time(where, "patience", job.patience)
        if not 1 <= job.pods <= MOST_PODS_OF_JOB:
            raise WorkloadError(f"{where}: pods: expected 1 to {MOST_PODS_OF_JOB}, got {job.pods}")
        _check_requests(where, job)


def _check_requests(where: str, job: Job) -> None:
    _check_amounts(where, "requests", job.requests.items())
    gpus = job.requests.get(GPU, 0)
    if gpus > _WHOLE and gpus % _WHOLE:
        raise WorkloadError(
            f"{where}: requests: {GPU}: expected a part of one GPU or whole GPUs, got {gpus} thousandths"
        )
    if not -_PRIORITIES <= job.priority < _PRIORITIES:
        raise WorkloadError(f"{where}: priority: expected a number of 32 bits, got {job.priority}")
    if len(job.templates) not in (0, 1, job.pods):
        raise WorkloadError(f"{where}: templates: expected 1 or {job.pods} records, got {len(job.templates)}")


def _check_time(where: str, field: str, value: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= LATEST):
        raise WorkloadError(f"{where}: {field}: expected seconds, 0 or more, got {value}")


def _check_failures(failures: Sequence[NodeFailure], nodes: frozenset[str]) -> None:
    gone_until: dict[str, float] = {}
    before = 0.0
    for number, failure in enumerate(failures, 1):
        where = f"failure {number}"
        if failure.node not in nodes:
            raise WorkloadError(f"{where}: node: there is no node {failure.node[:100]!r}")
        _check_time(where, "at", failure.at)
        if failure.at < before:
            raise WorkloadError(f"{where}: at: expected failures in order, got {failure.at} after {before}")
        before = failure.at
        if failure.until is not None:
            _check_time(where, "until", failure.until)
            if failure.until <= failure.at:
                raise WorkloadError(f"{where}: until: expected more than {failure.at}, got {failure.until}")
        if failure.at < gone_until.get(failure.node, 0.0):
            raise WorkloadError(f"{where}: at: node {failure.node} has failed before and is not back yet")
        gone_until[failure.node] = math.inf if failure.until is None else failure.until


def _check_changes(changes: Sequence[NodeChange], nodes: frozenset[str]) -> None:
    before = 0.0
    for number, change in enumerate(changes, 1):
        where = f"change {number}"
        if change.record.name not in nodes:
            raise WorkloadError(f"{where}: record: there is no node {change.record.name[:100]!r}")
        _check_time(where, "at", change.at)
        if change.at < before:
            raise WorkloadError(f"{where}: at: expected changes in order, got {change.at} after {before}")
        before = change.at


def capacity(nodes: Iterable[MachineNode], resource: str) -> int:
    """Return what all nodes have of a resource."""
    return sum(node.capacity.get(resource, 0) for node in nodes)


def too_large(workload: Workload) -> int:
    """Return how many jobs have a pod that needs more processors or GPUs than any node has. They can only wait."""
    most = {name: max((node.capacity.get(name, 0) for node in workload.nodes), default=0) for name in (CPU, GPU)}
    return sum(any(job.requests.get(name, 0) > amount for name, amount in most.items()) for job in workload.jobs)
