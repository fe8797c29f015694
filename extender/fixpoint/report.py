"""What happened in a run, by node and in all. With one worker the same input gives the same bytes.

With several workers the runs, the dispatches and the waits depend on timing. All else does not: `Report.outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic

import msgspec

from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import Id, Reason, Status, Verdict
from extender.fixpoint.things import ENDED, MET, Node, Things, Wait, retired
from extender.fixpoint.waves import Before, Waves


class End(StrEnum):
    """How a node ended."""

    READY = "ready"
    FAILED = "failed"
    #: Its body has ended, and nobody has said that it is ready.
    PENDING = "pending"
    #: The run ended before it did.
    UNFINISHED = "unfinished"


class RunEnd(StrEnum):
    """How the run ended."""

    #: Nothing runs, nothing can run, and no node waits.
    CONVERGED = "converged"
    CANCELLED = "cancelled"
    #: A node was run again more often than the limits allow: see `Report.error`.
    DIVERGED = "diverged"


class NodeReport(msgspec.Struct, Generic[Id], frozen=True, kw_only=True):
    """One node."""

    id: Id
    end: End
    reason: Reason[Id] | None = None
    #: 0: it needed nothing, and no other node reported it; n: the last one that it needed, or the first one that
    #: reported it, is of wave n - 1.
    wave: int = 0
    #: How often its body was started; how often it was started or went on; how many of these were charged.
    runs: int = 0
    dispatches: int = 0
    charges: int = 0
    waits: tuple[Wait[Id], ...] = ()
    #: What the engine decided of its needs.
    verdicts: tuple[tuple[Id, Verdict], ...] = ()


class Report(msgspec.Struct, Generic[Id], frozen=True, kw_only=True, dict=True):
    """The run. `nodes` by id."""

    end: RunEnd
    #: What ended the run early; "" if it converged.
    error: str = ""
    nodes: tuple[NodeReport[Id], ...] = ()
    dispatches: int = 0
    #: How many waves of ready nodes there are.
    waves: int = 0
    #: How many verdict steps there were of each kind.
    steps: tuple[tuple[Verdict, int], ...] = ()
    #: The longest chain of ready nodes of which each needed the one before it, or was reported by it.
    critical_path: tuple[Id, ...] = ()
    #: Exceptions of bodies that were closed while they waited.
    warnings: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[Id, NodeReport[Id]]:
        """The nodes by id."""
        return {node.id: node for node in self.nodes}

    @property
    def ready(self) -> tuple[Id, ...]:
        """The ids of nodes that are ready."""
        return tuple(node.id for node in self.nodes if node.end is End.READY)

    @property
    def failed(self) -> tuple[Id, ...]:
        """The ids of nodes that have failed."""
        return tuple(node.id for node in self.nodes if node.end is End.FAILED)

    def encode(self) -> bytes:
        """The report as JSON. Ids that JSON does not know are written as texts."""
        return msgspec.json.encode(self, enc_hook=str)

    def outcome(self) -> bytes:
        """What does not depend on the number of workers or on timing, as JSON: ends, reasons, waves, verdicts."""
        nodes = [(node.id, node.end, node.reason, node.wave, node.verdicts) for node in self.nodes]
        return msgspec.json.encode((self.end, nodes, self.steps, self.critical_path), enc_hook=str)


def make_report(
    things: Things[Id],
    reasons: Reasons[Id],
    *,
    end: RunEnd,
    error: str,
    dispatches: int,
    steps: Mapping[Verdict, int],
    warnings: list[str],
) -> Report[Id]:
    """Return the report of a run that ended so."""
    nodes = sorted(things.nodes(), key=lambda node: node.id)
    renewed = reasons.refresh(nodes)
    waves = Waves(*_order(things, nodes))
    ready = [node.id for node in nodes if _end(node, things.by_id[node.id].status) is End.READY]
    path = waves.longest(ready)
    return Report(
        end=end,
        error=error,
        nodes=tuple(_node_report(things, node, waves.of[node.id], renewed.get(node.id)) for node in nodes),
        dispatches=dispatches,
        waves=len(path),
        steps=tuple(steps.items()),
        critical_path=path,
        warnings=tuple(warnings),
    )


def _node_report(things: Things[Id], node: Node[Id], wave: int, reason: Reason[Id] | None) -> NodeReport[Id]:
    return NodeReport(
        id=node.id,
        end=_end(node, things.by_id[node.id].status),
        reason=reason,
        wave=wave,
        runs=node.runs,
        dispatches=node.dispatches,
        charges=node.charges,
        waits=tuple(node.waits),
        verdicts=tuple(sorted(node.verdicts.items(), key=lambda item: item[0])),
    )


def _end(node: Node[Any], status: Status | None) -> End:
    if node.state is not ENDED:
        return End.UNFINISHED
    return End(status or Status.PENDING)


def _order(things: Things[Id], nodes: list[Node[Id]]) -> tuple[dict[Id, Before[Id]], dict[Id, list[Id]]]:
    """What came before each node, and who reported the data that nodes need.

    A need with a verdict does not count: the node did not wait for it, even if it is met by now.
    """
    before: dict[Id, Before[Id]] = {}
    data: dict[Id, list[Id]] = {}
    for node in nodes:
        needs = {need.id: None for need in node.needs if things.answer(need) is MET and not retired(node, need)}
        before[node.id] = Before(tuple(needs), tuple(things.by_id[node.id].emitters))
        for key in needs:
            if things.by_id[key].node is None:
                data[key] = sorted(things.by_id[key].emitters)
    return before, data
