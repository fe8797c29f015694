"""What the in-tree filters say of all nodes to pods of one shape, kept from one attempt to the next.

    attempt of a pod --> view of its shape: asks the filters again of the nodes that changed since
                              |             the last attempt of a pod of this shape
                              v
                           Survey: a refusal or None for each node, the feasible nodes, how often each refusal

A shape is everything that the in-tree filters read of a pod, except its UID. The UID matters only on a node that is
nominated for the pod itself, and a survey is `patched` there. So an answer is always the one that the filters would
give now; an attempt costs what has changed. Not thread-safe: one owner.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping, Sequence

import msgspec

from extender.embedded.kubescheduler.cluster import Cluster, NodeInfo, NodeOrder
from extender.embedded.kubescheduler.events import EXTENDER
from extender.embedded.kubescheduler.filters import Refusal, resources_refusal, room_refusal, static_refusal
from extender.embedded.kubescheduler.model import SchedNode, SchedPod

#: Shapes that are remembered. One costs some 50 bytes a node.
_MOST_SHAPES = 256
#: More changes than this share of the nodes: all are looked at again.
_MANY = 2

_Static = list[tuple[SchedNode, Refusal | None] | None]


def shape_of(pod: SchedPod) -> Hashable:
    """Equal for pods to which the filters and preemption's dry run answer the same."""
    return (*_static_shape(pod), pod.pod.requests, pod.host_ports, pod.priority)


def _static_shape(pod: SchedPod) -> tuple[Hashable, ...]:
    return (pod.node_selector, pod.affinity, pod.tolerations, pod.pod.node_name)


class Follower:
    """Tells which nodes have changed since it was asked last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._mark = -1
        self.order = NodeOrder(())

    def changed(self) -> Sequence[int] | None:
        """Positions in `order`, each once; None: everything, and `order` may be another one."""
        cluster, order, mark = self._cluster, self._cluster.order, self._mark
        if mark == cluster.mark and order is self.order:
            return ()
        names = cluster.changed_since(mark) if mark >= 0 and order is self.order else None
        self._mark, self.order = cluster.mark, order
        if names is None or len(names) * _MANY > len(order.infos) + 2:
            return None
        position = order.position
        return [position[name] for name in dict.fromkeys(names) if name in position]


class CountedAnswer:
    """What an extender said of nodes: at which positions they are, in order, and how often it said what."""

    def __init__(self, failed: Mapping[str, str], survey: Survey) -> None:
        self.failed = failed
        self.positions = sorted(at for at in map(survey.order.position.get, failed) if at is not None)
        self.tally = {
            Refusal(EXTENDER, (text,), resolvable=True): number for text, number in Counter(failed.values()).items()
        }


class Survey:
    """The filters' answers for all nodes at one time. Do not change one that is kept: `copy` it."""

    __slots__ = ("answer", "feasible", "is_kept", "offer", "order", "resolvable", "tally", "verdicts")

    def __init__(self, order: NodeOrder, verdicts: list[Refusal | None]) -> None:
        self.order = order
        self.verdicts = verdicts
        #: Positions of nodes that take the pod, and of those where evicting pods could help, in order.
        self.feasible = array("i", [at for at, refusal in enumerate(verdicts) if refusal is None])
        self.resolvable = array("i", [at for at, refusal in enumerate(verdicts) if refusal and refusal.resolvable])
        self.tally: dict[Refusal, int] = Counter(refusal for refusal in verdicts if refusal is not None)
        #: What was made of it for extenders; for whoever makes it.
        self.offer: object = None
        #: The last answer to that, if an extender refused some of them.
        self.answer: CountedAnswer | None = None
        #: Somebody holds it, for whom it must stay as it is.
        self.is_kept = False

    def copy(self) -> Survey:
        twin = Survey(self.order, [])
        twin.verdicts, twin.tally = list(self.verdicts), dict(self.tally)
        twin.feasible, twin.resolvable = self.feasible[:], self.resolvable[:]
        return twin

    def patched(self, at: int, refusal: Refusal | None) -> Survey:
        """With another answer for one node."""
        if self.verdicts[at] == refusal:
            return self
        twin = self.copy()
        twin.set(at, refusal)
        return twin

    def set(self, at: int, refusal: Refusal | None) -> None:
        before = self.verdicts[at]
        if before == refusal:
            return
        self.verdicts[at] = refusal
        self.offer = self.answer = None
        _move(self.feasible, at, was=before is None, becomes=refusal is None)
        _move(
            self.resolvable,
            at,
            was=before is not None and before.resolvable,
            becomes=refusal is not None and refusal.resolvable,
        )
        if before is not None:
            self._count(before, -1)
        if refusal is not None:
            self._count(refusal, 1)

    def _count(self, refusal: Refusal, change: int) -> None:
        self.tally[refusal] = self.tally.get(refusal, 0) + change
        if not self.tally[refusal]:
            del self.tally[refusal]

    def walk(self, start: int, wanted: int) -> tuple[Sequence[int], int]:
        """The first `wanted` feasible nodes from `start` on, around the end, and how many nodes were looked at."""
        feasible, total = self.feasible, len(self.verdicts)
        first = bisect_left(feasible, start)
        found = feasible[first:] + feasible[:first] if first else feasible
        if len(found) < wanted:
            return found, total
        found = found[:wanted]
        return found, ((found[-1] - start) % total + 1 if found else 0)

    def within(self, positions: array[int], start: int, looked_at: int) -> Sequence[int]:
        """Those of the positions, in order, that are among the nodes that were looked at."""
        total = len(self.verdicts)
        if looked_at == total:
            return positions
        end = start + looked_at
        head = positions[: bisect_left(positions, end - total)] if end > total else positions[:0]
        return head + positions[bisect_left(positions, start) : bisect_left(positions, min(end, total))]


