"""Keeps the text that kube-scheduler gets about a waiting pod from changing all the time.

kube-scheduler writes the text of a refusal into the pod's condition, and that write makes it try the pod again. A text
that differs each time (a countdown, a counter, an address) makes it do so hundreds of times a second. The contract
forbids such texts (`algorithm/reasons.py`); this module limits the attempts that they cost if an algorithm returns
them.

    refusal --as before--------------------------> as it is
            --another one, MOST_CHANGES a WINDOW-> as it is
            --another one, more often------------> the one that was given last; counted, and logged once

Pages show the newest reason all the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec.structs import replace

from extender.scheduling.events import FilterAnswer
from extender.scheduling.faults import FaultKind, FaultLog
from extender.scheduling.state.pod_info import LastRefusal, PodInfo

#: How often the text of one pod may change within one window, and the length of a window, seconds. Pods of a busy
#: cluster are refused for another reason now and then, and must be told so.
MOST_CHANGES: Final = 10
WINDOW: Final = 60.0


class SteadyRefusals:
    """Decides which text kube-scheduler gets."""

    def __init__(self, faults: FaultLog, counts: Counter[tuple[str, str]]) -> None:
        self._faults = faults
        self._counts = counts

    def of(self, pod_info: PodInfo, answer: FilterAnswer, now: float) -> FilterAnswer:
        """Return this refusal; or the one that the pod was given last, if its refusals change too often."""
        last = pod_info.last_refusal
        if last is None or now - last.since >= WINDOW:
            pod_info.last_refusal = LastRefusal(answer, now)
            return answer
        before = last.answer
        if answer.reason == before.reason and (answer.nodes is before.nodes or answer.nodes == before.nodes):
            return answer
        if last.changes < MOST_CHANGES:
            pod_info.last_refusal = LastRefusal(answer, last.since, last.changes + 1)
            return answer
        self._counts["unsteady", "held"] += 1
        if not last.is_held:
            pod_info.last_refusal = replace(last, is_held=True)
            self._faults.noticed(
                FaultKind.UNSTEADY_REASON,
                "schedule",
                f"{MOST_CHANGES} texts within {WINDOW:g} s, kube-scheduler would try the pod again for each of them: "
                f"{_shown(before)!r}, then {_shown(answer)!r}",
                now,
                pod_info.pod,
            )
        return replace(before, error=answer.error)


def _shown(answer: FilterAnswer) -> str:
    """The text that moves, as far as one can tell: that of a node if nodes have their own."""
    why = next(iter(answer.nodes.values()), answer.reason)
    return why.text[:100] if why else ""
