"""What people read about pods that wait: sentences about one, and a list of all with their root causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from algorithm.reasons import Reason
from extender.ordering.records import GROUP, POD, Dependency, PodKey, Target
from extender.ordering.shares import BOUND, READY, SUCCEEDED, Standing
from extender.ordering.state import EngineState, Phase, Waiting

#: How many pods of a target are named.
MOST_NAMED = 3


class BlockedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that is held back. `root`: the object because of which that does not end by itself; None: it only waits."""

    key: PodKey
    uid: str
    reason: Reason
    root: Target | None = None
    is_gated: bool = False


def blocked_pods(state: EngineState) -> Iterator[BlockedPod]:
    """All pods that are held back, in the order in which they were seen first."""
    for uid, waiting in state.waiting.items():
        if waiting.held is not None:
            record = waiting.record
            yield BlockedPod(record.key, uid, waiting.held, waiting.root, record.is_gated)


class Explainer:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def explain(self, key: PodKey) -> list[str]:
        """Return sentences that say what a pod waits for, and why; [] for a pod that is not known."""
        tree = self._state.tree
        uid = tree.uids.get(key)
        if uid is None:
            return []
        waiting = self._state.waiting.get(uid)
        if waiting is None:
            node = tree.pods[uid].node
            return [f"It is on node {node}: it waits for nothing." if node else "It has ended, or is being deleted."]
        if waiting.phase is Phase.WAITING:
            return list(self._why_it_waits(waiting))
        return list(_after_release(waiting))

    def _why_it_waits(self, waiting: Waiting) -> Iterator[str]:
        if not self._state.is_synced:
            yield "Not all pods and workloads of the cluster are known yet."
            return
        if waiting.held is None:
            yield "It is not held back."
            return
        yield _sentence(waiting.held.text)
        declared = self._declared_by(waiting)
        for target, _ in waiting.unknown:
            yield f"{target} is not known yet: it may declare more."
        open_ones = {each for clause in waiting.unmet for each in clause}
        for each in waiting.after:
            yield self._about(each, waiting, declared.get(each, ""), is_open=each in open_ones)
        if waiting.root is not None:
            yield f"The root cause is {waiting.root}."
        if waiting.error:
            yield f"A write failed: {waiting.error}. It is tried again."

    def _declared_by(self, waiting: Waiting) -> dict[Dependency, str]:
        """The objects that declare dependencies which the pod inherits."""
        tree = self._state.tree
        found: dict[Dependency, str] = {}
        for key in tree.above(waiting.record):
            node = tree.nodes.get(key)
            of_node = node.record.after if node and node.record else ()
            of_part = tree.parts[key[0]][0].after if key[0] in tree.parts else ()
            for each in (*of_node, *of_part):
                if each not in waiting.record.after:
                    found.setdefault(each, f", as {key[0]} declares")
        return found

    def _about(self, dependency: Dependency, waiting: Waiting, declared: str, *, is_open: bool) -> str:
        target = dependency.target
        what = f"{target} {dependency.state}{declared}:"
        if dependency.key in waiting.met:
            return f"{what} met."
        standing = self._state.tree.standing(target)
        if not standing.exists:
            waived = " It is optional and not waited for any more." if not is_open else ""
            return f"{what} it does not exist{self._not_followed(target)}.{waived}"
        if standing.failed:
            root = "" if standing.root in (None, target) else f"{standing.root}: "
            return f"{what} it failed: {root}{standing.failed}."
        if not is_open:
            return f"{what} another alternative is met."
        return f"{what} not yet{self._progress(target, standing)}.{self._who_waits(target)}"

    def _not_followed(self, target: Target) -> str:
        if target.kind in self._state.kinds or target.kind in (GROUP, POD) or "/" in target.name:
            return ""
        return f", as far as is known: objects of kind {target.kind} are not followed"

    def _progress(self, target: Target, standing: Standing) -> str:
        tree = self._state.tree
        node = tree.node_of(target)
        if target.kind == POD or node is None:
            return "; it is bound" if standing.scheduled else ""
        needed, counts = tree.expected(node), node.counts
        return f"; of {needed} pods {counts[BOUND]} are bound, {counts[READY]} ready, {counts[SUCCEEDED]} succeeded"

    def _who_waits(self, target: Target) -> str:
        """Which pods of a target wait themselves."""
        state = self._state
        if target.kind == POD:
            uid = state.tree.uids.get(PodKey(target.namespace, target.name), "")
            found: Iterable[str] = [uid]
        else:
            node = state.tree.node_of(target)
            found = node.waiting if node else []
        names = []
        for uid in found:
            other = state.waiting.get(uid)
            if other and other.held:
                names.append(f" {other.record.key.target} {_verb(other.held.text)}.")
            if len(names) == MOST_NAMED:
                break
        return "".join(names)


def _verb(text: str) -> str:
    return text if text.startswith("waits") else f"waits: {text}"


def _sentence(text: str) -> str:
    subject = "Its" if text.startswith("dependencies") else "It"
    return f"{subject} {text}."


def _after_release(waiting: Waiting) -> Iterator[str]:
    if waiting.phase is Phase.FREE:
        yield "Nothing holds it back: neither it nor what it belongs to declares anything."
        return
    if waiting.phase is Phase.RELEASED:
        yield "Nothing holds it back: what it declares was met, or it declares nothing."
        return
    yield "What it waited for is met. " + (
        "Its scheduling gate is being removed." if waiting.record.is_gated else "That is being recorded on it."
    )
    if waiting.error:
        yield f"A write failed: {waiting.error}. It is tried again."
