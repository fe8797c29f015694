"""Whether a pod still has to wait, for what, and why that may not end. Changes nothing but what is met."""

from __future__ import annotations

from collections.abc import Iterator

from algorithm.reasons import Code, Reason, reason
from extender.ordering.records import GROUP, RELEASED, Dependency, PodRecord, Target
from extender.ordering.state import EngineState, Trouble, Waiting
from extender.ordering.tree import NodeKey

#: Which trouble counts if there are several, first the one that counts most.
_RANKS = (
    Code.DEPENDENCY_INVALID,
    Code.DEPENDENCY_CYCLE,
    Code.DEPENDENCY_FAILED,
    Code.DEPENDENCY_NOT_FOUND,
)
#: How many targets a text names.
_NAMED = 5


def rank(trouble: Trouble) -> tuple[int, Target]:
    """The order of troubles: the first one is told."""
    return _RANKS.index(trouble.code), trouble.root


class Judge:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def judge(self, waiting: Waiting) -> None:
        """Derive what a pod waits for: `after`, `met`, `unmet`, `unknown`, `missing` and `direct`."""
        record, above = waiting.record, list(self._state.tree.above(waiting.record))
        waiting.after, wrong = self._declared(record, above)
        waiting.met |= record.met
        if RELEASED in record.met:
            waiting.unknown, waiting.unmet, waiting.direct = (), (), None
            return
        waiting.unknown = tuple(key for key in above if self._is_unknown(key, waiting))
        unmet = [clause for clause in _clauses(waiting.after) if not self._is_met(clause, waiting)]
        waiting.unmet = tuple(unmet)
        targets = {each.target for each in waiting.after}
        waiting.missing = {target: since for target, since in waiting.missing.items() if target in targets}
        waiting.unseen = {key: since for key, since in waiting.unseen.items() if key in above}
        troubles = [Trouble(Code.DEPENDENCY_INVALID, root, text) for root, text in wrong]
        troubles += [found for clause in unmet if (found := self._trouble(clause, waiting))]
        waiting.direct = min(troubles, key=rank, default=None)

    def keys(self, waiting: Waiting) -> tuple[list[Target], list[Target]]:
        """What a pod that waits is parked on: targets, and what may declare other dependencies.

        Targets that were waived are among them: if one comes after all while the pod waits for others, it counts.
        """
        targets = [each.target for each in waiting.after if each.key not in waiting.met]
        return targets, [key[0] for key in self._state.tree.above(waiting.record)]

    def due(self, waiting: Waiting) -> float | None:
        """When the next grace is over; None if there is none."""
        state = self._state
        times = [
            waiting.missing[each.target] + self._grace(each)
            for clause in waiting.unmet
            for each in clause
            if each.target in waiting.missing
        ]
        times += [waiting.unseen[key] + state.grace for key in waiting.unknown]
        return min((at for at in times if at > state.now), default=None)

    def reason(self, waiting: Waiting) -> Reason | None:
        """Why a pod waits; None if it need not."""
        if trouble := min(filter(None, (waiting.direct, waiting.indirect)), key=rank, default=None):
            return _reason_of(trouble)
        if not waiting.unmet and not waiting.unknown:
            return None
        names = [f"{key[0]} to be known" for key in waiting.unknown]
        names += [_clause_text(clause) for clause in waiting.unmet]
        more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
        return reason(Code.WAITS_FOR_DEPENDENCY, dependencies=", ".join(sorted(names)[:_NAMED] + more))

    # -- what is declared

    def _declared(
        self, record: PodRecord, above: list[NodeKey]
    ) -> tuple[tuple[Dependency, ...], list[tuple[Target, str]]]:
        """All dependencies of a pod, and the errors in their declarations with the objects that declare them."""
        found = dict.fromkeys(record.after)
        wrong = [(record.key.target, record.bad_after)] if record.bad_after else []
        tree = self._state.tree
        for key in above:
            node = tree.nodes.get(key)
            if node and node.record:
                found |= dict.fromkeys(node.record.after)
                if node.record.bad_after:
                    wrong.append((key[0], node.record.bad_after))
            if key[0] in tree.parts:
                found |= dict.fromkeys(tree.parts[key[0]][0].after)
        return tuple(found), wrong

    def _is_unknown(self, key: NodeKey, waiting: Waiting) -> bool:
        """Whether an object that a pod belongs to is not known yet: it may declare dependencies."""
        state, target = self._state, key[0]
        if target.kind not in state.kinds or (target.kind == GROUP and not waiting.record.has_group_object):
            return False
        node = state.tree.nodes.get(key)
        if node and node.record:
            return False
        return state.now < waiting.unseen.setdefault(key, state.now) + state.grace

    # -- dependencies

    def _is_met(self, clause: tuple[Dependency, ...], waiting: Waiting) -> bool:
        """Whether one of the alternatives is met, or was, or is waived."""
        met = [self._is_one_met(each, waiting) for each in clause]  # all of them, since each may be recorded as met
        return any(met)

    def _is_one_met(self, dependency: Dependency, waiting: Waiting) -> bool:
        key, target = dependency.key, dependency.target
        if key in waiting.met:
            return True
        standing = self._state.tree.standing(target)
        if standing.has(dependency.state):
            waiting.met.add(key)
            return True
        if standing.exists:
            waiting.missing.pop(target, None)
            return False
        waiting.missing.setdefault(target, self._state.now)
        return dependency.optional and self._is_overdue(dependency, waiting)

    def _is_overdue(self, dependency: Dependency, waiting: Waiting) -> bool:
        since = waiting.missing.get(dependency.target)
        return since is not None and self._state.now >= since + self._grace(dependency)

    def _grace(self, dependency: Dependency) -> float:
        return self._state.grace if dependency.grace is None else dependency.grace

    def _trouble(self, clause: tuple[Dependency, ...], waiting: Waiting) -> Trouble | None:
        """Why none of the alternatives will be met; None if one may be."""
        found = [self.trouble_of(each, waiting) for each in clause]
        return None if None in found else min(filter(None, found), key=rank)

    def trouble_of(self, dependency: Dependency, waiting: Waiting) -> Trouble | None:
        """Why one dependency will not be met as things are: its target failed, or is missing; None if it may be."""
        target = dependency.target
        standing = self._state.tree.standing(target)
        if standing.failed:
            root = standing.root or target
            return Trouble(Code.DEPENDENCY_FAILED, root, f"{root} failed: {standing.failed}", target)
        if self._is_overdue(dependency, waiting):
            return Trouble(Code.DEPENDENCY_NOT_FOUND, target, f"{target} does not exist", target)
        return None


