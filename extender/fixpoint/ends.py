"""What the end of a node rests on: the needs that were met, and those that have failed.

An end is not for ever. It is withdrawn, and the node runs again, if a need on which it relies is lost (`lost`), or if
all needs that made it fail are met after all (`recovered`). Both are also found if they happen while the body still
runs (`overtaken`).
"""

from __future__ import annotations

from typing import Generic

from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import Code, Done, Id, Limits, Need, Reason, Status, Verdict, named
from extender.fixpoint.things import ENDED, MET, PENDING, Node, Thing, Things, Wait


class Ends(Generic[Id]):
    """The index of ended nodes by the ids that could end their end."""

    def __init__(self, things: Things[Id], limits: Limits) -> None:
        self._things = things
        self._limits = limits
        self._reasons = Reasons(things, limits.roots)

    def record(self, node: Node[Id], done: Done[Id]) -> None:
        """The node ends: index what its end rests on."""
        if done.status is Status.FAILED:
            node.reason = self._reasons.completed(node, done.reason)
            node.recovers_on = {key for key in node.reason.because if not self._met(node, key)}
            for key in node.recovers_on:
                self._things.get(key).failed[node.id] = node
            return
        node.reason = None
        answer = self._things.answer
        # What is pending by now was met when the body looked, and may fail yet: its node runs again.
        node.relied = tuple({need.id: None for need in node.needs if answer(need) in (MET, PENDING)})
        for key in node.relied:
            self._things.by_id[key].dependants[node.id] = node

    def withdraw(self, node: Node[Id]) -> None:
        """The node does not end here after all."""
        for key in node.relied:
            self._things.by_id[key].dependants.pop(node.id, None)
        for key in node.recovers_on:
            self._things.by_id[key].failed.pop(node.id, None)
        node.relied, node.recovers_on = (), set()
        thing = self._things.by_id[node.id]
        if thing.status is Status.FAILED:
            thing.status, node.reason = Status.PENDING, None

    def recovered(self, thing: Thing[Id]) -> list[Node[Id]]:
        """The nodes, by id, that failed for needs which are all met now that this thing has changed."""
        return [node for _, node in sorted(thing.failed.items()) if self._recovers(node, thing)]

    def _recovers(self, node: Node[Id], thing: Thing[Id]) -> bool:
        if not self._met(node, thing.id):
            return False
        node.recovers_on.discard(thing.id)
        del thing.failed[node.id]
        if node.recovers_on or node.reason is None:
            return False
        node.recovers_on = {key for key in node.reason.because if not self._met(node, key)}
        for key in node.recovers_on:
            self._things.get(key).failed[node.id] = node
        return not node.recovers_on

    def _met(self, node: Node[Id], key: Id) -> bool:
        return self._things.answer_of(node, key) is MET

    def lost(self, thing: Thing[Id]) -> list[Node[Id]]:
        """The ended nodes, by id, that rely on this thing and may no longer."""
        return [node for _, node in sorted(thing.dependants.items()) if not self._met(node, thing.id)]

    def overtaken(self, node: Node[Id], done: Done[Id]) -> str:
        """Return why the node has to run again although it says that it has ended; "" if it has not."""
        because = done.reason.because if done.reason is not None else ()
        if done.status is Status.FAILED and because:
            late = any(key in node.verdicts or self._things.get(key).changed > node.started for key in because)
            if late and all(self._met(node, key) for key in because):
                return f"{named(because)} recovered while it ran"
            return ""
        if self._things.lost_at <= node.began:
            return ""
        changed = (need for need in node.needs if self._things.get(need.id).changed > node.began)
        lost = [need.id for need in changed if need.id not in node.verdicts and self._things.answer(need) is not MET]
        return f"{named(lost)} was lost while it ran" if lost else ""

    def stuck(self, node: Node[Id], needs: tuple[Need[Id], ...]) -> Done[Id] | None:
        """The node is blocked on nothing that is open. None: it may try again; else its end."""
        if not needs:
            return Done(Status.FAILED, Reason(Code.NO_BLOCKER, "blocked, but it does not say on what"))
        observed = tuple((need, self._things.get(need.id).changed, node.verdicts.get(need.id)) for need in needs)
        if observed != node.observed:
            node.observed, node.retries = observed, 0
            return None
        node.retries += 1
        if node.retries < self._limits.retries:
            return None
        for verdict in (Verdict.FAILED, Verdict.ABSENT, Verdict.UNREADY, Verdict.CYCLE):
            if ids := [need.id for need in needs if node.verdicts.get(need.id) is verdict]:
                return Done(Status.FAILED, self._reasons.of_verdict(node, verdict, ids))
        text = f"blocked on a finished dependency: {named(need.id for need in needs)}"
        return Done(Status.FAILED, Reason(Code.STUCK, text))

    def diverge(self, node: Node[Id], text: str) -> None:
        """The node ends because it does not come to rest."""
        node.state = ENDED
        node.reason = Reason(Code.DIVERGED, text, (), (node.id,), text)

    def waited(self, node: Node[Id], now: int, by: Id | None) -> None:
        """Note that the node was parked until now."""
        node.waits.append(Wait(tuple(node.parked_on), node.parked_at, now, by))

    def validate(self) -> None:
        """Derive the indexes again. Raises AssertionError that names the difference."""
        for thing in self._things.by_id.values():
            for key, node in thing.dependants.items():
                assert node.state is ENDED, f"{key} is {node.state}, and relies on {thing.id}"
                assert thing.id in node.relied, f"{key} does not rely on {thing.id}"
                stands = self._things.answer_of(node, thing.id)
                assert stands in (MET, PENDING), f"{key} relies on {thing.id}, which is lost"
            for key, node in thing.failed.items():
                assert node.state is ENDED, f"{key} is {node.state}, and failed because of {thing.id}"
                assert thing.id in node.recovers_on, f"{key} does not recover on {thing.id}"
        for node in self._things.nodes():
            for key in node.relied:
                assert self._things.by_id[key].dependants.get(node.id) is node, f"{node.id} is lost to {key}"
            for key in node.recovers_on:
                assert self._things.by_id[key].failed.get(node.id) is node, f"{node.id} is lost to {key}"
