"""What takes part in a plan: kube-scheduler with its extender, and further engines (claims, vpods).

    PlanCluster --- node_seen, node_gone, budget_seen, pod_seen, pod_gone ---> Listener
    the run ------- step, until nobody has anything to do; then advance ------> Listener ---> writes on the PlanCluster

A listener never calls another one: all that they know of each other is what they write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode
from extender.plan.records import PlanPod


class Listener(Protocol):
    """One part of a plan. All calls come from one thread, one at a time."""

    def node_seen(self, node: SchedNode, /) -> None:
        """A node is new, or has changed."""
        ...

    def node_gone(self, name: str, /) -> None: ...

    def budget_seen(self, budget: Budget, /) -> None: ...

    def pod_seen(self, pod: PlanPod, /) -> None:
        """A pod is new, or has changed."""
        ...

    def pod_gone(self, pod: PlanPod, /) -> None:
        """The pod, as it was last, does not exist any more."""
        ...

    def load(self) -> Iterator[None]:
        """Take in the cluster as it is at the beginning, in bounded pieces."""
        ...

    def step(self) -> bool:
        """Do one bounded piece of work, such as one attempt to place a pod; False: there is nothing to do now."""
        ...

    def next_due(self) -> float | None:
        """When it has something to do without a change, on the plan's clock; None: never."""
        ...
