"""The engine runs what needs nothing first, and says why something cannot run."""

from __future__ import annotations

from extender.fixpoint import Code, Done, Engine, Need, Visit
from extender.fixpoint.records import Outcome


def test_a_chain_runs_and_a_dangling_one_says_why() -> None:
    needs = {"a": ["b"], "b": ["c"], "c": [], "x": ["missing"], "y": ["x"]}

    def body(visit: Visit[str]) -> Outcome[str]:
        return visit.gate(Need(each) for each in needs[visit.id]) or Done()

    report = Engine(body).run(needs)

    assert report.ready == ("a", "b", "c")
    reason = report.by_id["y"].reason
    assert reason is not None
    assert (reason.code, reason.root) == (Code.DEPENDENCY_FAILED, ("missing",))
    assert reason.text == "x failed; root cause: missing: not found"
