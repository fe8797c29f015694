"""Why a pod waits or fails: the closed set of reason codes, each with its text.

A pod that waits or fails has exactly one dominant Reason. The same code appears in the HTTP answer, the pod's
Event, the label of the metric and the explain page, so that a person who saw one finds the others.

Texts are deterministic: the same situation gives the same text, names are sorted, and *no text contains a number
that changes by itself* (free amounts, times, counters). This rule is not a matter of taste: kube-scheduler writes the
text into the pod's condition, that write requeues the pod, and a text that differs each time makes kube-scheduler retry
the pod hundreds of times a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

#: A longer parameter is cut: an answer repeats the text for each of thousands of nodes.
LONGEST = 512


class Code(StrEnum):
    """Every reason there is. `code.template` is its text, with the names of the parameters it needs."""

    template: str
    preemptible: bool

    def __new__(cls, value: str, template: str, preemptible: bool = False) -> Code:
        member = str.__new__(cls, value)
        member._value_ = value
        member.template = template
        member.preemptible = preemptible
        return member

    # Reasons of the algorithm about one node. `preemptible`: evicting pods there could help.
    INSUFFICIENT = "InsufficientResource", "insufficient {resources}", True
    TOO_MANY_PODS = "TooManyPods", "too many pods", True
    NODE_LACKS_RESOURCE = "NodeLacksResource", "node never has enough {resources}"
    NODE_UNKNOWN = "NodeUnknown", "node is not known to the extender yet"
    NODE_NOT_READY = "NodeNotReady", "node is not ready"
    NODE_CORDONED = "NodeCordoned", "node is cordoned"
    HELD_FOR_OTHERS = "HeldForOthers", "room is held for {holder}", True
    PREEMPTIBLE = "Preemptible", "pods of lower priority would have to go: {victims}", True

    # Reasons of the algorithm about the pod as a whole.
    NO_NODE_FITS = "NoNodeFits", "no offered node has room for this pod", True
    GANG_INCOMPLETE = "GangIncomplete", "gang {gang} waits until {minimum} of its pods exist"
    GANG_DOES_NOT_FIT = "GangDoesNotFit", "gang {gang} does not fit as a whole: {detail}", True
    GANG_ELSEWHERE = "GangElsewhere", "gang {gang} holds a place for this pod on {node}"
    GANG_INVALID = "GangInvalid", "gang {gang} is declared wrongly: {detail}"
    WAITING_FOR_VICTIMS = "WaitingForVictims", "waits until preempted pods are gone: {victims}"
    VICTIM_PROTECTED = "VictimProtected", "pods that would have to go cannot be evicted now: {victims}"
    PRIORITY_TOO_LOW = "PriorityTooLow", "only pods of the same or higher priority are in the way", True
    CELLS_EXHAUSTED = "CellsExhausted", "no cells for affinity group {group}: {detail}"
    CELLS_BAD = "CellsBad", "affinity group {group} would need bad hardware: {detail}"
    CELLS_NOT_OFFERED = "CellsNotOffered", "affinity group {group} would need nodes that are not offered: {detail}"
    BORROWING_LIMITED = "BorrowingLimited", "affinity group {group} may not borrow more: {detail}"
    POD_INVALID = "PodInvalid", "pod cannot be scheduled as declared: {detail}"
    POD_TOO_LARGE = "PodTooLarge", "pod is larger than is accepted: {detail}"
    OTHER = "Other", "{detail}"

    # Reasons of start-up ordering.
    WAITS_FOR_DEPENDENCY = "WaitsForDependency", "waits for {dependencies}"
    DEPENDENCY_NOT_FOUND = "DependencyNotFound", "waits for {dependencies}, which does not exist"
    DEPENDENCY_FAILED = "DependencyFailed", "waits for {dependencies}, which cannot be reached any more: {detail}"
    DEPENDENCY_CYCLE = "DependencyCycle", "dependencies form a cycle: {path}"
    DEPENDENCY_INVALID = "DependencyInvalid", "dependencies are declared wrongly: {detail}"

    # Reasons of the extender itself.
    UNSCHEDULABLE = "Unschedulable", "kube-scheduler's own filters leave no node: {detail}"
    PLACED_ELSEWHERE = "PlacedElsewhere", "pod is already proposed for {node}"
    BIND_IN_FLIGHT = "BindInFlight", "pod is being bound to {node}"
    ALREADY_BOUND = "AlreadyBound", "pod is already bound to {node}"
    ALREADY_PLACED = "AlreadyPlaced", "pod already has a place on {node}, nothing needs to be preempted"
    NEVER_PROPOSED = "NeverProposed", "pod was never proposed for {node}; it has to pass filter first"
    PROPOSED_OTHER_NODE = "ProposedOtherNode", "pod was proposed for {proposed}, not for {node}"
    UID_MISMATCH = "UidMismatch", "a different pod of this name exists; its UID is {uid}"
    NOT_ASKED = "NotAsked", "kube-scheduler has not asked about it yet, and no reason of its own is known"
    REFUSED_BEFORE = "RefusedByKubeScheduler", "kube-scheduler has not asked about it, and wrote: {detail}"
    NOTHING_OFFERED = "NothingOffered", "kube-scheduler offered no node"
    POD_TERMINATING = "PodTerminating", "pod is being deleted"
    POD_FINISHED = "PodFinished", "pod has run to its end"
    NOT_READY = "NotReady", "extender is not ready: {detail}"
    ALGORITHM_FAILED = "AlgorithmFailed", "scheduling algorithm failed: {detail}"
    ALGORITHM_MISBEHAVED = "AlgorithmMisbehaved", "scheduling algorithm broke its contract: {detail}"
    HOLD_EXPIRED = "HoldExpired", "proposed for {node}, but no bind followed in time"
    VICTIM_STAYS = "VictimStays", "evicted pods are not going: {victims}"
    PREEMPTION_NOT_RECORDED = "PreemptionNotRecorded", "preemption could not be recorded on the pods: {detail}"
    PREEMPTION_FAILED = "PreemptionFailed", "preemption was given up: {detail}"
    PREEMPTED = "Preempted", "evicted to make room for {preemptor}"
    NODE_DRAINED = "NodeDrained", "evicted because node {node} is drained"
    NODE_REMOVED = "NodeRemoved", "evicted because node {node} is deleted"
    DELETED = "Deleted", "deleted with {target}"
    RECONFIGURED = "Reconfigured", "proposed under an earlier configuration, and has to be asked about again"
    NODE_DELETED = "NodeDeleted", "proposed node {node} was deleted"
    BIND_LOST = "BindLost", "pod was bound to {node} by somebody else"
    BIND_GONE = "BindGone", "pod was deleted before it could be bound"
    BIND_STALE = "BindStale", "a different pod of this name exists now"
    BIND_THROTTLED = "BindThrottled", "API server cannot take the bind now; it will be retried"
    BIND_REJECTED = "BindRejected", "API server refused the bind: {detail}"
    BIND_UNKNOWN = "BindUnknown", "outcome of the bind is not known yet; it is being verified"
    BAD_REQUEST = "BadRequest", "{detail}"


class Reason(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One code with its parameters. Make it with `reason()`, which checks that the parameters fit the template."""

    code: Code
    params: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        try:
            return _text_of(self)
        except TypeError:  # what was made without `reason()` may not be hashable
            return _text_of.__wrapped__(self)

    @property
    def preemptible(self) -> bool:
        """Whether evicting pods could help: decides between FailedNodes and FailedAndUnresolvableNodes."""
        return self.code.preemptible

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=1024)  # it is asked for three times for each refusal
def _text_of(why: Reason) -> str:
    return why.code.template.format_map(dict(why.params))


def reason(code: Code, **params: str | int | Iterable[str]) -> Reason:
    """A Reason. A parameter that is a collection of names is sorted and joined with commas.

    Raises KeyError if the template needs a parameter that is not given.
    """
    made = Reason(code, tuple(sorted((name, _shown(value)) for name, value in params.items())))
    _ = made.text
    return made


class FixedReasons(dict[str, Reason]):
    """Reasons by node name that cannot change any more. A change raises TypeError.

    An algorithm that returns the same object again as `Wait.nodes` promises by this type that it says the same: the
    answer, thousands of names long, is then encoded once. The answer with a plain dict is encoded each time.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("FixedReasons cannot be changed: make other ones")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FixedReasons], tuple[dict[str, Reason]]]:
        return FixedReasons, (dict(self),)


def _shown(value: str | int | Iterable[str]) -> str:
    text = str(value) if isinstance(value, str | int) else ", ".join(sorted(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
