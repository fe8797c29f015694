"""How a body's needs stand: open, or blocked, or failed for good."""

from __future__ import annotations

from collections.abc import Iterable

from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import Blocked, Done, Id, Need, Outcome, Status, Verdict
from extender.fixpoint.things import FAILED, MET, Node, Things, retired

#: Which verdict is told if a node has got several.
_DOMINANT = (Verdict.FAILED, Verdict.ABSENT, Verdict.UNREADY, Verdict.CYCLE)


def gate(things: Things[Id], reasons: Reasons[Id], node: Node[Id], needs: tuple[Need[Id], ...]) -> Outcome[Id] | None:
    """See `Visit.gate`. A verdict beats later news, so that the outcome does not depend on when the body runs."""
    declare(node, needs)
    if node.verdicts and (failure := _by_verdict(reasons, node, needs)) is not None:
        return failure
    outstanding: list[Need[Id]] = []
    failed = 0
    for need in needs:
        answer = things.answer(need)
        if answer is not MET and not (node.verdicts and retired(node, need)):
            outstanding.append(need)
            failed += answer is FAILED
    if not outstanding:
        return None
    if failed < len(outstanding):
        blocked = Blocked(tuple(outstanding))
        node.all_open = None if failed else (things.generation, blocked.needs)
        return blocked
    return Done(Status.FAILED, reasons.of_failed(need.id for need in outstanding))


def declare(node: Node[Id], needs: Iterable[Need[Id]]) -> None:
    """Note what the node needs: what it declared in an earlier run is forgotten."""
    if node.fresh:
        node.forget_needs()
        node.fresh = False
    node.declare(needs)


def _by_verdict(reasons: Reasons[Id], node: Node[Id], needs: tuple[Need[Id], ...]) -> Done[Id] | None:
    for verdict in _DOMINANT:
        ids = [need.id for need in needs if node.verdicts.get(need.id) is verdict]
        if ids:
            return Done(Status.FAILED, reasons.of_verdict(node, verdict, ids))
    return None
