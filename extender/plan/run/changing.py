"""Makes the what-if changes, in this order: deletes, adds nodes, cordons, drains, changes priorities.

A drain is that of `kubectl drain --force --ignore-daemonsets`: the node is cordoned, and its pods are evicted as far as
budgets allow, again and again as long as evicted pods find other places. Pods of DaemonSets and static pods stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from algorithm.reasons import Code, reason
from extender.ordering.records import GROUP, Target
from extender.plan.errors import PlanError
from extender.plan.reading.targets import GANG_KINDS
from extender.plan.records import PlanPod
from extender.plan.run.milestones import objects_of
from extender.plan.run.state import PlanState
from extender.plan.run.store import Gone

#: Pods of these owners belong to their node.
_OF_THE_NODE = ("DaemonSet", "Node")
#: Names that one warning lists.
_NAMED = 5


def apply_changes(state: PlanState) -> Iterator[None]:
    """Make all changes but the creation of objects. Yields where everything that follows has to happen first.

    Raises PlanError for an object that does not exist, or a node that exists already.
    """
    for target in state.changes.delete:
        _delete(state, target)
    for node in state.changes.add_nodes:
        if node.name in state.cluster.nodes:
            raise PlanError(f"add nodes: {node.name}: a node of this name exists already")
        state.cluster.add_node(node)
    for name in (*state.changes.cordon, *state.changes.drain):
        if name not in state.cluster.nodes:
            raise PlanError(f"{'cordon' if name in state.changes.cordon else 'drain'}: there is no node {name}")
        state.cluster.cordon(name)
    yield from _drain(state)
    for pod in list(state.cluster.pods.values()):
        priority = new_priority(state, pod)
        if priority is not None and priority != pod.pod.priority:
            state.cluster.set_priority(pod.pod.uid, priority)


def new_priority(state: PlanState, pod: PlanPod) -> int | None:
    """The priority that the changes give this pod, None if none; the last one that names it counts."""
    found = None
    for target, priority in state.changes.priorities:
        if any(_is(each, target) for each in objects_of(pod)):
            state.reprioritised.add(target)
            found = priority
    return found


def check_priorities(state: PlanState) -> None:
    """Raise PlanError if a priority was to change of which no pod, old or new, was found.

    Pods that were there when the plan began may have gone since: one that waits may have evicted them.
    """
    for target, _ in state.changes.priorities:
        if target not in state.reprioritised and not _had_pods(state, target):
            raise PlanError(f"priority: {target}: there is no such object, or it has no pods")


# -- delete --------------------------------------------------------------------------------------------------------


def _delete(state: PlanState, target: Target) -> None:
    kind = target.kind.lower()
    if kind == "node":
        _delete_node(state, target.name)
        return
    pods = _pods_of(state, target)
    if not pods and not _was_there(state, target):
        raise PlanError(f"delete: {target}: the cluster has no such object; new ones are not deleted")
    why = reason(Code.DELETED, target=str(target))
    for pod in pods:
        # A pod alone is made again by its owner.
        how = Gone.EVICTED if kind == "pod" and pod.owner is not None else Gone.DELETED
        state.cluster.delete(pod.pod.uid, how, why)


def _was_there(state: PlanState, target: Target) -> bool:
    """Whether the world has it, even if its pods have gone since: one that waits may have evicted them."""
    known = [each.target for each in state.world.objects]
    known += [above for pod in state.world.pods for above in objects_of(pod)]
    return any(_is(each, target) for each in known)


def _had_pods(state: PlanState, target: Target) -> bool:
    """Whether the world has pods of it."""
    return any(_is(each, target) for pod in state.world.pods for each in objects_of(pod))


def _delete_node(state: PlanState, name: str) -> None:
    if name not in state.cluster.nodes:
        raise PlanError(f"delete: there is no node {name}")
    state.cluster.remove_node(name)
    why = reason(Code.NODE_REMOVED, node=name)
    for pod in _pods_on(state, name):
        belongs = pod.owner is not None and pod.owner.kind in _OF_THE_NODE
        state.cluster.delete(pod.pod.uid, Gone.DELETED if belongs else Gone.EVICTED, why)


def _pods_of(state: PlanState, target: Target) -> list[PlanPod]:
    """The pods of an object whose kind is written in any way: "job", "Job"."""
    return [pod for pod in state.cluster.pods.values() if any(_is(each, target) for each in objects_of(pod))]


def _is(known: Target, asked: Target) -> bool:
    return (_kind(known), known.namespace, known.name) == (_kind(asked), asked.namespace, asked.name)


def _kind(target: Target) -> str:
    kind = target.kind.lower()
    return GROUP if kind in GANG_KINDS else kind


# -- drain ---------------------------------------------------------------------------------------------------------


def _drain(state: PlanState) -> Iterator[None]:
    evicted = True
    while evicted:
        yield
        evicted = sum(_evict(state, pod, name) for name, pod in _to_drain(state)) > 0
    for name in state.changes.drain:
        left = [str(pod.pod.key) for drained, pod in _to_drain(state) if drained == name]
        if left:
            shown = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
            state.warnings.append(f"drain of {name}: disruption budgets do not allow to evict {shown}")


def _to_drain(state: PlanState) -> list[tuple[str, PlanPod]]:
    return [(name, pod) for name in state.changes.drain for pod in _pods_on(state, name) if _is_drained(pod)]


def _is_drained(pod: PlanPod) -> bool:
    return pod.owner is None or pod.owner.kind not in _OF_THE_NODE


def _evict(state: PlanState, pod: PlanPod, node: str) -> bool:
    if not state.cluster.may_evict(pod.pod):
        return False
    return state.cluster.delete(pod.pod.uid, Gone.EVICTED, reason(Code.NODE_DRAINED, node=node))


def _pods_on(state: PlanState, node: str) -> list[PlanPod]:
    return [pod for pod in state.cluster.pods.values() if pod.pod.pod.node_name == node and not pod.pod.pod.finished]
