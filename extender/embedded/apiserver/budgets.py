"""PodDisruptionBudgets: how many pods of a budget are healthy, how many must be, how many may go.

The numbers follow k8s.io/kubernetes pkg/controller/disruption. Pods count by their controller's replicas where they
have one; a pod without one counts as itself.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.conditions import is_ready, set_condition
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.selectors import from_label_selector
from extender.embedded.apiserver.store import Change, Store, Stored
from extender.embedded.apiserver.table import POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS

_OWNERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of pods."""

    healthy: int
    desired: int
    expected: int

    @property
    def allowed(self) -> int:
        """How many healthy pods may be disrupted now."""
        return max(0, self.healthy - self.desired) if self.expected else 0


def budgets_of(store: Store, pod: Stored) -> list[Object]:
    """The budgets that cover a pod."""
    budgets = [each.fresh() for each in store.collection(POD_DISRUPTION_BUDGETS) if each.key[0] == pod.key[0]]
    return [budget for budget in budgets if _covers(budget, pod)]


def count(store: Store, namespace: str, budget: Object) -> Counts:
    """The numbers as they are now."""
    stored = [each for each in store.collection(PODS) if each.key[0] == namespace and _covers(budget, each)]
    pods = [
        pod for pod in (each.fresh() for each in stored) if pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        expected = _expected(store, namespace, pods)
        return Counts(healthy, max(0, expected - _scaled(spec["maxUnavailable"], expected)), expected)
    wanted = spec.get("minAvailable", 0)
    expected = len(pods) if isinstance(wanted, int) else _expected(store, namespace, pods)
    return Counts(healthy, _scaled(wanted, expected), expected)


def _covers(budget: Object, pod: Stored) -> bool:
    selector = budget.get("spec", {}).get("selector")
    if selector is None:
        return False
    return all(requirement.matches(pod.labels) for requirement in from_label_selector(selector))


def _expected(store: Store, namespace: str, pods: list[Object]) -> int:
    """The replicas of the pods' controllers, and the pods that have none."""
    owners: dict[tuple[str, str], int] = {}
    alone = 0
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences", []) if each.get("controller")), None)
        row = _OWNERS.get(owner["kind"]) if owner else None
        found = store.collection(row).get((namespace, owner["name"])) if row and owner else None
        if found is None or owner is None:
            alone += 1
        elif (owner["kind"], owner["name"]) not in owners:
            owners[owner["kind"], owner["name"]] = found.fresh()["spec"].get("replicas", 1)
    return alone + sum(owners.values())


def _scaled(value: int | str, total: int) -> int:
    """A number of pods, or a percentage of `total` rounded up."""
    return value if isinstance(value, int) else math.ceil(int(value.rstrip("%")) * total / 100)


class BudgetController:
    """Keeps the budgets' status as the numbers are. Works on one namespace at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.resource is PODS and not len(self._cluster.store.collection(POD_DISRUPTION_BUDGETS)):
            return
        if change.resource in (PODS, POD_DISRUPTION_BUDGETS, *_OWNERS.values()):
            yield change.new.key[0]

    def reconcile(self, key: Hashable) -> None:
        for stored in list(self._of(key)):
            budget = stored.fresh()
            before, status = budget.get("status", {}), dict(budget.get("status", {}))
            counts = count(self._cluster.store, stored.key[0], budget)
            status |= {
                "currentHealthy": counts.healthy,
                "desiredHealthy": counts.desired,
                "expectedPods": counts.expected,
                "disruptionsAllowed": counts.allowed,
                "observedGeneration": budget["metadata"].get("generation", 0),
            }
            value, reason = ("True", "SufficientPods") if counts.allowed else ("False", "InsufficientPods")
            more: Object = {"reason": reason, "message": "", "observedGeneration": status["observedGeneration"]}
            set_condition(status, "DisruptionAllowed", value, now=self._cluster.now(), **more)
            if status != before:
                self._cluster.store.put(POD_DISRUPTION_BUDGETS, {**budget, "status": status})

    def _of(self, namespace: Hashable) -> Iterator[Stored]:
        return (each for each in self._cluster.store.collection(POD_DISRUPTION_BUDGETS) if each.key[0] == namespace)
