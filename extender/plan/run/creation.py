"""Creates the new objects: nodes and budgets first, then the pods in the order in which controllers would make them."""

from __future__ import annotations

import msgspec

from extender.plan.errors import PlanError
from extender.plan.reading.expanding import expand
from extender.plan.run.changing import new_priority
from extender.plan.run.state import PlanState

#: Errors that one message lists.
_NAMED = 20


def create_objects(state: PlanState) -> None:
    """Create all objects of the changes at once. Raises PlanError for those that the API server would refuse."""
    if not state.changes.create:
        return
    # The pods that are left after the changes: a workload that was deleted is made as a whole.
    left = msgspec.structs.replace(state.world, pods=tuple(state.cluster.pods.values()))
    found = expand(state.changes.create, left)
    if found.errors:
        more = f"\n... and {len(found.errors) - _NAMED} more" if len(found.errors) > _NAMED else ""
        raise PlanError("\n".join(found.errors[:_NAMED]) + more)
    state.unknown += found.unknown
    state.warnings += found.warnings
    state.created = found.objects
    for node in found.nodes:
        state.cluster.add_node(node)
    for budget in found.budgets:
        state.cluster.set_budget(budget)
    for pod in found.pods:
        state.cluster.create(state.obeyed(pod), priority=new_priority(state, pod))
