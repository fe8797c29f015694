"""Mistakes in the Plugin itself: its settings, its file format, and the annotations that it declares."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from algorithm.model import Node, Pod
from extender.operate.scaffold.slots import Slots
from tests.conformance.mistakes.everything import SLOT, ZONE, Everything
from tests.conformance.mistakes.registry import mistake, of_everything


class DefaultOfNothing(BaseModel, extra="forbid"):
    slots: int = Field(0, ge=1)


class Lenient(BaseModel):
    slots: int = 4


class Careless(BaseModel, extra="allow"):
    slots: Any = 4


def first_line(text: str) -> Any:
    """A parser of a format of its own."""
    return {"slots": int(text.splitlines()[0].partition("=")[2])}


@mistake("settings-accepted", "the default of a setting is not valid", model=DefaultOfNothing)
class DefaultIsNotValid(Slots): ...


@mistake("settings-errors-name-fields", "takes misspelt settings without a word", model=Lenient)
class TakesMisspeltSettings(Slots): ...


@mistake("settings-errors-name-fields", "takes a setting of any type", model=Careless)
class TakesAnyType(Slots): ...


@mistake("settings-file-parsed", "a parser that raises IndexError for an empty file", parse=first_line)
class ParsesOneLine(Slots): ...


@of_everything("annotations-declared", "reads an annotation of pods that it does not declare", annotations=())
class ReadsAnUndeclaredAnnotation(Everything): ...


@of_everything("annotations-declared", "reads an annotation of nodes that it does not declare")
class ReadsAnnotationsOfNodes(Everything):
    def fits(self, node: Node, zone: str | None) -> bool:
        return node.annotations == () and super().fits(node, zone)


@of_everything("annotations-declared", "writes a decision that it does not declare", decisions=(), given={"slots": 2})
class WritesAnUndeclaredDecision(Everything): ...


@of_everything(
    "changes-do-not-raise", "reads its decision as a number, whatever stands on a pod that others have bound"
)
class TrustsDecisionsOfOthers(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        slot = pod.annotation(SLOT)
        self.highest = max(getattr(self, "highest", 0), int(slot) if slot is not None else 0)
        super().add_allocated_pod(pod)


@of_everything(
    "plugin-well-formed", "gives a length for an annotation that it does not declare", lengths={"example.com/other": 9}
)
class LengthOfAnother(Everything): ...


@of_everything("plugin-well-formed", "names one annotation as a wish and as a decision", decisions=(SLOT, ZONE))
class WishAndDecision(Everything): ...
