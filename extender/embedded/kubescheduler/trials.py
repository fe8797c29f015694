"""What preemption's dry run found on each node for pods of one shape, kept until something on the node changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.cluster import Cluster, NodeOrder
from extender.embedded.kubescheduler.extenders import Victims
from extender.embedded.kubescheduler.filters import Refusal
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.views import Follower, shape_of

_MOST_SHAPES = 64


class Trials:
    """Of one shape. `known` has, by the node's position in `order`, what was found there; None: to be found."""

    def __init__(self, cluster: Cluster) -> None:
        self._follower = Follower(cluster)
        self._budgets: tuple[Budget, ...] = ()
        self._barren: tuple[list[int], Mapping[Refusal, int]] | None = None
        self.known: list[Victims | Refusal | None] = []

    @property
    def order(self) -> NodeOrder:
        return self._follower.order

    def catch_up(self, budgets: tuple[Budget, ...]) -> None:
        """Forget what may be found otherwise now."""
        changed = self._follower.changed()
        if changed is None or budgets != self._budgets:
            self.known = [None] * len(self.order.infos)
            self._budgets, self._barren = budgets, None
            return
        for at in changed:
            self.known[at] = self._barren = None

    def barren(self, potential: Sequence[int]) -> Mapping[Refusal, int] | None:
        """The refusals if all these nodes are known to help nobody."""
        if self._barren is None or self._barren[0] != list(potential):
            return None
        return self._barren[1]

    def remember_barren(
        self, potential: Sequence[int], refusals: Mapping[Refusal, int], *, is_general: bool
    ) -> Mapping[Refusal, int]:
        """`is_general`: the same holds for every pod of the shape."""
        self._barren = (list(potential), refusals) if is_general else None
        return refusals


class TrialsOfShapes:
    """The trials of the shapes that were tried last."""

    def __init__(self, cluster: Cluster, budgets: Mapping[str, Budget]) -> None:
        self._cluster = cluster
        self._budgets = budgets
        self._trials: OrderedDict[Hashable, Trials] = OrderedDict()

    def of(self, pod: SchedPod) -> Trials:
        shape = shape_of(pod)
        found = self._trials.setdefault(shape, Trials(self._cluster))
        self._trials.move_to_end(shape)
        if len(self._trials) > _MOST_SHAPES:
            self._trials.popitem(last=False)
        found.catch_up(tuple(self._budgets.values()))
        return found
