"""Mistakes in the texts that say why a pod waits."""

from __future__ import annotations

import itertools
import time

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import of_everything


@of_everything("reasons-do-not-move", "says how many slots are taken")
class SaysHowManyAreTaken(Everything):
    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.OTHER, detail=f"{len(self.pods)} pods run"))


@of_everything("reasons-do-not-move", "says the how-manieth attempt this is")
class CountsAttempts(Everything):
    numbers = itertools.count()

    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.OTHER, detail=f"attempt {next(self.numbers)}: no node is free"))


@of_everything("reasons-do-not-move", "puts the repr of an object into the text: it has an address")
class ShowsAnAddress(Everything):
    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.OTHER, detail=f"refused by {object.__repr__(self)}"))


@of_everything("reasons-do-not-move", "says since when the pod waits")
class SaysSinceWhen(Everything):
    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.OTHER, detail=f"no node is free at {time.strftime('%H:%M:%S')}"))


@of_everything("reasons-do-not-move", "says how much is free on each node")
class SaysWhatIsFree(Everything):
    def refuse(self, pod: Pod) -> Wait:
        why = {name: reason(Code.OTHER, detail=f"{self.free(name, pod)} free") for name in self.nodes}
        return Wait(reason(Code.NO_NODE_FITS), why)


@of_everything("reasons-do-not-move", "returns its own dict of reasons, and changes it at the next question")
class ChangesTheReasonsLater(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        self.why: dict[str, Reason] = getattr(self, "why", {})
        self.why.clear()
        found = super().schedule(pod, suggested_nodes, phase)
        if not isinstance(found, Wait):
            return found
        self.why.update(dict.fromkeys(suggested_nodes, reason(Code.HELD_FOR_OTHERS, holder=pod.name)))
        return Wait(found.reason, self.why)