def _clauses(after: tuple[Dependency, ...]) -> Iterator[tuple[Dependency, ...]]:
    """The dependencies, of which all must be met, with the alternatives among them together."""
    alternatives: dict[str, list[Dependency]] = {}
    for each in after:
        if each.either:
            alternatives.setdefault(each.either, []).append(each)
        else:
            yield (each,)
    yield from map(tuple, alternatives.values())


def _clause_text(clause: tuple[Dependency, ...]) -> str:
    names = [f"{each.target} to be {each.state}" for each in clause[:_NAMED]]
    return " or ".join(names)


def _reason_of(trouble: Trouble) -> Reason:
    """The reason of a trouble. Two pods with the same trouble have the same one."""
    match trouble.code:
        case Code.DEPENDENCY_INVALID:
            return reason(Code.DEPENDENCY_INVALID, detail=f"{trouble.root}: {trouble.detail}")
        case Code.DEPENDENCY_CYCLE:
            return reason(Code.DEPENDENCY_CYCLE, path=trouble.detail)
        case Code.DEPENDENCY_NOT_FOUND:
            chain = f"{trouble.via}, and that for {trouble.root}"
            names = str(trouble.root) if trouble.via == trouble.root else chain
            return reason(Code.DEPENDENCY_NOT_FOUND, dependencies=names)
        case _:
            return reason(Code.DEPENDENCY_FAILED, dependencies=str(trouble.via), detail=trouble.detail)
