"""PodDisruptionBudgets as preemption looks at them: which victims would violate one.

A budget that matches nothing (no selector, or an empty one) protects nobody here, nor do pods without labels. What a
budget still allows is its status; nobody here keeps it up to date (a plan does: `changed_by`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.decoding import DecodeError
from algorithm.model import lookup
from extender.embedded.kubescheduler.filters import requirement_holds
from extender.embedded.kubescheduler.model import Requirement, SchedPod


class Budget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One PodDisruptionBudget. `disrupted` names pods whose eviction the API server has counted already."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    selector: tuple[Requirement, ...] = ()
    allowed: int = 0
    #: How many healthy pods there are too few: so many have to come before any may go.
    lacking: int = 0
    disrupted: frozenset[str] = frozenset()
    #: Its selector is there and empty: the Eviction API takes that for all pods, preemption for none.
    covers_all: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def protects(self, pod: SchedPod) -> bool:
        if not self.selector or not pod.pod.labels or self.namespace != pod.key.namespace:
            return False
        labels = pod.pod.labels
        matches = all(requirement_holds(each, lookup(labels, each.key)) for each in self.selector)
        return matches and pod.key.name not in self.disrupted

    def covers(self, pod: SchedPod) -> bool:
        """Whether the Eviction API asks this budget about the pod."""
        if self.covers_all:
            return self.namespace == pod.key.namespace
        return self.protects(pod)

    def changed_by(self, change: int) -> Budget:
        """The budget after so many healthy pods more, or fewer, than now."""
        left = self.allowed - self.lacking + change
        return msgspec.structs.replace(self, allowed=max(0, left), lacking=max(0, -left))


def violating(victims: Iterable[SchedPod], budgets: Iterable[Budget]) -> set[str]:
    """The UIDs of those victims that a budget does not allow to go together with the ones before them."""
    allowed = [(budget, [budget.allowed]) for budget in budgets]
    found = set()
    for victim in victims:
        for budget, left in allowed:
            if not budget.protects(victim):
                continue
            left[0] -= 1
            if left[0] < 0:
                found.add(victim.uid)
                break
    return found


# -- the wire ------------------------------------------------------------------------------------------------


class _MetadataWire(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _RequirementWire(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _SelectorWire(msgspec.Struct, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_RequirementWire] | None = None


class _SpecWire(msgspec.Struct, gc=False):
    selector: _SelectorWire | None = None


class _StatusWire(msgspec.Struct, gc=False, rename="camel"):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, str] | None = None


class _BudgetWire(msgspec.Struct, gc=False):
    metadata: _MetadataWire
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


_budgets = msgspec.json.Decoder(_BudgetWire)


def decode_budget(raw: bytes | msgspec.Raw) -> Budget:
    """A budget from its JSON. Raises DecodeError."""
    try:
        wire = _budgets.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    metadata, status = wire.metadata, wire.status or _StatusWire()
    selector = wire.spec.selector if wire.spec else None
    return Budget(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        selector=_requirements(selector),
        allowed=status.disruptions_allowed,
        lacking=max(0, status.desired_healthy - status.current_healthy),
        disrupted=frozenset(status.disrupted_pods or ()),
        covers_all=selector is not None and not (selector.match_labels or selector.match_expressions),
    )


def _requirements(selector: _SelectorWire | None) -> tuple[Requirement, ...]:
    if selector is None:
        return ()
    labels = [Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())]
    expressions = [Requirement(e.key, e.operator, tuple(e.values or ())) for e in selector.match_expressions or ()]
    return (*labels, *expressions)
