"""READ FIRST: the contract between the extender and a scheduling algorithm.

An algorithm answers one question: which node does this pod go to? The extender does the rest: HTTP, caches, holds,
binding, retries, faults. An algorithm sees these states of a pod:

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

A pod is ALLOCATED as soon as the extender accepts your `Bind` (it then proposes the node to kube-scheduler), not only
when the API server confirms the binding. The algorithm does not see the difference.

Guarantees that the extender gives
----------------------------------
* **Never concurrent.** No method is called while another one runs. You need no locks.
* **Ordered and once.** For each pod (by UID): `add_allocated_pod` exactly once per allocation, `delete_allocated_pod`
  exactly once for each of these, with the very record that the add (or the last `update_allocated_pod`) had. The same
  holds for the unallocated pair. A pod is never in both sets. `add_allocated_pod` is preceded by
  `delete_unallocated_pod` *only if the pod disappears*: going from unallocated to allocated is the one call.
* **All pods that take room are reported.** Pods that are not yours (those of other schedulers, DaemonSets) are reported
  as allocated too. Only your pods are reported as unallocated and passed to `schedule`. A finished pod is reported as
  deleted.
* **Read-only records.** Pod and Node are immutable; so are the results you return.
* **An allocated record carries the decision.** `node_name` is set and the annotations of your `Bind` are merged into
  `annotations`, now and after a restart. Keep there what you must remember. Trust these annotations only on pods that
  have a node: anyone can write annotations on a pod that waits.
* **Nodes may be unknown.** A pod may be allocated on a node before `add_node` for it, or after `delete_node`.
* **Order at start.** All nodes come first, then all bound pods, in any order, then the rest.

Promises that an algorithm makes
--------------------------------
* **schedule leaves no trace.** It may be called hypothetically (kube-scheduler tries and abandons, `waggle plan`
  asks "what if"). A decision takes effect only with `add_allocated_pod` (or `add_preempting_pod`). Caches that cannot
  be observed are fine.
* **An exception changes nothing.** A method that raises leaves your state as it was. Raise `PodRefused` when the pod
  itself is declared wrongly (its author reads your text). Any other exception is reported as a bug of the algorithm.
* **Only what was offered.** `Bind.node` is one of `suggested_nodes`; victims have lower priority than the pod, and
  run on `suggested_nodes` unless they are in a gang, which may have to go as a whole. The extender refuses another node
  and other priorities; it passes kube-scheduler no victims on nodes that were not offered. `unoffered` declares the
  pods for which this promise is not made. In FILTERING, a pod may insist on the plan that was accepted for it or its
  gang, whatever is offered.
* **No victims where preemption is forbidden.** A pod whose `may_preempt` is false (`preemptionPolicy: Never`) gets no
  victims, in no phase, also as a member of a gang.
* **Deterministic.** The same calls give the same answers, in every process. Sort sets before you iterate over them; use
  no clock and no random numbers. Otherwise a recording cannot be replayed.
* **Fast.** kube-scheduler waits while you decide. Update incrementally what you would otherwise recompute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

import msgspec

from algorithm.gauges import Gauge
from algorithm.model import Node, Pairs, Pod
from algorithm.reasons import Reason
from algorithm.suggested_nodes import SuggestedNodes

__all__ = [
    "Bind",
    "GangInfo",
    "InvalidArgument",
    "MemberPlan",
    "PageNotFound",
    "Phase",
    "PodDescription",
    "PodRefused",
    "Preempt",
    "ScheduleResult",
    "SchedulerAlgorithm",
    "SuggestedNodes",
    "Unoffered",
    "Victim",
    "Wait",
]


class Phase(StrEnum):
    """Why `schedule` is called."""

    #: Find a place. `suggested_nodes` are the nodes that kube-scheduler's own plug-ins accept.
    FILTERING = "Filtering"
    #: No node was free: which pods to evict? `suggested_nodes` are those where kube-scheduler's own plug-ins say that
    #: evicting pods could make room.
    PREEMPTING = "Preempting"
    #: No node was free, and the extender evicts by itself. Plan at once for the pod and for as many pods of its gang
    #: as must have places together. `suggested_nodes` are those that kube-scheduler's own plug-ins accept, now or once
    #: others have gone. `Bind` if there is room after all. An algorithm without gangs answers as in PREEMPTING.
    EVICTING = "Evicting"


class Bind(msgspec.Struct, frozen=True, tag=True):
    """The pod goes to `node`. `annotations` are written on the pod atomically with its binding."""

    node: str
    annotations: Pairs = ()


class Victim(msgspec.Struct, frozen=True, order=True):
    """A pod to evict: the node that it runs on, and its UID."""

    node: str
    uid: str


class MemberPlan(msgspec.Struct, frozen=True):
    """The part of a plan that is for one waiting pod: it goes to `node` ("": open) when its `victims` have gone."""

    uid: str
    node: str
    victims: tuple[Victim, ...] = ()


class Preempt(msgspec.Struct, frozen=True, tag=True):
    """Evicting `victims` makes room for the pod. They may run on several nodes (a gang's victims do).

    kube-scheduler evicts on *one* node per pod. Name all victims that the plan needs for this pod nevertheless. An
    empty tuple means that nothing more has to be evicted for this pod, which waits until others are gone. `node` is
    where the pod is to go then, "" if that is open.

    In EVICTING, `gang_members` are the other waiting pods that the plan makes room for. The extender evicts for all of
    them or for none, so name no victim that the plan as a whole does not need. A victim may already be being deleted:
    the extender then waits for it.
    """

    victims: tuple[Victim, ...]
    reason: Reason
    node: str = ""
    gang_members: tuple[MemberPlan, ...] = ()


class Wait(msgspec.Struct, frozen=True, tag=True):
    """There is no place now. `reason` is the dominant one; `nodes` gives more specific reasons for single nodes.

    An offered node that is not in `nodes` is refused with `reason`. Do not change `nodes` afterwards; if you return the
    same object again and again, make it `FixedReasons`.
    """

    reason: Reason
    nodes: Mapping[str, Reason] = {}


ScheduleResult = Bind | Preempt | Wait


class GangInfo(msgspec.Struct, frozen=True):
    """The gang of a pod, as `SchedulerAlgorithm.gang` reports it."""

    #: Pods that were refused with GANG_INCOMPLETE are requeued by this name. "" if you never refuse with that code.
    name: str
    #: Whether the pod is useful now only together with other waiting members. kube-scheduler evicts the victims of one
    #: pod at a time. So in mode `auto` the extender evicts for such a pod.
    all_or_nothing: bool


class Unoffered(StrEnum):
    """What `schedule` may choose for a pod on known nodes that were not offered: see `SchedulerAlgorithm.unoffered`."""

    NOTHING = "nothing"
    #: The node and the victims of a `Preempt`.
    PLANS = "plans"
    #: Also the node of a `Bind`. The extender refuses it unless `force_bind.when_not_offered` is configured.
    PLACES = "places"


class PodDescription(msgspec.Struct, frozen=True):
    """The description of a pod in the tables of the web page. An empty field is taken from the pod itself."""

    #: The name of the group that it runs with. Empty: its gang annotation or its PodGroup.
    group: str = ""
    #: The owner of the pod. Empty: its namespace counts.
    tenant: str = ""
    #: The priority that it asks for. None: the pod's own; `current_priority` is not called then.
    priority: int | None = None
    #: How many devices it asks for. None: what it requests of the resources with a domain in their name.
    devices: int | None = None


class PodRefused(Exception):  # noqa: N818 - a verdict about the pod, not an error of the program
    """The pod cannot be scheduled as it is declared. Its author sees `reason`. The state is unchanged."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class PageNotFound(Exception):  # noqa: N818 - what the caller asked for is wrong
    """The algorithm has no page at this path. `text` is for the caller; it may say which pages there are."""

    def __init__(self, path: str, text: str = "") -> None:
        super().__init__(text or f"there is no page /v1/inspect/{path}")
        self.text = text


class InvalidArgument(Exception):  # noqa: N818 - what the caller asked for is wrong
    """The page exists, but not for this argument in its path (an unknown name, say). The message is for the caller."""


class SchedulerAlgorithm(ABC):
    """The base class of all algorithms: eight methods to implement, and optional ones."""

    # -- the cluster ------------------------------------------------------------------------------------------

    @abstractmethod
    def add_node(self, node: Node) -> None:
        """Handle a new node. Pods may have been allocated on its name before."""

    @abstractmethod
    def update_node(self, old: Node, new: Node) -> None:
        """Handle a changed node: room, labels, health. `old` is the record given before."""

    @abstractmethod
    def delete_node(self, node: Node) -> None:
        """Handle a deleted node. Pods that were allocated on it stay allocated until they are deleted."""

    # -- pods -------------------------------------------------------------------------------------------------

    @abstractmethod
    def add_unallocated_pod(self, pod: Pod) -> None:
        """Handle a pod of yours that waits for a place, also one whose proposal came to nothing."""

    @abstractmethod
    def delete_unallocated_pod(self, pod: Pod) -> None:
        """Handle a waiting pod that went away or changed: then add_unallocated_pod follows with its new record."""

    @abstractmethod
    def add_allocated_pod(self, pod: Pod) -> None:
        """Handle a pod that takes room on `pod.node_name`: your `Bind` was accepted, or the pod was found bound."""

    @abstractmethod
    def delete_allocated_pod(self, pod: Pod) -> None:
        """Free the room of an allocated pod: it ended, was deleted, or its proposal came to nothing."""

    @abstractmethod
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        """Return where an unallocated pod goes, which pods to evict for it, or why it waits. Leaves no trace.

        `pod` is the caller's record: decide by it. add_unallocated_pod was always called before, maybe with an older
        record. Raises PodRefused if the pod can never be scheduled as declared.
        """

    # -- optional ---------------------------------------------------------------------------------------------

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:  # noqa: B027
        """Handle a change of an allocated pod (labels, resources resized in place). Its node and UID never change."""

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:  # noqa: B027
        """Keep room for this pod on `node`: your `Preempt` was accepted. Called again when the plan changes.

        Keep it until `delete_preempting_pod`, or `add_allocated_pod` for the pod, whichever comes first. Until then no
        pod of the same or a lower priority gets it. If one of a higher priority gets it, the plan may be over.
        """

    def delete_preempting_pod(self, pod: Pod) -> None:  # noqa: B027
        """Stop keeping room: the pod went away, has to wait again, or was not asked about for too long."""

    def set_protected_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """Name none of these pods as a victim in EVICTING: a PodDisruptionBudget forbids it now, or they do not go.

        The set is complete and replaces the one before. If every plan needs one of them, wait with VICTIM_PROTECTED:
        the extender asks again when the set becomes smaller. Do not use this code if an empty set gave no plan, either.
        """

    def set_lingering_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """Name none of these pods as a victim, in any phase: they were evicted and have not gone in time (a finalizer).

        The set is complete and replaces the one before. A plan that names one of them is not carried out.
        """

    def set_time(self, now: float) -> None:  # noqa: B027
        """Take the time, in seconds since 1970. Called before each call that reports a change, if the time is known.

        Use it only for what you show to people. A replay gives no time and must decide the same: decide nothing by it.
        """

    def reserved_pods(self) -> frozenset[str]:
        """UIDs of the waiting pods for which you keep room other than by a preemption (places of a gang, say).

        Called after every call that reports a change: return the same object while the set is unchanged. If
        kube-scheduler does not ask about such a pod in time, `set_lapsed_pods` names it.
        """
        return frozenset()

    def set_lapsed_pods(self, uids: frozenset[str]) -> None:  # noqa: B027
        """Keep no room for these `reserved_pods` while they wait: kube-scheduler did not ask about them in time.

        The set is complete and replaces the one before.
        """

    def gang(self, pod: Pod) -> GangInfo | None:  # noqa: ARG002
        """The gang that the pod belongs to, None if it schedules alone.

        As soon as one pod of the gang gets a decision other than GANG_INCOMPLETE, the extender requeues the pods of the
        gang that got GANG_INCOMPLETE. kube-scheduler may see no event that would make it retry them.
        """
        return None

    def priority(self, pod: Pod) -> int:
        """The priority that decides about preemption: a victim's must be lower than the preemptor's.

        An algorithm may have priorities of its own. May be called for any pod at any time, also for one that is not
        yours.
        """
        return pod.priority

    def unoffered(self, pod: Pod) -> Unoffered:  # noqa: ARG002
        """What may be chosen for this pod on nodes that were not offered.

        A declaration for the conformance kit: it decides nothing. May be called for any pod at any time.
        """
        return Unoffered.NOTHING

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:  # noqa: ARG002
        """Scores 0..10 by node name; more is better, missing is 0. Called only if the operator configured the verb."""
        return {}

    def inspect(self) -> Mapping[str, Any]:
        """The part of your state that people want to see, as JSON-ready data. Called under the lock: keep it short."""
        return {}

    def metrics(self) -> Sequence[Gauge]:
        """Current numbers for Prometheus, each shown as `waggle_<algorithm>_<name>` at `/metrics`.

        Called under the lock at each scrape, so count when things change, not here. `algorithm.gauges` has the rules; a
        gauge that breaks them is left out, and reported as a bug.
        """
        return ()

    def explain(self, pod: Pod) -> Iterable[str]:  # noqa: ARG002
        """Sentences for people: why a pod waits, and what would have to change for it to run. Numbers are welcome.

        The first sentence is the verdict: lists show it alone, so it must be understood alone. The last one is the
        nearest remedy. If you return any, pages show them instead of the nodes that come nearest by their amounts.

        Called only for pods that are unallocated now, and on a copy (`forks`), where it delays nobody and may take some
        milliseconds. An algorithm that cannot be copied is asked itself, under the lock: keep it short then, or return
        an iterator. Its sentences are made under the lock one at a time, and an empty one only lets other threads go on
        meanwhile. Anything may change in between. Changes nothing.
        """
        return ()

    def describe(self, pod: Pod) -> PodDescription:  # noqa: ARG002
        """Describe the pod for tables of the web page, where its own fields do not say it. No decision depends on it.

        May be called for any pod at any time, under the lock and for all pods of the cluster in turn: keep it to a few
        microseconds. The answer for a record must not change: it is remembered for as long as the record is.
        """
        return PodDescription()

    def current_priority(self, pod: Pod, description: PodDescription) -> int:
        """The priority that counts now, for the same tables. `description` is that of `describe`, with a priority.

        Called for each pod of each table, so look it up. Override it if a running pod can lose or regain its priority.
        """
        return pod.priority if description.priority is None else description.priority

    def page(self, path: str) -> Any:
        """A page of your own, served to people at `/v1/inspect/<path>`: JSON-ready data, or JSON as pieces of bytes.

        Pieces are made under the lock one at a time, and the lock is released in between, so that a page of megabytes
        does not delay kube-scheduler. Different pieces may therefore show different moments.

        Raises PageNotFound, or InvalidArgument for a page that exists.
        """
        raise PageNotFound(path)

    def changes_to(self, other: Self) -> Sequence[str]:  # noqa: ARG002
        """Sentences for people: what changes for the running pods if `other` replaces this algorithm.

        `other` has other settings and was given the same nodes and pods. Changes nothing; keep it short.
        """
        return ()

    def fork(self) -> Self:
        """An independent copy for what-if. Raises NotImplementedError if the algorithm does not support it."""
        raise NotImplementedError(f"{type(self).__name__} does not support what-if")

    def forks(self) -> Iterator[Callable[[], Self] | None]:
        """The same copy in pieces: None after each, but for one that yields a function, which returns the copy.

        Pieces are made under the lock, one at a time, so each should take a millisecond or two. Events come in between.
        The copy is equal to this algorithm at the moment when the function is yielded; pieces after that tidy up. The
        function is called once, without the lock, when there are no pieces left: it may take long.

        Raises NotImplementedError as `fork` does.
        """
        twin = self.fork()
        yield lambda: twin
