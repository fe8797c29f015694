"""A dependency engine: what runs in which order, and why something cannot.

A run ends if each body returns: there are at most `Limits.nodes` nodes, and each id is dispatched at most
`Limits.dispatches` times (`engine.py` has the argument, tests/conformance/test_fixpoint_bounds.py tries it). A body
that never returns ends no run by itself; `Engine.cancel` ends the run all the same, as far as `engine.py` says.

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
    threads.py     a pool of daemon threads, which a body that never ends does not keep alive
    interrupts.py  how a body that does not end is interrupted
    engine.py      the loop: dispatch, completion, the end
    report.py      what happened, by node and in all: the same bytes for the same input
    levels.py      the algorithm that the engine grew out of, with drain levels, for comparisons
"""

from extender.fixpoint.engine import Engine
from extender.fixpoint.executor import Executor, Inline, Pool
from extender.fixpoint.interrupts import Interrupted
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
from extender.fixpoint.threads import Threads
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
    "Interrupted",
    "Limits",
    "Need",
    "NodeReport",
    "Pool",
    "Reason",
    "Report",
    "RunEnd",
    "Status",
    "Threads",
    "Unmet",
    "Verdict",
    "Visit",
    "Wait",
    "Want",
]
