"""Shares, which are what pods add to the counts of what they belong to, and standings, which follow from counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from extender.ordering.records import PodRecord, State, Target

Share: TypeAlias = tuple[int, ...]
#: Places in a share: pods, those that are bound or have been, are ready or succeeded, succeeded, failed; Jobs that
#: have completed.
PODS, BOUND, READY, SUCCEEDED, FAILED, JOBS = range(6)
NOTHING: Share = (0,) * 6


class Standing(NamedTuple):
    """What a target has reached. `failed`: why it cannot reach anything any more; `root`: the object that failed."""

    exists: bool = False
    scheduled: bool = False
    ready: bool = False
    complete: bool = False
    failed: str = ""
    root: Target | None = None

    def has(self, state: State) -> bool:
        if state is State.SCHEDULED:
            return self.scheduled
        return self.ready if state is State.READY else self.complete


MISSING = Standing()


def share_of_pod(record: PodRecord) -> Share:
    if record.phase == "Succeeded":
        return 1, 1, 1, 1, 0, 0
    if record.phase == "Failed":
        return 1, 0, 0, 0, 1, 0
    if record.terminating:
        return NOTHING
    return 1, int(bool(record.node)), int(record.ready), 0, 0, 0


def standing_of_pod(record: PodRecord) -> Standing:
    target = record.key.target
    if record.phase == "Failed":
        return Standing(exists=True, failed="it failed", root=target)
    done = record.phase == "Succeeded"
    if record.terminating and not done:
        return Standing(exists=True)
    return Standing(True, done or bool(record.node), done or record.ready, done)


def standing_of(
    counts: Sequence[int],
    needed: int,
    *,
    complete: bool,
    failed: str,
    root: Target | None,
    may_be_empty: bool = False,
) -> Standing:
    if complete:
        return Standing(True, True, True, True)
    if failed:
        return Standing(exists=True, failed=failed, root=root)
    has_pods = needed > 0 or may_be_empty
    return Standing(True, has_pods and counts[BOUND] >= needed, has_pods and counts[READY] >= needed, False)
