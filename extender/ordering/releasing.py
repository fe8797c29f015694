"""Writes that release pods, from the decision until a watch, a response or a read shows the outcome."""

from __future__ import annotations

from itertools import islice

from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.records import GATE, RELEASED, PodRecord
from extender.ordering.state import EngineState, Phase, Waiting, backed_off
from extender.ordering.writes.gate import RemoveGate
from extender.ordering.writes.met import MarkMet
from extender.ordering.writes.read import ReadPod

#: Seconds after a write, or its failure, in which a watch should show the pod. Then it is read.
PATIENCE = 5.0
#: How many writes are sent after one event. The others follow at once, after other events had their turn.
SENDS = 256


class Releasing:
    """See the module."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def begin(self, uid: str) -> None:
        """Write that a pod is released: as soon as this server leads."""
        self._state.released += 1
        self._state.waiting[uid].token = 0  # of a mark, which matters no more
        self._state.sends[uid] = None

    def mark(self, waiting: Waiting) -> None:
        """Record on a pod what is met, so that the next leader knows it if the target fails or is deleted."""
        if self._state.term is not None and not waiting.token and _unmarked(waiting):
            self._send_mark(waiting, tuple(sorted(_unmarked(waiting) | waiting.record.met)))

    def on_time(self) -> None:
        """Send what is to be sent, and read the pods whose writes no watch has shown."""
        state = self._state
        if state.term is None:
            return
        for uid in state.retries.due(state.now):
            state.retries.discard(uid)
            state.sends[uid] = None
        for uid in state.reads.due(state.now):
            state.reads.set(uid, state.now + PATIENCE)
            self._read(state.waiting[uid])
        for uid in list(islice(state.sends, SENDS)):
            del state.sends[uid]
            if (waiting := state.waiting.get(uid)) and not waiting.token:
                self._send(waiting)

    def _send(self, waiting: Waiting) -> None:
        record = waiting.record
        if waiting.phase is Phase.WAITING:
            self.mark(waiting)
        elif waiting.phase is Phase.RELEASING:
            if record.is_gated:
                self._send_removal(waiting)
            else:
                self._send_mark(waiting, (RELEASED,))

    def _send_removal(self, waiting: Waiting) -> None:
        state, record = self._state, waiting.record
        waiting.token = state.next_token()
        state.out.append(
            RemoveGate(
                token=waiting.token,
                key=record.key,
                uid=record.uid,
                place=record.gates.index(GATE),
                has_annotations=record.has_annotations,
                term=state.term or 0,
            )
        )

    def _send_mark(self, waiting: Waiting, met: tuple[str, ...]) -> None:
        state, record = self._state, waiting.record
        waiting.token = state.next_token()
        state.out.append(MarkMet(token=waiting.token, key=record.key, uid=record.uid, met=met, term=state.term or 0))

    def _read(self, waiting: Waiting) -> None:
        state, record = self._state, waiting.record
        state.out.append(ReadPod(token=state.next_token(), key=record.key, uid=record.uid))

    # -- what became of it

    def reported(self, uid: str, token: int, outcome: Outcome) -> None:
        """Handle the report of a write. The pod in it, if there is one, was seen before this call."""
        waiting = self._state.waiting.get(uid)
        if waiting is None or waiting.token != token:
            return
        waiting.token = 0
        state = self._state
        if outcome.kind is OutcomeKind.DONE:
            waiting.failures, waiting.error = 0, ""
            state.reads.set(uid, state.now + PATIENCE)
            self.confirm(waiting.record)
            return
        waiting.failures += 1
        waiting.error = outcome.detail or outcome.kind.value
        again = outcome.retry_after or backed_off(waiting.failures)
        if outcome.kind is OutcomeKind.THROTTLED:
            state.retries.set(uid, state.now + again)
        elif waiting.failures == 1:  # something has changed meanwhile, or the write has happened: look at once
            state.reads.set(uid, state.now)
        else:
            state.reads.set(uid, state.now + again)

    def read(self, uid: str, outcome: Outcome) -> None:
        """Handle the report of a read. The pod in it was seen before this call."""
        state = self._state
        waiting = state.waiting.get(uid)
        if waiting is None or uid not in state.reads:
            return
        if outcome.kind is not OutcomeKind.DONE:
            waiting.failures += 1
            state.reads.set(uid, state.now + backed_off(waiting.failures))
            return
        state.reads.discard(uid)
        if waiting.failures > 1:
            state.retries.set(uid, state.now + backed_off(waiting.failures))
        else:
            state.sends[uid] = None

    def confirm(self, record: PodRecord) -> None:
        """A pod was seen: end its release if that shows on it."""
        state, uid = self._state, record.uid
        waiting = state.waiting.get(uid)
        if waiting is None:
            return
        if waiting.phase is Phase.RELEASING and RELEASED in record.met and not record.is_gated:
            waiting.phase = Phase.RELEASED
            waiting.token = 0
        elif waiting.phase is Phase.RELEASING or waiting.token or _unmarked(waiting):
            return
        for timers in (state.retries, state.reads):
            timers.discard(uid)
        state.sends.pop(uid, None)

    # -- leadership

    def begin_term(self) -> None:
        """Send the writes of all pods that are released."""
        state = self._state
        for uid, waiting in state.waiting.items():
            if waiting.phase is Phase.RELEASING:
                state.sends[uid] = None

    def end_term(self) -> None:
        """Forget the writes under way: the next leader decides."""
        state = self._state
        for uid, waiting in state.waiting.items():
            waiting.token = waiting.failures = 0
            for timers in (state.retries, state.reads):
                timers.discard(uid)
        state.sends.clear()


def _unmarked(waiting: Waiting) -> set[str]:
    """The dependencies that are met, and are not recorded on the pod."""
    return (waiting.met & {each.key for each in waiting.after}) - waiting.record.met
