"""Passes on what the engine of start-up ordering says about pods: to the engine of pods, and to the pods themselves.

HoldBack, LetGo  --> DependenciesChanged    --> the engine of pods, if it is in this process
Forget           --> DependenciesForgotten  --> the same
TellPod          --> an Event on the pod, and a line in the log
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from extender.core.kube_events import Events
from extender.ordering.events import Forget, HoldBack, LetGo, TellPod
from extender.scheduling.events import DependenciesChanged, DependenciesForgotten
from extender.scheduling.writes.event import RecordEvent

log = structlog.get_logger(__name__)

#: What the engine of pods hears of start-up ordering.
ToldPods = DependenciesChanged | DependenciesForgotten


def events() -> Events[RecordEvent]:
    """How Events about pods are written."""
    return Events(RecordEvent)


class PodTeller:
    """`pods` handles what the engine of pods is told; None: there is none in this process. `submit` gets the Events.
    Thread-safe."""

    def __init__(self, pods: Callable[[ToldPods], None] | None, submit: Callable[[RecordEvent], None]) -> None:
        self._pods = pods
        self._submit = submit

    def judged(self, verdict: HoldBack | LetGo) -> None:
        """Tell the engine of pods whether a pod has to wait."""
        if self._pods is not None:
            why = verdict.reason if isinstance(verdict, HoldBack) else None
            self._pods(DependenciesChanged(verdict.uid, why, verdict.number))

    def over(self, forget: Forget) -> None:
        """A pod is bound or gone: nothing more is said about it."""
        if self._pods is not None:
            self._pods(DependenciesForgotten(forget.uid))

    def tell(self, said: TellPod) -> None:
        """Log why a pod waits, and have the Event written."""
        why = said.reason
        say = log.warning if said.is_warning else log.debug
        say(f"ordering: {why.code}", pod=str(said.key), message=why.text)
        self._submit(RecordEvent(said.key.namespace, said.key.name, said.uid, why, said.is_warning, said.term))
