"""What a plan says of vpods: one row for each that is new, lacks room, or has moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.plan.records import RawObject, Row, Sign
from extender.vpods.copies import SetCopy, VPodCopy, copy_sets
from extender.vpods.engine import VPodEngine
from extender.vpods.records import Reason, VPodKey, VPodRecord

Placements = tuple[tuple[str, int], ...]


def vpod_rows(
    engine: VPodEngine,
    objects: Mapping[VPodKey, RawObject],
    records: Mapping[VPodKey, VPodRecord],
    before: Mapping[VPodKey, Placements],
    new: frozenset[VPodKey],
    *,
    now: float,
) -> Iterator[Row]:
    """Yield the rows in the order in which the vpods became known."""
    sets = {each.key: each for each in copy_sets(engine, engine.sets, now)}
    copies = {vpod.record.key: (found, vpod) for found in sets.values() for vpod in found.vpods}
    for key, record in records.items():
        found, vpod = copies.get(key, (None, None))
        tracked = engine.vpods.get(key)
        pending = vpod.pending if vpod is not None and vpod.is_admitted else max(record.wanted, 1)
        why = vpod.reason if vpod is not None else tracked.reason if tracked is not None else Reason.UNKNOWN_SET
        message = vpod.message if vpod is not None else tracked.message if tracked is not None else ""
        sign = _sign(key in new, pending, before[key], record.placements)
        yield Row(
            sign=sign,
            kind="VPod",
            namespace=key.namespace,
            name=key.name,
            uid="" if key in new else record.uid,
            workload=f"VPodSet/{record.set.namespace}/{record.set.name}",
            tenant=key.namespace,
            node=_shown(record.placements),
            before=_shown(before[key]),
            code=why.value if sign is Sign.WAITS else "",
            text=message if sign is Sign.WAITS else "",
            fix=_fix(found, vpod) if sign is Sign.WAITS and found is not None and vpod is not None else "",
            origin=objects[key].origin,
        )


def _sign(is_new: bool, pending: int, before: Placements, after: Placements) -> Sign:
    if pending:
        return Sign.WAITS
    if is_new:
        return Sign.RUNS
    return Sign.STAYS if sorted(before) == sorted(after) else Sign.MOVES


def _shown(placements: Placements) -> str:
    return ", ".join(f"{name} x{number}" for name, number in sorted(placements) if number)


def _fix(found: SetCopy, vpod: VPodCopy) -> str:
    """The nearest change that would place all; "" if more room would not help."""
    if vpod.reason is not Reason.NOT_ENOUGH_ROOM:
        return ""
    lacking = sum(each.pending for each in found.vpods)
    free = sum(max(0, found.settings.capacity - found.held.get(ordinal, 0)) for ordinal in found.usable)
    pods = max(1, -(-(lacking - free) // found.settings.capacity))
    without_node = sum(not pod.node for pod in found.pods.values())
    if without_node:
        return f"would be placed if the pods of StatefulSet {found.settings.workload} that wait had nodes"
    if found.settings.scales and found.replicas >= found.settings.max_replicas:
        return f"would be placed if set {found.key} might have {_pods(pods)} more than {found.settings.max_replicas}"
    return f"would be placed if StatefulSet {found.settings.workload} had {_pods(pods)} more"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
