"""The recent past, for the page: use and waiting over the last hour, and who preempted whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.preemption_log import NamedVictim, PreemptionRecord
from extender.server.usage import UsageSample

#: Preemptions that are shown, the latest ones, and victims of each by name.
SHOWN, VICTIMS = 100, 64
#: Seconds within which pods of one gang count as preempting together.
TOGETHER = 60.0


def history_piece(samples: Sequence[UsageSample]) -> bytes:
    """One piece: a row for each sample, oldest first."""
    return msgspec.json.encode({"history": [_sample(sample) for sample in samples]})


def _sample(sample: UsageSample) -> tuple[Any, ...]:
    """Time in seconds since 1970; pods that run, wait, preempt; devices given; by resource what is taken and there."""
    room = {each.resource: (each.taken, each.there) for each in sample.resources}
    return int(sample.at), sample.running, sample.waiting, sample.preempting, sample.devices, room


def preemptions_piece(records: Sequence[tuple[float, PreemptionRecord]], now: float) -> bytes:
    """One piece: the latest preemptions, latest first. Pods of one gang that preempt together are one. `now` is in
    seconds since 1970; each record comes with the seconds since it began."""
    gangs: dict[tuple[str, str], list[tuple[float, PreemptionRecord]]] = {}
    shown: list[list[tuple[float, PreemptionRecord]]] = []
    for ago, record in reversed(records):
        gang = (record.pod.namespace, _gang(record))
        same = gangs.get(gang) if gang[1] else None
        if same is not None and ago - same[0][0] <= TOGETHER:
            same.append((ago, record))
            continue
        gangs[gang] = [(ago, record)]
        shown.append(gangs[gang])
    return msgspec.json.encode({"preemptions": [_shown(some, now) for some in shown[:SHOWN]]})


def _gang(record: PreemptionRecord) -> str:
    """The name as the pod's author wrote it, else as the algorithm knows it."""
    return record.pod.annotation(GANG_ANNOTATION) or record.pod.group or record.gang


def _shown(members: Sequence[tuple[float, PreemptionRecord]], now: float) -> dict[str, Any]:
    records = [record for _, record in members]
    pod = records[-1].pod
    victims = {victim.uid: victim for record in records for victim in record.victims}
    left_out = max(record.number - len(record.victims) for record in records)
    return {
        "at": int(now - max(ago for ago, _ in members)),
        "namespace": pod.namespace,
        "name": _gang(records[-1]) or pod.name,
        "pod": pod.name,
        "pods": len(records),
        "priority": max(record.priority for record in records),
        "outcome": records[0].outcome.value,
        "victims": [_victim(victim) for victim in list(victims.values())[:VICTIMS]],
        "number": len(victims) + left_out,
        "gone": sum(victim.gone for victim in victims.values()),
    }


def _victim(victim: NamedVictim) -> tuple[Any, ...]:
    """Namespace, name, node, priority, gone."""
    return *victim.key, victim.node, victim.priority, victim.gone
