"""Bodies of declared graphs: what each node needs, what it reports when it is ready, and a log of the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from extender.fixpoint import Done, Engine, Executor, Limits, Need, Reason, Report, Visit
from extender.fixpoint.records import Outcome

#: Called in the middle of a body of this id: after it has looked at its needs, before it ends.
Between = Callable[[Visit[str]], None]


class Declared:
    """`needs`: by node, ids (to be ready; "?x": optional) or needs. `fails`: nodes whose own work fails.

    `between`: called by each body after its gate, before it acts on it. `runs`: the ids in the order of their runs.
    """

    def __init__(
        self,
        needs: Mapping[str, Sequence[str | Need[str]]],
        *,
        emits: Mapping[str, Sequence[str]] | None = None,
        data: Mapping[str, Sequence[str]] | None = None,
        fails: Sequence[str] = (),
        between: Between | None = None,
    ) -> None:
        self.needs = {node: [_need(each) for each in declared] for node, declared in needs.items()}
        self.emits = emits or {}
        self.data = data or {}
        self.fails = set(fails)
        self.between = between
        self.runs: list[str] = []
        self.engine: Engine[str] = Engine(self.body)

    def body(self, visit: Visit[str]) -> Outcome[str]:
        self.runs.append(visit.id)
        blocked = visit.gate(self.needs.get(visit.id, ()))
        if self.between is not None:
            self.between(visit)
        if blocked is not None:
            return blocked
        if visit.id in self.fails:
            return Done.failed("on its own")
        for emitted in self.emits.get(visit.id, ()):
            visit.arrive(emitted, "content")
        for emitted in self.data.get(visit.id, ()):
            visit.arrive(emitted, "content", runnable=False)
        return Done()

    def run(
        self,
        seeds: Sequence[str] | None = None,
        *,
        executor: Executor | None = None,
        limits: Limits | None = None,
        at_rest: Callable[[], bool] | None = None,
    ) -> Report[str]:
        """Run to the end; by default all declared nodes are seeds."""
        self.engine = Engine(self.body, executor=executor, limits=limits, at_rest=at_rest)
        report = self.engine.run(self.needs if seeds is None else seeds)
        self.engine.validate()
        return report


def _need(each: str | Need[str]) -> Need[str]:
    if isinstance(each, Need):
        return each
    return Need(each[1:], optional=True) if each.startswith("?") else Need(each)


def reason(report: Report[str], node: str) -> Reason[str]:
    """The reason of a node that has failed."""
    found = report.by_id[node].reason
    assert found is not None, f"{node} has not failed"
    return found


def without_drain(report: Report[str]) -> bool:
    """Whether no verdict was needed."""
    return not any(count for _, count in report.steps)


def runs(report: Report[str]) -> dict[str, int]:
    """How often each body was started."""
    return {node.id: node.runs for node in report.nodes}
