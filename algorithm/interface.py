"""READ FIRST: the contract between the extender and a scheduling algorithm.

An algorithm answers one question: which node does this pod go to? The extender does the rest: HTTP, caches, holds,
binding, retries, faults. This is the life of a pod as an algorithm sees it:

                     add_unallocated_pod                     add_allocated_pod
        (unknown) ------------------------> UNALLOCATED ------------------------> ALLOCATED
            |                                |   ^  | delete_unallocated_pod       |  |  |
            |                    schedule()  |   |  v                              |  |  | update_allocated_pod
            |                  any number of |   | (unknown)                       |  |  v (still allocated)
            |                       times    +---+ <-------------------------------+  |
            |                                          delete_allocated_pod           |
            |                                       (the proposal came to nothing:    |
            |                                        add_unallocated_pod follows      |
            |                                        if the pod still exists)         |
            +-------------------------------------------------------------------------+
              add_allocated_pod (a pod found bound: recovery after a restart, or a pod
              that somebody else bound; it may never have been unallocated here)

ALLOCATED begins when the extender takes your `Bind` for real (it then offers the node to kube-scheduler), not when
the API server confirms it. You are not told the difference: allocated is allocated.

Guarantees that the extender gives
----------------------------------
* **Never concurrent.** No method is called while another one runs. You need no locks.
* **Ordered and once.** For each pod (by UID): `add_allocated_pod` exactly once per allocation, `delete_allocated_pod`
  exactly once for each of these, with the very record that the add (or the last `update_allocated_pod`) had. The same
  holds for the unallocated pair. A pod is never in both sets. `add_allocated_pod` is preceded by
  `delete_unallocated_pod` *only if the pod disappears*: going from unallocated to allocated is the one call.
* **Everything that takes room is told.** Also pods that are not yours (other schedulers', DaemonSets) come as
  allocated; only yours come as unallocated and to `schedule`. Finished pods are deleted pods.
* **Read-only records.** Pod and Node are immutable; so are the results you give.
* **An allocated record carries the decision.** `node_name` is set and the annotations of your `Bind` are merged into
  `annotations`, now and after a restart: that is where to keep what you must remember. Trust it only on pods that
  have a node: anybody can write annotations on a pod that waits.
* **Nodes may be unknown.** A pod may be allocated on a node that you have not been told of yet, or no longer.
* At start all nodes come first, then all bound pods, in any order, then the rest.

Promises that an algorithm makes
--------------------------------
* **schedule leaves no trace.** It may be called hypothetically (kube-scheduler tries and abandons, `waggle plan`
  asks "what if"). What it decides counts only once `add_allocated_pod` (or `add_preempting_pod`) comes. Caches that
  cannot be observed are fine.
* **An exception changes nothing.** If you raise, your state is as before. Raise `PodRefused` when the pod itself is
  wrong (its author reads your text); anything else is reported as a bug of the algorithm.
* **Only what was offered.** `Bind.node` is one of `suggested_nodes`; victims run on `suggested_nodes` and have lower
  priority than the pod. The extender checks, and refuses your answer otherwise.
* **Deterministic.** The same calls give the same answers, in every process: sort before you iterate over sets, don't
  ask the clock, don't draw random numbers. Otherwise nothing can be replayed.
* **Fast.** kube-scheduler stands still while you decide. Keep incrementally what you would otherwise recompute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Self, overload

import msgspec

from algorithm.gauges import Gauge
from algorithm.model import Node, Pairs, Pod
from algorithm.reasons import Reason


class Phase(StrEnum):
    """Why `schedule` is asked."""

    #: Find a place. `suggested_nodes` are the nodes that kube-scheduler's own plug-ins accept.
    FILTERING = "Filtering"
    #: Nothing was free: whom to evict? `suggested_nodes` are those where evicting pods could make room in-tree.
    PREEMPTING = "Preempting"
    #: Nothing was free, and the extender evicts by itself: plan at once for the pod and for so many of its gang as have
    #: to have a place together. `suggested_nodes` are those that kube-scheduler's own plug-ins accept, now or once
    #: others have gone. `Bind` if there is room after all. An algorithm without gangs answers as in PREEMPTING.
    EVICTING = "Evicting"


#: So many questions cost less than a set of 5,000 names.
_FEW_QUESTIONS = 3


class SuggestedNodes(Sequence[str]):
    """The names of the offered nodes: an immutable sequence with a cheap `in`.

    The order is the caller's and means nothing (kube-scheduler rotates it): sort if order decides. kube-scheduler may
    offer only a sample of what would fit, only one node (a trial), or names that you have not been told of.
    """

    __slots__ = ("_asked", "_names", "_set")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: tuple[str, ...] = tuple(names)
        self._set: frozenset[str] | None = None
        self._asked = 0

    def __contains__(self, name: object) -> bool:
        # Mostly a good guess is asked about, once or twice: comparing texts is then cheaper than hashing all of them.
        self._asked += 1
        if self._set is None and self._asked <= _FEW_QUESTIONS:
            return name in self._names
        return name in self.as_set()

    def as_set(self) -> frozenset[str]:
        """The names as a set, made once and only if somebody asks: hashing 5,000 names costs a quarter millisecond."""
        if self._set is None:
            self._set = frozenset(self._names)
        return self._set

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._names[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuggestedNodes) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(self._names[:5]) + (", ..." if len(self._names) > 5 else "")
        return f"SuggestedNodes({len(self)}: {shown})"


class Bind(msgspec.Struct, frozen=True, tag=True):
    """Put the pod on `node`. `annotations` are written on the pod atomically with its binding."""

    node: str
    annotations: Pairs = ()


class Victim(msgspec.Struct, frozen=True, order=True):
    """A pod that has to go: where it runs and its UID."""

    node: str
    uid: str


class Share(msgspec.Struct, frozen=True):
    """What a plan means for one waiting pod: it goes to `node` ("": open) when its `victims` have gone."""

    uid: str
    node: str
    victims: tuple[Victim, ...] = ()


class Preempt(msgspec.Struct, frozen=True, tag=True):
    """Room can be made by evicting `victims`, which may run on several nodes (a gang's victims do).

    kube-scheduler evicts on *one* node per pod; name all the same what the whole plan needs for this pod. Empty means:
    nothing more to evict for this pod, wait until others are gone. `node` is where the pod is to go then, "" if that
    is open.

    In EVICTING, `mates` are the other waiting pods that the plan makes room for. The extender evicts for all of them or
    for nobody, so name no victim that the whole does not need. A pod that is being deleted already may be a victim: it
    is waited for.
    """

    victims: tuple[Victim, ...]
    reason: Reason
    node: str = ""
    mates: tuple[Share, ...] = ()


class Wait(msgspec.Struct, frozen=True, tag=True):
    """No place now. `reason` is the dominant one; `nodes` says more about single nodes, where there is more to say.

    An offered node that is not in `nodes` is refused with `reason`.
    """

    reason: Reason
    nodes: Mapping[str, Reason] = {}


ScheduleResult = Bind | Preempt | Wait


class PodRefused(Exception):  # noqa: N818 - a verdict about the pod, not an error of the program
    """The pod cannot be scheduled as it is declared; its author is shown `reason`. State is unchanged."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class NoSuchPage(Exception):  # noqa: N818 - what the caller asked for is wrong
    """The algorithm has no page of this path. `text` says what there is; `status` is the HTTP status of the answer."""

    def __init__(self, path: str, text: str = "", *, status: int = 404) -> None:
        super().__init__(text or f"there is no page /v1/inspect/{path}")
        self.text, self.status = text, status


class SchedulerAlgorithm(ABC):
    """What an author implements: eight methods, and more if they are of use."""

    # -- the cluster ------------------------------------------------------------------------------------------

    @abstractmethod
    def add_node(self, node: Node) -> None:
        """A node appeared. Pods may have been allocated on its name before."""

    @abstractmethod
    def update_node(self, old: Node, new: Node) -> None:
        """A node changed: room, labels, health. `old` is the record given before."""

    @abstractmethod
    def delete_node(self, node: Node) -> None:
        """A node went away. Pods that were allocated on it stay allocated until they are deleted."""

    # -- pods -------------------------------------------------------------------------------------------------

    @abstractmethod
    def add_unallocated_pod(self, pod: Pod) -> None:
        """A pod of yours wants a place (also one whose place came to nothing)."""

    @abstractmethod
    def delete_unallocated_pod(self, pod: Pod) -> None:
        """A pod that waited went away, or changed: then add_unallocated_pod follows with its new record."""

    @abstractmethod
    def add_allocated_pod(self, pod: Pod) -> None:
        """A pod takes room on `pod.node_name`: your `Bind` was taken, or it was found bound."""

    @abstractmethod
    def delete_allocated_pod(self, pod: Pod) -> None:
        """An allocated pod ended, was deleted, or its proposal came to nothing: its room is free."""

    @abstractmethod
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        """Decide about a pod that is not allocated. See the module's text: leaves no trace.

        `pod` is the caller's record and may be newer than the one of add_unallocated_pod; that one always came before.
        Raises PodRefused if the pod can never be scheduled as declared.
        """

    # -- optional ---------------------------------------------------------------------------------------------

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:  # noqa: B027
        """An allocated pod changed where it is (labels, resources resized in place). Never its node or UID."""

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:  # noqa: B027
        """Your `Preempt` was taken: keep room for this pod on `node`. Called again when the plan changes.

        Ends with `delete_preempting_pod`, or with `add_allocated_pod` for the pod, whichever comes first.
        """

    def delete_preempting_pod(self, pod: Pod) -> None:  # noqa: B027
        """The pod no longer preempts: it went away, has to wait again, or nobody asked for too long."""

    def set_protected_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """These pods cannot be evicted now (a PodDisruptionBudget forbids it, they do not go): name none in EVICTING.

        Always the whole set, which replaces the one before. If no plan does without them, say VICTIM_PROTECTED.
        """

    def set_lingering_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """These pods were evicted, and have not gone in time (a finalizer): name none as a victim, in any phase.

        Always the whole set, which replaces the one before. A plan that names one is not carried out.
        """

    def set_time(self, now: float) -> None:  # noqa: B027
        """What time it is, in seconds since 1970: said before each call that tells you of a change, where it is known.

        Only for what you show to people. Decide nothing by it: a replay says no time, and has to decide the same.
        """

    def reserved_pods(self) -> frozenset[str]:
        """UIDs of the pods that wait and for which you keep room, other than by a preemption (seats of a gang, say).

        Asked after every event: give the same object as long as it is the same. If kube-scheduler does not come for
        such a pod in time, `set_lapsed_pods` names it.
        """
        return frozenset()

    def set_lapsed_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """Nobody came in time for the room that you keep for these pods (`reserved_pods`): keep none for them, as long
        as they wait. Always the whole set, which replaces the one before."""

    def in_gang(self, pod: Pod) -> bool:  # noqa: ARG002
        """Whether the pod is now of use only together with others that wait: kube-scheduler, which evicts one pod's
        victims at a time, is then not let do it in mode `auto`."""
        return False

    def gang(self, pod: Pod) -> str:  # noqa: ARG002
        """The name of the gang that the pod belongs to, "" if to none.

        Once one of the gang is decided about otherwise than with GANG_INCOMPLETE, those who were told that are made to
        be tried again: kube-scheduler need not see anything that concerns them.
        """
        return ""

    def priority(self, pod: Pod) -> int:
        """By what a victim is judged: it must be lower than the preemptor's. An algorithm may have its own priorities.

        Of pods that are not yours, too; may be asked for any pod at any time.
        """
        return pod.priority

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:  # noqa: ARG002
        """Scores 0..10 by node name; more is better, missing is 0. Only asked if the operator configured the verb."""
        return {}

    def inspect(self) -> Mapping[str, Any]:
        """What people want to see of your state, as JSON-ready data. Called under the lock: keep it short."""
        return {}

    def metrics(self) -> Sequence[Gauge]:
        """Numbers of now for Prometheus, each shown as `waggle_<algorithm>_<name>` at `/metrics`.

        Called under the lock at each scrape: keep what you count, don't count then. See `algorithm.gauges` for what is
        allowed; a gauge that is not sound is left out, and reported as a bug.
        """
        return ()

    def explain(self, pod: Pod) -> Iterable[str]:  # noqa: ARG002
        """Sentences for people: why a pod waits, and what would have to change for it to run. Numbers are welcome.

        Only for pods that are unallocated now. Called under the lock: keep it short. Changes nothing. Whoever says
        something is shown in place of the nodes that would come nearest by their amounts.

        Whoever needs longer gives an iterator: its sentences are made under the lock one at a time, and an empty one
        says nothing but that others may go on meanwhile. Anything may happen in between.
        """
        return ()

    def page(self, path: str) -> Any:
        """A page of your own, served to people at `/v1/inspect/<path>`: JSON-ready data, or JSON as pieces of bytes.

        Pieces are made under the lock one at a time, and it is released in between: so that a page of megabytes does
        not hold up kube-scheduler, it may show different moments in different pieces. Raises NoSuchPage.
        """
        raise NoSuchPage(path)

    def changes_to(self, other: Self) -> Sequence[str]:  # noqa: ARG002
        """Sentences for people: what it changes for the pods that run if `other` takes this one's place.

        `other` has other settings and was told the same nodes and pods. Changes nothing; keep it short.
        """
        return ()

    def fork(self) -> Self:
        """An independent copy for what-if. Raises NotImplementedError if the algorithm cannot."""
        raise NotImplementedError(f"{type(self).__name__} does not support what-if")
