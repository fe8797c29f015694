"""A dependency engine that provably ends: what runs in which order, and why something cannot.

Pure, and usable by itself: it knows nothing of pods, of Kubernetes or of the other engines. docs/fixpoint.md shows how.

    body = lambda visit: visit.gate(needs[visit.id]) or Done()
    report = Engine(body).run(seeds)

    records.py     what a body is asked with and answers: needs, outcomes, verdicts, reasons, limits
    things.py      what is known of an id: whether it exists, its status, its content, and who waits for it
    graph.py       the state machine of nodes: queued, running, parked, ended; with its diagram
    verdicts.py    what is decided when nothing runs and nothing can run: waived, absent, cycle
    components.py  strongly connected components, and the path of a cycle
    visit.py       what a body may do while it runs
    executor.py    where bodies run: inline, or on a pool that the caller brings
    engine.py      the loop: dispatch, completion, the end
    report.py      what happened, by node and in all: the same bytes for the same input
    levels.py      the algorithm that the engine grew out of, with drain levels, for comparisons
"""

from extender.fixpoint.engine import Engine
from extender.fixpoint.executor import Executor, Inline, Pool
from extender.fixpoint.records import (
    Blocked,
    Code,
    Done,
    Limits,
    Need,
    Reason,
    Status,
    Verdict,
    Want,
)
from extender.fixpoint.report import End, NodeReport, Report, RunEnd
from extender.fixpoint.things import Wait
from extender.fixpoint.visit import Body, Unmet, Visit

__all__ = [
    "Blocked",
    "Body",
    "Code",
    "Done",
    "End",
    "Engine",
    "Executor",
    "Inline",
    "Limits",
    "Need",
    "NodeReport",
    "Pool",
    "Reason",
    "Report",
    "RunEnd",
    "Status",
    "Unmet",
    "Verdict",
    "Visit",
    "Wait",
    "Want",
]
