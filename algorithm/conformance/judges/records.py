"""The judge of records: `schedule` decides by the record that it gets, not by the one that was reported before."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from algorithm.conformance.calls import Ask
from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import PeriodicJudge, promise
from algorithm.conformance.observation import asked, kinds, told
from algorithm.interface import Phase
from algorithm.model import Pod

#: Pods that are asked about with other records, and so many times as much as such a pod asks for.
_MOST_ASKED = 3
_MUCH = 1000


class CallersRecordDecides(PeriodicJudge):
    """Asks about a pod with a newer record, and asks an instance that was told of this record before.

    Only the kinds of the answers must be equal: what waits may rightly decide between nodes.
    """

    name = "callers-record-decides"
    every = 6
    not_after = (Ask,)

    def look(self) -> None:
        nodes = tuple(sorted(self.life.nodes))
        alone = [pod for uid, pod in sorted(self.life.waiting.items()) if uid not in self.life.preempting]
        if not nodes or not alone:
            return
        twin = self.life.algorithm.twin
        told_late, told_before = twin(), twin()
        for pod in alone[:_MOST_ASKED]:
            for newer in self._newer(pod):
                # Twins cost much, so all records share two of them. What they find is not sure: they were asked before.
                if self._difference(told_late, told_before, pod, newer, nodes):
                    differs = self._difference(twin(), twin(), pod, newer, nodes)
                    promise(not differs, differs)
                    told_late, told_before = twin(), twin()

    def _difference(
        self, told_late: Guarded, told_before: Guarded, pod: Pod, newer: Pod, nodes: tuple[str, ...]
    ) -> str:
        """How the answers differ, "" if they do not. Then both have again been told what they were told before."""
        told_before.delete_unallocated_pod(pod)
        told_before.add_unallocated_pod(newer)
        for phase in (Phase.FILTERING, Phase.EVICTING):
            asked(told_late, pod, nodes, phase)  # an answer that is remembered is not that to the newer record
            label = f"schedule({pod.key}, {phase.value})"
            late, before = (asked(each, newer, nodes, phase) for each in (told_late, told_before))
            if kinds({label: late}) != kinds({label: before}):
                what = f"{label} gets a newer record than was reported, and answers {told(late)}"
                return f"{what}. Reported before, the same record gets {told(before)}. It is {newer!r}"
        told_before.delete_unallocated_pod(newer)
        told_before.add_unallocated_pod(pod)
        return ""

    def _newer(self, pod: Pod) -> Iterator[Pod]:
        """The pod when it asks for much, for nothing, and for what another one asks for (as no member of a gang)."""
        yield msgspec.structs.replace(pod, requests=tuple((name, amount * _MUCH) for name, amount in pod.requests))
        yield msgspec.structs.replace(pod, requests=())
        if self.life.algorithm.gang(pod) is not None:
            return
        for other in list(self.life.seen.values())[-4:]:
            if other.annotations != pod.annotations and not other.group:
                like = msgspec.structs.replace(pod, annotations=other.annotations, requests=other.requests)
                newer = self.life.kept(like)
                if self.life.algorithm.gang(newer) is None:
                    yield newer
                    return