def _move(positions: array[int], at: int, *, was: bool, becomes: bool) -> None:
    if was == becomes:
        return
    where = bisect_left(positions, at)
    if was:
        del positions[where]
    else:
        positions.insert(where, at)


class View:
    """The survey of one shape, and the scores of its feasible nodes."""

    def __init__(self, pod: SchedPod, cluster: Cluster, static: _Static, ignored: frozenset[str]) -> None:
        # The pod of another attempt may be nominated, and this one must see it: the view is nobody's.
        self._pod = msgspec.structs.replace(pod, pod=msgspec.structs.replace(pod.pod, uid=""))
        self._cluster = cluster
        self._static = static
        self._ignored = ignored
        self._wanted = [(name, amount) for name, amount in pod.pod.requests if amount > 0 and name not in ignored]
        self._follower = Follower(cluster)
        self._survey = Survey(NodeOrder(()), [])
        self._scores: list[int] | None = None
        self._by_score: dict[int, array[int]] | None = None

    def survey(self) -> Survey:
        """As of now. It changes with the next attempt, unless it is kept."""
        changed = self._follower.changed()
        if changed is None:
            self._survey_all()
        elif changed:
            if self._survey.is_kept:
                self._survey = self._survey.copy()
            for at in changed:
                self._update(at)
        return self._survey

    def _survey_all(self) -> None:
        order = self._follower.order
        self._static[len(order.infos) :] = ()
        self._static.extend([None] * (len(order.infos) - len(self._static)))
        interned: dict[Refusal, Refusal] = {}
        refusals = [self._refusal(at, info) for at, info in enumerate(order.infos)]
        self._survey = Survey(order, [interned.setdefault(each, each) if each else None for each in refusals])
        self._scores = self._by_score = None

    def _update(self, at: int) -> None:
        info = self._follower.order.infos[at]
        was_feasible = self._survey.verdicts[at] is None
        self._survey.set(at, self._refusal(at, info))
        if self._scores is not None:
            self._rescore(at, info, was_feasible=was_feasible)

    # -- one node -----------------------------------------------------------------------------------------

    def _refusal(self, at: int, info: NodeInfo) -> Refusal | None:
        assert info.node is not None
        known = self._static[at]
        if known is None or known[0] is not info.node:
            known = self._static[at] = (info.node, static_refusal(self._pod, info))
        return known[1] or self._room(info)

    def _room(self, info: NodeInfo) -> Refusal | None:
        """As `room_refusal` says, without its work where a look at the sums is enough."""
        nominated = self._cluster.nominated(info.name)
        if nominated or self._pod.host_ports:
            return room_refusal(self._pod, info, nominated=nominated, ignored_resources=self._ignored)
        if len(info.pods) < info.allowed_pods:
            allocatable, requested = info.allocatable, info.requested
            for name, amount in self._wanted:
                if amount > allocatable.get(name, 0) - requested.get(name, 0):
                    break
            else:
                return None
        return resources_refusal(self._pod, info, self._ignored)

    # -- scores -------------------------------------------------------------------------------------------

    def _all_scores(self) -> list[int]:
        """Of all nodes, in order; -1 where the pod is refused."""
        if self._scores is None:
            infos, pod = self._follower.order.infos, self._pod
            self._scores = [-1] * len(infos)
            for at in self._survey.feasible:
                self._scores[at] = infos[at].least_allocated(pod)
        return self._scores

    def is_of(self, survey: Survey) -> bool:
        """Whether this is the survey of the shape, and not one that was patched for one pod."""
        return survey is self._survey

    def score(self, pod: SchedPod, info: NodeInfo) -> int:
        """Of one node, which need not be the cluster's, for a pod of this shape."""
        order = self._survey.order
        at = order.position.get(info.name, -1)
        if self._scores is None or at < 0 or order.infos[at] is not info or self._scores[at] < 0:
            return info.least_allocated(pod)
        return self._scores[at]

    def best(self) -> array[int]:
        """The positions of all feasible nodes with the highest score, in order. After `survey`, before any event."""
        if self._by_score is None:
            self._by_score = {}
            scores = self._all_scores()
            for at in self._survey.feasible:
                self._by_score.setdefault(scores[at], array("i")).append(at)
        return self._by_score[max(self._by_score)]

    def _rescore(self, at: int, info: NodeInfo, *, was_feasible: bool) -> None:
        scores, by_score = self._scores or [], self._by_score
        before = scores[at]
        after = scores[at] = info.least_allocated(self._pod) if self._survey.verdicts[at] is None else -1
        if by_score is None or before == after:
            return
        if was_feasible:
            _move(by_score[before], at, was=True, becomes=False)
            if not by_score[before]:
                del by_score[before]
        if after >= 0:
            _move(by_score.setdefault(after, array("i")), at, was=False, becomes=True)


class Views:
    """The views of the shapes that were tried last."""

    def __init__(self, cluster: Cluster, ignored: frozenset[str]) -> None:
        self._cluster = cluster
        self._ignored = ignored
        self._views: OrderedDict[Hashable, View] = OrderedDict()
        self._static: OrderedDict[Hashable, _Static] = OrderedDict()

    def of(self, pod: SchedPod) -> View:
        shape = shape_of(pod)
        view = self._views.get(shape)
        if view is None:
            view = self._views[shape] = View(pod, self._cluster, self._static_of(pod), self._ignored)
            if len(self._views) > _MOST_SHAPES:
                self._views.popitem(last=False)
        self._views.move_to_end(shape)
        return view

    def _static_of(self, pod: SchedPod) -> _Static:
        """What does not depend on pods is common to shapes that differ only in what they request."""
        shape = _static_shape(pod)
        static = self._static.setdefault(shape, [])
        self._static.move_to_end(shape)
        if len(self._static) > _MOST_SHAPES:
            self._static.popitem(last=False)
        return static
