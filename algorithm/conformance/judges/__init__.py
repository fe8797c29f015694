"""The judges of all checks that watch a cluster's life, by the name of their check."""

from __future__ import annotations

from algorithm.conformance.judge import Judge
from algorithm.conformance.judges import answers, changes, copies, declared, habits, traces, views

JUDGES: dict[str, type[Judge]] = {
    judge.name: judge
    for room in (answers, traces, changes, copies, views, habits, declared)
    for judge in vars(room).values()
    if isinstance(judge, type) and issubclass(judge, Judge) and hasattr(judge, "name")
}
