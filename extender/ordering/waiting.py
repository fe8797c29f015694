"""Pods from their first sight until they are bound: parked on what they wait for, and released when that is met."""

from __future__ import annotations

from itertools import islice

from algorithm.reasons import Code
from extender.ordering.events import Forget, HoldBack, LetGo, PodGone, PodSeen, TellPod
from extender.ordering.judging import Judge
from extender.ordering.records import RELEASED, PodRecord
from extender.ordering.releasing import Releasing
from extender.ordering.state import EngineState, Phase, Waiting, declaration_key

#: How many pods are looked at after one event. The others follow at once, after other events had their turn.
LOOKS = 128
#: Phases in which a pod is looked at when something changes.
UNDECIDED = (Phase.WAITING, Phase.FREE)


class PodHandler:
    """See the module."""

    def __init__(self, state: EngineState, judge: Judge, releasing: Releasing) -> None:
        self._state = state
        self._judge = judge
        self._releasing = releasing

    # -- what informers show

    def seen(self, event: PodSeen) -> None:
        """Handle a pod as a watch, a live read or the response to a write shows it."""
        state, record = self._state, event.pod
        if state.shown.is_late(record.key, record.uid, record.version):
            return
        state.shown.show(record.key, record.uid, record.version)
        older = state.tree.uids.get(record.key)
        if older is not None and older != record.uid:
            self._forget(older)
        before = state.tree.pods.get(record.uid)
        if before == record:
            self._releasing.confirm(record)
            return
        state.tree.put_pod(record)
        self._follow(record, before)
        self._releasing.confirm(record)

    def gone(self, event: PodGone) -> None:
        state = self._state
        state.shown.add_tombstone(event.uid)
        state.shown.drop(event.key, event.uid)
        if event.uid in state.tree.pods:
            self._forget(event.uid)

    def _follow(self, record: PodRecord, before: PodRecord | None) -> None:
        """Follow a pod until it is bound, ends or is deleted."""
        state, uid = self._state, record.uid
        if record.node or record.terminating or record.phase != "Pending":
            self._leave(uid)
            return
        waiting = state.waiting.get(uid)
        if waiting is None:
            waiting = state.waiting[uid] = Waiting(record, state.now)
        waiting.record = record
        if before is None or _declaration(before) != _declaration(record):
            state.looks[uid] = None
        elif waiting.phase is Phase.WAITING:
            state.tree.wait(uid, waits=True)  # what it belongs to may be counted anew

    def _leave(self, uid: str) -> None:
        """A pod waits no more, whatever it waited for."""
        state = self._state
        waiting = state.waiting.pop(uid, None)
        if waiting is None:
            return
        if waiting.unmet:
            state.graph_changed = True
        if uid in state.tree.pods:
            state.tree.wait(uid, waits=False)
        self._park_nowhere(uid)
        for timers in (state.retries, state.reads):
            timers.discard(uid)
        state.sends.pop(uid, None)
        state.looks.pop(uid, None)
        if waiting.is_judged:
            state.out.append(Forget(uid))

    def _forget(self, uid: str) -> None:
        self._leave(uid)
        self._state.tree.drop_pod(uid)

    def _park_nowhere(self, uid: str) -> None:
        self._state.index.drop(uid)
        self._state.graces.discard(uid)

    # -- looking

    def on_time(self) -> None:
        """Look at pods whose grace is over, and at some of those that something has changed for."""
        state = self._state
        for uid in state.graces.due(state.now):
            state.graces.discard(uid)
            state.looks[uid] = None
        if not state.is_synced:
            return
        for uid in list(islice(state.looks, LOOKS)):
            del state.looks[uid]
            if (waiting := state.waiting.get(uid)) and waiting.phase in UNDECIDED:
                self._look(uid, waiting)

    def _look(self, uid: str, waiting: Waiting) -> None:
        state, before = self._state, (waiting.unmet, waiting.direct)
        self._judge.judge(waiting)
        if (waiting.unmet, waiting.direct) != before:
            state.graph_changed = True
            if not waiting.unmet:
                waiting.indirect = None
        waiting.reason = self._judge.reason(waiting)
        if waiting.reason is None:
            self._release(uid, waiting)
            return
        waiting.phase = Phase.WAITING
        state.tree.wait(uid, waits=True)
        self._park(uid, waiting)
        due = self._judge.due(waiting)
        if due is None:
            state.graces.discard(uid)
        else:
            state.graces.set(uid, due)
        if not (
            waiting.after or waiting.direct or waiting.record.is_gated or waiting.record.declares or waiting.is_judged
        ):
            waiting.reason = None  # it only waits to be sure that the objects above it declare nothing
            return
        self._say(waiting)
        self._releasing.mark(waiting)

    def _park(self, uid: str, waiting: Waiting) -> None:
        targets, above = self._judge.keys(waiting)
        keys = [*map(str, targets), *map(declaration_key, above)]
        if keys:
            index = self._state.index
            assert index.park(uid, index.look(keys)), "nothing is touched between look and park"
        else:
            self._state.index.drop(uid)

    def _say(self, waiting: Waiting) -> None:
        """Tell the engine of pods and people why a pod waits, if that is news to them."""
        state, record, why = self._state, waiting.record, waiting.reason
        assert why is not None
        if waiting.held != why:
            waiting.held, waiting.is_judged = why, True
            state.out.append(HoldBack(record.key, record.uid, why, state.number))
        if waiting.told != why and state.term is not None:
            waiting.told = why
            is_warning = why.code is not Code.WAITS_FOR_DEPENDENCY
            state.out.append(
                TellPod(key=record.key, uid=record.uid, reason=why, is_warning=is_warning, term=state.term)
            )

    def _release(self, uid: str, waiting: Waiting) -> None:
        """Let a pod go. Once it is recorded on the pod, that is for ever; but there is nothing to record on a pod that
        nothing holds back: it is held back if something is declared for it before it is bound, as after a restart."""
        state, record = self._state, waiting.record
        was_free = waiting.phase is Phase.FREE
        state.tree.wait(uid, waits=False)
        self._park_nowhere(uid)
        waiting.held = waiting.told = None
        if not was_free and (waiting.is_judged or waiting.after or may_be_refused(record)):
            waiting.is_judged = True
            state.out.append(LetGo(record.key, uid, state.number))
        if RELEASED in record.met and not record.is_gated:
            waiting.phase = Phase.RELEASED
        elif record.is_gated or waiting.after or record.declares:
            waiting.phase = Phase.RELEASING
            self._releasing.begin(uid)
        else:
            waiting.phase = Phase.FREE
            self._park(uid, waiting)

    # -- leadership

    def begin_term(self) -> None:
        """Send again what a predecessor may not have sent, and tell people again why pods wait."""
        for uid, waiting in self._state.waiting.items():
            waiting.told = None
            if waiting.phase is Phase.WAITING:
                self._state.looks[uid] = None


def may_be_refused(record: PodRecord) -> bool:
    """Whether the engine of pods refuses a pod until it hears of it: it declares dependencies, or may inherit some."""
    return (
        record.declares
        or record.controlled
        or record.owner is not None
        or record.names_group
        or record.group is not None
    )


def _declaration(record: PodRecord) -> tuple[object, ...]:
    """What decides whether a pod has to wait."""
    return record.after, record.bad_after, record.declares, record.gates, record.met, record.owner_uid, record.group
