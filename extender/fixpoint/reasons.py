"""Reasons of failures, with their root causes: made here only, so that each says the same thing the same way.

A node that has failed is not run again as long as it would fail again, though what is at fault may change meanwhile:
`refresh` tells all reasons by what is at fault in the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from extender.fixpoint.records import Code, Id, Reason, Verdict, named
from extender.fixpoint.things import Answer, Node, Things

_CODES = {
    Verdict.FAILED: Code.DEPENDENCY_FAILED,
    Verdict.ABSENT: Code.NOT_FOUND,
    Verdict.UNREADY: Code.NOT_READY,
    Verdict.CYCLE: Code.CYCLE,
}


class Reasons(Generic[Id]):
    """`most`: how many root causes a reason keeps."""

    def __init__(self, things: Things[Id], most: int) -> None:
        self._things = things
        self._most = most
        #: Of `refresh`: what is told instead of the reasons with which the nodes have ended.
        self._renewed: dict[Id, Reason[Id]] = {}

    def of_verdict(self, node: Node[Id], verdict: Verdict, ids: Iterable[Id]) -> Reason[Id]:
        """The reason of a node whose needs on these ids have got this verdict."""
        code = _CODES[verdict]
        because = tuple(sorted(set(ids)))
        if code is Code.DEPENDENCY_FAILED:
            return self.of_failed(because)
        if code is Code.CYCLE:
            cycle = node.cycle
            assert cycle is not None, f"{node.id} has no cycle"
            return Reason(code, cycle.text, because, cycle.root[: self._most], cycle.text, cycle.path)
        said = "not found" if code is Code.NOT_FOUND else "never became ready"
        return Reason(code, f"{said}: {named(because)}", because, because[: self._most], said)

    def of_failed(self, ids: Iterable[Id], text: str = "", code: Code = Code.DEPENDENCY_FAILED) -> Reason[Id]:
        """The reason of a node that fails because these ids have failed."""
        because = tuple(sorted(set(ids)))
        roots: set[Id] = set()
        first: tuple[Id, str] | None = None
        for key in because:
            root, said = self._root(key)
            roots.update(root)
            if first is None or root[0] < first[0]:
                first = (root[0], said)
        root = tuple(sorted(roots)[: self._most])
        said = first[1] if first else ""
        return Reason(code, text or _sentence(because, root, said), because, root, said)

    def refresh(self, nodes: Iterable[Node[Id]]) -> dict[Id, Reason[Id]]:
        """Return the reasons of the failed nodes as they are now, each made after those of what made it fail.

        The nodes keep the reasons with which they ended: these say on what they recover. Time O(nodes + edges).
        """
        self._renewed = {}
        entered: set[Id] = set()
        for start in nodes:
            stack = [start]
            while stack:
                node = stack[-1]
                if node.id not in entered:
                    entered.add(node.id)
                    stack.extend(each for each in self._at_fault(node) if each.id not in entered)
                else:
                    self._renew(stack.pop())
        return self._renewed

    def _at_fault(self, node: Node[Id]) -> list[Node[Id]]:
        things = [self._things.get(key) for key in node.reason.because] if node.reason is not None else []
        return [thing.node for thing in things if thing.node is not None and thing.node.reason is not None]

    def _renew(self, node: Node[Id]) -> None:
        reason = node.reason
        if reason is None:
            return
        self._renewed[node.id] = reason
        if reason.code not in (Code.NOT_FOUND, Code.NOT_READY, Code.DEPENDENCY_FAILED):
            return
        answers = {key: self._things.answer_of(node, key) for key in reason.because}
        failed, absent, pending = (
            [key for key, answer in answers.items() if answer is wanted]
            for wanted in (Answer.FAILED, Answer.ABSENT, Answer.PENDING)
        )
        if absent and (reason.code is Code.NOT_FOUND or not failed):
            self._renewed[node.id] = self.of_verdict(node, Verdict.ABSENT, absent)
        elif failed:
            own = reason.code is Code.DEPENDENCY_FAILED and reason.text != _sentence(
                reason.because, reason.root, reason.root_text
            )
            self._renewed[node.id] = self.of_failed(failed, reason.text if own else "")
        elif pending:
            self._renewed[node.id] = self.of_verdict(node, Verdict.UNREADY, pending)

    def _root(self, key: Id) -> tuple[tuple[Id, ...], str]:
        thing = self._things.by_id.get(key)
        reason = thing.node.reason if thing is not None and thing.node is not None else None
        reason = self._renewed.get(key, reason)
        return (reason.root, reason.root_text) if reason is not None and reason.root else ((key,), "failed")

    def completed(self, node: Node[Id], reason: Reason[Id] | None) -> Reason[Id]:
        """The reason that a body gave, with its root cause."""
        if reason is None:
            reason = Reason(Code.FAILED)
        if reason.root:
            return reason
        if reason.because:
            return self.of_failed(reason.because, reason.text, reason.code)
        return Reason(reason.code, reason.text, (), (node.id,), reason.text)


def _sentence(because: tuple[Any, ...], root: tuple[Any, ...], said: str) -> str:
    return f"{named(because)} failed; root cause: {named(root)}: {said}"
