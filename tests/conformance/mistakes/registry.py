"""The mistakes: each is a small change of a right plug-in that an author could make, and the check that must name it.

    @mistake("only-offered-nodes", "takes any node that has room")
    class TakesAnyNode(Everything): ...

The name of the class becomes the Plugin itself, so that the kit finds it in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import Plugin
from extender.operate.scaffold.slots import Settings


@dataclass(frozen=True)
class Mistake:
    """One mistake. `check` has to fail; `reference` is where the kit finds the plug-in."""

    name: str
    check: str
    text: str
    reference: str
    settings: dict[str, Any] | None


MISTAKES: list[Mistake] = []
#: The world of mistakes about preemption: a cluster that is full soon.
TIGHT = "tests.conformance.mistakes.tight:WORLDS"
#: And of those about room that is kept for gangs.
OF_GANGS = "tests.conformance.mistakes.tight:OF_GANGS"


def mistake(
    check: str,
    text: str,
    *,
    model: type[BaseModel] = Settings,
    given: dict[str, Any] | None = None,
    **plugin: Any,
) -> Callable[[type[SchedulerAlgorithm]], Plugin[Any]]:
    """Register the class as a mistake that `check` must name. `model`, `given` and `plugin` are its plug-in's."""

    def registered(algorithm: type[SchedulerAlgorithm]) -> Plugin[Any]:
        MISTAKES.append(Mistake(algorithm.__name__, check, text, f"{algorithm.__module__}:{algorithm.__name__}", given))
        return Plugin(settings=model, create=algorithm, **plugin)

    return registered


def of_everything(check: str, text: str, **more: Any) -> Callable[[type[SchedulerAlgorithm]], Plugin[Any]]:
    """The same for a change of `everything.Everything`: with the annotations that it declares, and one slot a node,
    so that nodes are full and pods preempt each other."""
    declared = {"annotations": ("example.com/zone",), "decisions": ("example.com/slot",), "node_annotations": ()}
    return mistake(check, text, **{"given": {"slots": 1}, **declared, **more})
