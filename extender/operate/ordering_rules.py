"""The rules of `waggle lint ordering`: declarations because of which pods would wait for ever, or not wait at all.

Each rule has an example, tests/fixtures/lint-ordering/CODE.yaml, which docs/ordering.md shows and a test checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from algorithm.reasons import Code
from extender.operate.ordering_scene import Dependant, OrderingScene
from extender.operate.rules import Severity
from extender.operate.scene_rules import Catalogue
from extender.ordering.records import AFTER, GATE

ORDERING: Catalogue[OrderingScene, Dependant] = Catalogue("dependant", "docs/ordering.md")


@ORDERING.rule_of_all(
    "WL901",
    "invalid-dependency",
    Severity.ERROR,
    happens="The declaration cannot be used: the pods are held back, and say DependencyInvalid.",
    mend="Correct the field that the message names.",
)
def invalid(scene: OrderingScene) -> Iterator[str]:
    yield from scene.faults


@ORDERING.rule(
    "WL902",
    "cycle",
    Severity.ERROR,
    happens="The pods wait for each other, directly or through others, and none of them ever starts.",
    mend="Take one of the dependencies on the path away.",
)
def cycle(_: OrderingScene, dependant: Dependant) -> Iterator[str]:
    if dependant.reason and dependant.reason.code is Code.DEPENDENCY_CYCLE:
        yield dependant.reason.text


@ORDERING.rule(
    "WL903",
    "behind-a-cycle",
    Severity.ERROR,
    happens="The pods wait for pods that will never start.",
    mend="Mend their root cause first.",
)
def behind(_: OrderingScene, dependant: Dependant) -> Iterator[str]:
    if dependant.reason and dependant.reason.code is Code.DEPENDENCY_FAILED:
        yield dependant.reason.text


@ORDERING.rule(
    "WL904",
    "not-in-these-files",
    Severity.INFO,
    happens="The pods wait for an object that is not in these files. If it is not in the cluster either, they wait for "
    "ever, and say DependencyNotFound when its grace is over.",
    mend="Check kind and name, or declare the dependency `optional: true`.",
)
def missing(_: OrderingScene, dependant: Dependant) -> Iterator[str]:
    if dependant.missing:
        names = ", ".join(map(str, dependant.missing))
        yield f"waits for {names}, which {'does' if len(dependant.missing) == 1 else 'do'} not exist"
    elif dependant.reason and dependant.reason.code is Code.DEPENDENCY_NOT_FOUND:
        yield dependant.reason.text


@ORDERING.rule(
    "WL905",
    "no-gate",
    Severity.WARNING,
    happens="The pods wait for others and have no scheduling gate. kube-scheduler asks Waggle about them again and "
    "again, another scheduler does not ask at all, and they start at once if start-up ordering is switched off.",
    mend=f"Add the gate to the pods' template: schedulingGates: [{{name: {GATE}}}].",
)
def no_gate(_: OrderingScene, dependant: Dependant) -> Iterator[str]:
    if dependant.reason and not dependant.is_gated:
        yield f"{dependant.pods} pod{'s' * (dependant.pods != 1)} without the gate {GATE}"


@ORDERING.rule(
    "WL906",
    "gate-only",
    Severity.WARNING,
    happens="The pods have the scheduling gate and wait for nothing: where start-up ordering is switched on they start "
    "at once, elsewhere never.",
    mend=f"Declare the dependencies in the annotation {AFTER}, or take the gate away.",
)
def gate_only(_: OrderingScene, dependant: Dependant) -> Iterator[str]:
    if dependant.has_gate_only:
        yield f"{dependant.pods} pod{'s' * (dependant.pods != 1)} with the gate {GATE}"
