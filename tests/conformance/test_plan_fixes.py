"""What a plan names as the nearest fix helps: the same plan with that change lets the pod, or one of its gang, run.

Looked at in the state at the end of the plan, in which nobody else waits: other pods may take the room first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from extender.embedded.kubescheduler.model import SchedNode
from extender.ordering.records import Target
from extender.plan.records import Changes, Options, PlanPod, Row, Sign
from extender.plan.run.making import PlanRun, make_plan
from extender.plan.run.rows import result
from extender.plan.run.state import PlanState
from tests.conformance.plan_truth import live
from tests.conformance.plan_truth.outcomes import changes_of
from tests.conformance.plan_truth.states import packing_state
from tests.support.plan.worlds import a_node

_ENDED = re.compile(r"(?:It|\d+ of \d+ such pods) would fit if (?:this pod|these \d+ pods)(?: on \S+)? ended: (.*)\.$")
_UNCORDONED = re.compile(
    r"(?:It|\d+ of \d+ such pods) would fit if (?:node (\S+)|these \d+ nodes) were uncordoned(?:: (.*))?\.$"
)
_ADDED = re.compile(r"It would fit with (\d+) more nodes? with room for .* each that its selector and tolerations")


class _Ended:
    """A state, and its plan that has come to its end."""

    def __init__(self, seed: int) -> None:
        state = packing_state(seed)
        self.seed = seed
        self.world = live.begins_as(state)
        run = PlanState(self.world, changes_of(state), Options(seed=seed))
        for _ in PlanRun(run).run():
            pass
        self.nodes = tuple(run.cluster.nodes.values())
        self.pods = tuple(run.cluster.pods.values())
        rows = result(run)
        try:
            while True:
                next(rows)
        except StopIteration as end:
            self.rows: tuple[Row, ...] = end.value.rows

    def waiting(self) -> Iterator[Row]:
        """One row for each fix of each gang or pod."""
        found = {(row.fix, row.group or row.name): row for row in self.rows if row.sign is Sign.WAITS and row.fix}
        yield from found.values()

    def helps(self, row: Row) -> bool | None:
        """Whether its fix lets the pod, or its gang, run; None for a fix that is no change to the cluster."""
        found = self._fixed(row)
        if found is None:
            return None
        nodes, changes = found
        kept = [each for each in self.pods if each.pod.pod.node_name or _is_of(each, row)]
        world = replace(self.world, nodes=nodes, pods=tuple(map(_untried, kept)))
        plan = make_plan(world, changes, Options(seed=self.seed))
        return any(each.sign is Sign.RUNS and (each.name == row.name or _mates(each, row)) for each in plan.rows)

    def _fixed(self, row: Row) -> tuple[tuple[SchedNode, ...], Changes] | None:
        if (ended := _ENDED.match(row.fix)) and " more" not in ended[1]:
            names = [each.partition(" on ")[0].split("/") for each in ended[1].split(", ")]
            return self.nodes, Changes(delete=tuple(Target("Pod", *name) for name in names))
        if free := _UNCORDONED.match(row.fix):
            names_of = {free[1], *(free[2] or "").split(", ")}
            opened = (replace(each, node=replace(each.node, unschedulable=False)) for each in self.nodes)
            return tuple(
                new if new.name in names_of else old for old, new in zip(self.nodes, opened, strict=True)
            ), Changes()
        if added := _ADDED.match(row.fix):
            pod = next(each.pod for each in self.pods if each.pod.pod.name == row.name)
            more = {name: str(amount) for name, amount in pod.pod.requests if "/" in name}
            labels = dict(pod.node_selector)
            new = [a_node(f"more-{number}", more=more, labels=labels) for number in range(int(added[1]))]
            return (*self.nodes, *new), Changes()
        return None


def _is_of(pod: PlanPod, row: Row) -> bool:
    return pod.pod.pod.name == row.name or (pod.group is not None and pod.group.name == row.group)


def _mates(one: Row, other: Row) -> bool:
    return bool(one.group) and one.group == other.group


def _untried(pod: PlanPod) -> PlanPod:
    return replace(pod, pod=replace(pod.pod, scheduled_condition=None))


def outcomes(first: int, number: int) -> tuple[int, list[str]]:
    """How many fixes of these seeds were tried, and those that do not help."""
    tried, wrong = 0, []
    for seed in range(first, first + number):
        ended = _Ended(seed)
        for row in ended.waiting():
            helps = ended.helps(row)
            tried += helps is not None
            if helps is False:
                wrong.append(f"seed {seed}: {row.name}: {row.fix}")
    return tried, wrong


def test_what_a_plan_names_as_the_nearest_fix_helps() -> None:
    tried, wrong = outcomes(0, 30)
    assert wrong == []
    assert tried > 20


@pytest.mark.slow
def test_the_nearest_fixes_of_many_plans_help() -> None:
    tried, wrong = outcomes(1000, 400)
    assert wrong == []
    assert tried > 300
