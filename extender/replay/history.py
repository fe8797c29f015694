"""A recording as a workload: the whole log is replayed, and each step goes to `lab.from_log`.

The recorded settings are those of the head of the log, written as a waggle.yaml: what a simulation decides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml

from algorithm.hived.settings import HivedSettings
from algorithm.model import Pod
from algorithm.registry import create, reads
from extender.lab.from_log import Devices, FromLog, Recorded
from extender.recording.records import RecordingError, policy_of
from extender.replay.frozen import Stage
from extender.replay.logs import Log
from extender.scheduling.events import Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy

#: Events between two reports of progress.
_OFTEN = 2000


def recorded_history(log: Log, progress: Callable[[int], None] = lambda _events: None) -> Recorded:
    """Return the workload and what really happened. `progress` is told how many events were replayed.

    Raises RecordingError and AlgorithmError.
    """
    header = log.header
    first, begin = log.first(), log.begin
    stage = Stage(log, log.span, begin)
    made = FromLog(
        policy_of(header),
        create(header.algorithm, header.settings),
        first.at,
        name=log.name,
        decisions=reads(header.algorithm).decisions,
        devices=_devices(log),
        has_controllers="controlled" in header.fields.get("Pod", ()),
    )
    if begin.head is not None:
        made.lives.begin(stage.machine.driver.nodes.values(), _records(stage.machine))
        made.lives.synced()
    for number, step in enumerate(log.steps(begin), start=1):
        made.lives.take(step.at, step.event, stage.handle(step))
        if isinstance(step.event, Synced):
            made.lives.synced()
        if number % _OFTEN == 0:
            progress(number)
    try:
        return made.finish()
    except ValueError as error:
        raise RecordingError(f"{log.path}: {error}") from error


def _records(machine: SchedulerStateMachine) -> Iterator[Pod]:
    """The pods that a checkpoint has, with their places."""
    known = set()
    for pod_info in machine.pod_infos():
        known.add(pod_info.uid)
        yield pod_info.placed if pod_info.placed is not None else pod_info.pod
    for info in machine.state.cache.snapshot().nodes.values():
        yield from (pod for pod in info.pods if pod.uid not in known)


def _devices(log: Log) -> dict[str, Devices]:
    """Return the devices of each node as HiveD's configuration has them; empty for other algorithms."""
    if log.header.algorithm != "hived":
        return {}
    layout = HivedSettings.model_validate(log.header.settings).layout()
    types = {cell.address: chain.leaf_type for chain in layout.chains.values() for cell in chain.full[1]}
    return {
        name: Devices(len(cells), types.get(cells[0].address, "")) for name, cells in layout.machines.items() if cells
    }


def settings_text(log: Log, policy: Policy | None = None) -> str:
    """Return the recorded settings as a waggle.yaml, without what concerns only a server."""
    header, policy = log.header, policy or policy_of(log.header)
    document: dict[str, Any] = {
        "algorithm": {"name": header.algorithm, "settings": header.settings},
        "pods": {
            "scheduler_names": sorted(policy.scheduler_names),
            "resource": policy.resource,
            "annotation": policy.annotation,
        },
        "holds": {
            "lease_seconds": policy.lease,
            "verify_seconds": policy.verify,
            "seat_seconds": policy.reservation_timeout,
        },
        "force_bind": {
            "after_filters": policy.force_bind_after,
            "when_not_offered": policy.force_bind_unoffered,
        },
        "preemption": {
            "mode": policy.preemption.value,
            "patience_seconds": policy.patience,
            "retry_seconds": policy.eviction_backoff,
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def with_algorithm(text: str, name: str) -> str:
    """Return these settings with another algorithm, and its defaults. Raises AlgorithmError if there is no such."""
    create(name, {})
    document = yaml.safe_load(text)
    document["algorithm"] = {"name": name}
    return yaml.safe_dump(document, sort_keys=False)
