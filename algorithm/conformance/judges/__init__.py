"""The judges of all checks that watch a cluster's life, by the name of their check."""

from __future__ import annotations

from algorithm.conformance.judge import Judge
from algorithm.conformance.judges import (
    answers,
    changes,
    copies,
    declared,
    exceptions,
    preemptions,
    records,
    side_effects,
    traces,
    views,
)

#: The side effects come first: a socket that cannot be opened makes answers differ, too.
JUDGES: dict[str, type[Judge]] = {
    judge.name: judge
    for room in (side_effects, answers, traces, preemptions, records, changes, exceptions, copies, views, declared)
    for judge in vars(room).values()
    if isinstance(judge, type) and issubclass(judge, Judge) and hasattr(judge, "name")
}
