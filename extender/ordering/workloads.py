"""Objects that make pods, and PodGroups, as informers show them."""

from __future__ import annotations

from extender.ordering.events import WorkloadGone, WorkloadSeen
from extender.ordering.records import GROUP, Target, WorkloadRecord
from extender.ordering.state import EngineState


class WorkloadHandler:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def seen(self, event: WorkloadSeen) -> None:
        state, record = self._state, event.workload
        target, shown = record.target, self._state.shown_workloads
        if shown.is_late(target, record.uid, record.version):
            return
        shown.show(target, record.uid, record.version)
        node = state.tree.node_of(target)
        before = node.record if node else None
        if before == record:
            return
        state.tree.put_workload(record)
        if before is None or _declared(before) != _declared(record):
            self._declared_anew(before, record)

    def gone(self, event: WorkloadGone) -> None:
        state, target = self._state, event.target
        state.shown_workloads.add_tombstone(event.uid)
        state.shown_workloads.drop(target, event.uid)
        key = (target, "" if target.kind == GROUP else event.uid)
        node = state.tree.nodes.get(key)
        if node is None or node.record is None or node.record.uid != event.uid:
            return
        before = node.record
        state.tree.drop_workload(key)
        self._declared_anew(before, None)

    def _declared_anew(self, before: WorkloadRecord | None, now: WorkloadRecord | None) -> None:
        """Look again at the pods that inherit from an object: all that it and its parts declare."""
        targets: dict[Target, None] = {}
        for record in (before, now):
            if record is not None:
                targets |= dict.fromkeys([record.target, *(part.target for part in record.parts)])
        for target in targets:
            self._state.touch_declaration(target)


def _declared(record: WorkloadRecord) -> tuple[object, ...]:
    """What the pods of an object inherit from it."""
    parts = tuple((part.target, part.after) for part in record.parts)
    return record.uid, record.after, record.bad_after, record.owner, record.owner_uid, record.part, parts
