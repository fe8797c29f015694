"""Calls the algorithm, and keeps the guarantees of its interface: each change once, in order, adds and deletes paired.

The driver remembers the records that it has passed on. A delete therefore names the same record as its add, and no
change is passed on twice. The algorithm promises that an exception leaves it unchanged, so a call that raises does not
count as delivered: the engine goes on, the fault is counted, and the change is *pending*. Pending changes are delivered
again before the next decision, so that one exception does not leave the algorithm's state wrong for good. Meanwhile a
node that the algorithm does not know is not offered to it: a decision about that node would rest on nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

from algorithm.gauges import Gauge, sound
from algorithm.interface import (
    Bind,
    GangInfo,
    MemberPlan,
    Phase,
    PodRefused,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Node, Pod, same_but_version
from algorithm.reasons import Code, FixedReasons, Reason, reason
from algorithm.tables import Table
from extender.core.said import plain, said_by, type_name
from extender.scheduling.faults import LONGEST_TEXT, FaultLog
from extender.scheduling.policy import Limits
from extender.scheduling.writes.preemption_mark import ANNOTATION

T = TypeVar("T")

#: Sentences about a change of the settings, and characters of each.
_MOST_CHANGES: Final = 1000
_LONGEST_CHANGE: Final = 2000
_REASONS: Final = frozenset({Reason})
#: The usual kinds of Wait.nodes.
_MAPPINGS: Final = frozenset({dict, FixedReasons})


class AlgorithmFault(Exception):  # noqa: N818
    """The algorithm raised, or broke its contract. The state is unchanged."""


class CopyFault(AlgorithmFault):
    """The algorithm raised `error` as it made its copy. It is not noted yet."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(said_by(error, LONGEST_TEXT))
        self.error = error


def made(make: Callable[[], SchedulerAlgorithm]) -> SchedulerAlgorithm:
    """Return the copy that `make` makes. Raises what that raises; TypeError for a copy that is no algorithm."""
    twin: object = make()
    if not isinstance(twin, SchedulerAlgorithm):
        raise TypeError(f"the copy is {type_name(twin)}, not an algorithm")
    return twin


def copied(make: Callable[[], SchedulerAlgorithm]) -> SchedulerAlgorithm:
    """The same for callers that do not hold the lock: raises CopyFault, which they pass on to be noted."""
    try:
        return made(make)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        failed = error
    raise CopyFault(failed)


class AlgorithmDriver:
    """The engine calls the algorithm through this driver."""

    def __init__(self, algorithm: SchedulerAlgorithm, limits: Limits | None = None) -> None:
        self.algorithm = algorithm
        self._limits = limits or Limits()
        #: The current time on the clock of the engine's `handle`; `epoch` plus it is seconds since 1970, None: unknown.
        self.now = 0.0
        self.epoch: float | None = None
        self.nodes: Table[str, Node] = Table()
        self.unallocated: Table[str, Pod] = Table()
        self.allocated: Table[str, Pod] = Table()
        self.preempting: Table[str, tuple[Pod, tuple[Victim, ...], str]] = Table()
        #: Nodes and pods of which the algorithm does not have the current record, which stands here (None: gone).
        self._pending_nodes: dict[str, Node | None] = {}
        self._pending_pods: dict[str, Pod | None] = {}
        #: How often the algorithm was called in a way that may change what it knows.
        self.calls = 0
        #: UIDs of the pods for which the algorithm keeps room besides preemptions. It changes only in calls that report
        #: a change.
        self.reserved: frozenset[str] = frozenset()
        self.fault_log = FaultLog()
        self._find_out(algorithm)

    def _find_out(self, algorithm: SchedulerAlgorithm) -> None:
        """Find out which of the methods that would be called at every change the algorithm has."""
        self._takes_time = type(algorithm).set_time is not SchedulerAlgorithm.set_time
        self._reserves = type(algorithm).reserved_pods is not SchedulerAlgorithm.reserved_pods

    @property
    def faults(self) -> int:
        """How many faults the algorithm has had."""
        return self.fault_log.total

    @property
    def last_fault(self) -> str:
        """The text of its last fault; "" if it has had none."""
        return self.fault_log.last.text if self.fault_log.last else ""

    @property
    def pending_count(self) -> int:
        """How many nodes and pods the algorithm has a wrong record of, because it raised at a change."""
        return len(self._pending_nodes) + len(self._pending_pods)

    def has_pending(self, uid: str) -> bool:
        return uid in self._pending_pods

    def pending(self) -> tuple[dict[str, Node | None], dict[str, Pod | None]]:
        """The pending nodes by name and pods by UID, with their current records. None: gone."""
        return dict(self._pending_nodes), dict(self._pending_pods)

    def take_over(self, other: AlgorithmDriver) -> None:
        """Replace the algorithm by the other driver's, with its records. The old algorithm is not called any more."""
        self.algorithm = other.algorithm
        self.nodes, self.unallocated, self.allocated = other.nodes, other.unallocated, other.allocated
        self.preempting = other.preempting
        self._pending_nodes, self._pending_pods = other._pending_nodes, other._pending_pods
        self.calls += other.calls + 1
        self.reserved = other.reserved
        self._find_out(other.algorithm)
        self.fault_log.absorb(other.fault_log)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Deliver a new or changed node. Another UID under the same name is another node."""
        self._set_pending(self._pending_nodes, node.name, node, self._reach_node(node.name, node))

    def drop_node(self, name: str) -> None:
        self._set_pending(self._pending_nodes, name, None, self._reach_node(name, None))

    def _reach_node(self, name: str, node: Node | None) -> bool:
        old = self.nodes.get(name)
        if old is not None and (node is None or old.uid != node.uid):
            if not self._deliver(self.algorithm.delete_node, old):
                return False
            del self.nodes[name]
            old = None
        if node is None or (old is not None and same_but_version(old, node)):
            return True
        if old is None:
            delivered = self._deliver(self.algorithm.add_node, node)
        else:
            delivered = self._deliver(self.algorithm.update_node, old, node)
        if delivered:
            self.nodes[name] = node
        return delivered

    # -- pods -----------------------------------------------------------------------------------------------------

    def add_unallocated(self, pod: Pod) -> None:
        """Make the pod unallocated, whatever it was before. A changed record replaces the old one."""
        if pod.uid in self._pending_pods:
            self._set_pending(self._pending_pods, pod.uid, pod, self._reach(pod.uid, pod))
        elif not self._reach_unallocated(pod):
            self._pending_pods[pod.uid] = pod

    def allocate(self, placed: Pod) -> None:
        """Allocate a pod that is not allocated yet on `placed.node_name`. Raises AlgorithmFault if the call fails."""
        if placed.uid in self.allocated or not self._allocate(placed):
            raise AlgorithmFault(self.last_fault)
        self._pending_pods.pop(placed.uid, None)

    def confirm(self, placed: Pod) -> None:
        """Make the algorithm's record of the pod match this bound one, whatever it was before."""
        delivered = self._reach_allocated(placed)
        if not delivered or self._pending_pods:
            self._set_pending(self._pending_pods, placed.uid, placed, delivered)

    def remove(self, uid: str) -> None:
        """Delete the pod, which is gone, from the algorithm."""
        self._set_pending(self._pending_pods, uid, None, self._reach_nothing(uid))

    def preempt(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        """Make the pod preempt these victims, for `node` ("" if open). Raises AlgorithmFault if the call fails."""
        if not self._claim(pod, victims, node):
            raise AlgorithmFault(self.last_fault)

    def set_protected(self, uids: frozenset[str]) -> None:
        """Set the pods that cannot be evicted now. If the call fails, plans that name them are merely refused."""
        self._deliver(self.algorithm.set_protected_pods, uids)

    def set_lingering(self, uids: frozenset[str]) -> None:
        """Set the pods that do not go when evicted. If the call fails, plans that name them are merely refused."""
        self._deliver(self.algorithm.set_lingering_pods, uids)

    def _reserved_pods(self) -> frozenset[str]:
        """Return the algorithm's reserved pods; none if the call fails."""
        try:
            return self.algorithm.reserved_pods()
        except BaseException as error:
            self._failed("reserved_pods", error)
            return frozenset()

    def set_lapsed(self, uids: frozenset[str]) -> None:
        """Set the pods whose kept room has lapsed. If the call fails, the next call includes them."""
        self._deliver(self.algorithm.set_lapsed_pods, uids)

    def stop_preempting(self, pod: Pod) -> None:
        """End the pod's preemption: it waits."""
        self._set_pending(
            self._pending_pods, pod.uid, pod, self._end_preemption(pod.uid) and self._reach_unallocated(pod)
        )

    def _end_preemption(self, uid: str) -> bool:
        claim = self.preempting.get(uid)
        if claim is not None and self._deliver(self.algorithm.delete_preempting_pod, claim[0]):
            del self.preempting[uid]
        return uid not in self.preempting

    def _claim(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> bool:
        delivered = self._deliver(self.algorithm.add_preempting_pod, pod, victims, node)
        if delivered:
            self.preempting[pod.uid] = (pod, victims, node)
        return delivered

    def _reach_unallocated(self, pod: Pod) -> bool:
        known = self.unallocated.get(pod.uid)
        if known is not None:
            return not _differs(known, pod) or self._replace_unallocated(pod)
        if not self._end_allocation(pod.uid) or not self._deliver(self.algorithm.add_unallocated_pod, pod):
            return False
        self.unallocated[pod.uid] = pod
        return True

    def _replace_unallocated(self, pod: Pod) -> bool:
        """Replace the record of a waiting pod. Its preemption, if it has one, goes on with the new record."""
        claim = self.preempting.get(pod.uid)
        if not self._reach_nothing(pod.uid) or not self._reach_unallocated(pod):
            return False
        return claim is None or self._claim(pod, *claim[1:])

    def _reach_allocated(self, placed: Pod) -> bool:
        old = self.allocated.get(placed.uid)
        if old is None or old.node_name != placed.node_name:
            return self._end_allocation(placed.uid) and self._allocate(placed)
        if not _differs(old, placed):
            return True
        delivered = self._deliver(self.algorithm.update_allocated_pod, old, placed)
        if delivered:
            self.allocated[placed.uid] = placed
        return delivered

    def _allocate(self, placed: Pod) -> bool:
        delivered = self._deliver(self.algorithm.add_allocated_pod, placed)
        if delivered:
            self.allocated[placed.uid] = placed
            self.unallocated.pop(placed.uid, None)
            self.preempting.pop(placed.uid, None)
        return delivered

    def _end_allocation(self, uid: str) -> bool:
        placed = self.allocated.get(uid)
        if placed is not None and self._deliver(self.algorithm.delete_allocated_pod, placed):
            del self.allocated[uid]
        return uid not in self.allocated

    def _reach_nothing(self, uid: str) -> bool:
        if not self._end_preemption(uid) or not self._end_allocation(uid):
            return False
        pod = self.unallocated.get(uid)
        if pod is not None and self._deliver(self.algorithm.delete_unallocated_pod, pod):
            del self.unallocated[uid]
        return uid not in self.unallocated

    # -- pending changes ---------------------------------------------------------------------------------------------

    @staticmethod
    def _set_pending(pending: dict[str, T], key: str, wanted: T, delivered: bool) -> None:
        """Add a change to the pending ones if it was not delivered, at the end; remove it if it was."""
        pending.pop(key, None)
        if not delivered:
            pending[key] = wanted

    def catch_up(self) -> None:
        """Deliver some pending changes again: a limited number, as an algorithm may fail for good."""
        for name, node in list(self._pending_nodes.items())[: self._limits.catch_up]:
            self._set_pending(self._pending_nodes, name, node, self._reach_node(name, node))
        for uid, pod in list(self._pending_pods.items())[: self._limits.catch_up]:
            self._set_pending(self._pending_pods, uid, pod, self._reach(uid, pod))

    def _reach(self, uid: str, pod: Pod | None) -> bool:
        if pod is None:
            return self._reach_nothing(uid)
        if pod.node_name:
            return self._reach_allocated(pod)
        return self._end_preemption(uid) and self._reach_unallocated(pod)

    # -- questions ------------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        """Return the algorithm's decision; Wait for a pod that it refuses (PodRefused). Raises AlgorithmFault."""
        if not nodes:
            return Wait(reason(Code.NOTHING_OFFERED))
        unknown: frozenset[str] = frozenset()
        if self._pending_nodes or self._pending_pods:
            self.catch_up()
            if unknown := self._unknown(nodes):
                nodes = self._without(nodes, unknown)
        if pod.uid not in self.unallocated or pod.uid in self._pending_pods:
            raise AlgorithmFault(self.last_fault)  # the interface promises that add_unallocated_pod came before
        self.calls += 1
        try:
            result = _checked(self.algorithm.schedule(pod, nodes, phase))
            wrong = wrong_with(result)
        except PodRefused as refused:
            wrong = "" if _is_sound_reason(refused.reason) else "PodRefused without a sound reason"
            result = Wait(refused.reason)
        except BaseException as error:
            raise AlgorithmFault(self._failed("schedule", error, pod)) from error
        if wrong:
            raise self.misbehaved("schedule returned {}", wrong, subject=pod)
        return self._about_unknown(pod, result, unknown) if unknown else result

    @property
    def unknown_nodes(self) -> frozenset[str]:
        """The nodes that exist and that the algorithm does not know, because it raised."""
        return frozenset(
            name
            for name, node in self._pending_nodes.items()
            if node is not None and ((known := self.nodes.get(name)) is None or known.uid != node.uid)
        )

    def _unknown(self, nodes: SuggestedNodes) -> frozenset[str]:
        """The nodes of this offer of which the algorithm has no record, because it raised."""
        return frozenset(name for name in self.unknown_nodes if name in nodes)

    def _without(self, nodes: SuggestedNodes, unknown: frozenset[str]) -> SuggestedNodes:
        """Return the nodes that the algorithm knows. Raises AlgorithmFault if none are left: with an error,
        kube-scheduler tries again soon, and then these nodes are delivered again."""
        known = SuggestedNodes(name for name in nodes if name not in unknown)
        if not known:
            raise AlgorithmFault(f"it failed to take in node {', '.join(sorted(unknown))}")
        return known

    def _about_unknown(self, pod: Pod, result: ScheduleResult, unknown: frozenset[str]) -> ScheduleResult:
        """Return the decision, with the reason of each node that was left out of the offer."""
        if isinstance(result, Bind) and result.node in unknown:
            raise self.misbehaved(
                "it chose node {}, of which it failed to take in the record", result.node, subject=pod
            )
        if not isinstance(result, Wait):
            return result
        why = {name: reason(Code.ALGORITHM_FAILED, detail="it failed to take in this node") for name in unknown}
        return Wait(result.reason, {**result.nodes, **why})

    def misbehaved(self, rule: str, *args: object, call: str = "schedule", subject: object = None) -> AlgorithmFault:
        """Count a breach of the algorithm's contract, and return the exception to raise.

        `rule` tells breaches apart; with `args` in its places `{}` it is the text.
        """
        text = rule.format(*args) if args else rule
        self.fault_log.breached(call, rule, text, self.now, subject)
        return AlgorithmFault(text)

    def gang(self, pod: Pod) -> GangInfo | None:
        """The pod's gang; None if it is in none, or if the call fails."""
        try:
            found: object = self.algorithm.gang(pod)
            if found is None or (isinstance(found, GangInfo) and isinstance(found.name, str)):
                return found
        except BaseException as error:
            self._failed("gang", error, pod)
            return None
        self.misbehaved("gang returned {}, not GangInfo or None", type_name(found), call="gang", subject=pod)
        return None

    def priority(self, pod: Pod) -> int:
        """The priority that decides who may preempt whom; the pod's Kubernetes priority if the call fails."""
        try:
            return int64(self.algorithm.priority(pod))
        except BaseException as error:
            self._failed("priority", error, pod)
            return pod.priority

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """Return scores by node name, 0..10; empty if the call fails.

        kube-scheduler multiplies the scores without a check, and drops the whole list if one of them is not an integer.
        """
        try:
            scores = self.algorithm.prioritize(pod, nodes)
            return {name: max(0, min(10, int(score))) for name, score in scores.items()}
        except BaseException as error:
            self._failed("prioritize", error, pod)
            return {}

    def metrics(self) -> list[Gauge]:
        """The algorithm's valid gauges; none if the call fails. Each flaw counts as a fault."""
        try:
            good, flaws = sound(self.algorithm.metrics())
        except BaseException as error:
            self._failed("metrics", error)
            return []
        for flaw in flaws:
            self.misbehaved(f"metrics returned {flaw}", call="metrics")
        return good

    def changes_to(self, other: SchedulerAlgorithm) -> tuple[str, ...]:
        """Return what the algorithm says about its replacement by the other one; that it cannot, if the call fails."""
        try:
            said = islice(self.algorithm.changes_to(other), _MOST_CHANGES)
            return tuple(plain(str(each), _LONGEST_CHANGE) for each in said)
        except BaseException as error:
            return (f"what it changes cannot be said: {self._failed('changes_to', error)}",)

    def forks(self) -> Iterator[Callable[[], SchedulerAlgorithm] | None]:
        """The pieces of the algorithm's copy. Raises NotImplementedError if it cannot be copied, AlgorithmFault."""
        pieces = self._first_pieces()
        while (found := self._next_piece(pieces)) is not None:
            yield found[0]

    def _first_pieces(self) -> Iterator[Callable[[], SchedulerAlgorithm] | None]:
        try:
            return iter(self.algorithm.forks())
        except NotImplementedError:
            raise
        except BaseException as error:
            text = self._failed("forks", error)
        raise AlgorithmFault(text)

    def _next_piece(
        self, pieces: Iterator[Callable[[], SchedulerAlgorithm] | None]
    ) -> tuple[Callable[[], SchedulerAlgorithm] | None] | None:
        """The next piece, None after the last one."""
        try:
            return next(zip(pieces, strict=True), None)
        except NotImplementedError:
            raise
        except BaseException as error:
            text = self._failed("forks", error)
        raise AlgorithmFault(text)

    def note(self, fault: CopyFault) -> None:
        """Note that the algorithm failed to make its copy. To be called under the lock of the engine's loop."""
        self.fault_log.raised("forks", fault.error, self.now)

    def _deliver(self, call: Callable[..., None], *args: object) -> bool:
        self.calls += 1
        try:
            if self._takes_time and self.epoch is not None:
                self.algorithm.set_time(self.epoch + self.now)
            call(*args)
        except BaseException as error:
            self._failed(getattr(call, "__name__", "?"), error, args[0] if args else None)
            return False
        if self._reserves:
            self.reserved = self._reserved_pods()
        return True

    def _failed(self, call: str, error: BaseException, subject: object = None) -> str:
        """Note what the algorithm raised: an exception of any kind, as sys.exit() and a panic in Rust are none of
        Exception. Only what ends the process on purpose goes on: Ctrl-C, and SIGTERM in a command."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        return self.fault_log.raised(call, error, self.now, subject)


def int64(value: object) -> int:
    """The value as a plain integer. Raises OverflowError for one that cannot be sent or recorded."""
    number = int(value)  # type: ignore[call-overload]
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"an integer of {number.bit_length()} bits; expected at most 64")
    return int.__int__(number)


def _checked(result: ScheduleResult) -> ScheduleResult:
    """Return the result with reasons by node that everybody can read: a mapping of the plug-in's own is copied.

    Raises what the mapping raises; TypeError for a value that is no reason. `FixedReasons` are not looked through each
    time that they come: there may be thousands.
    """
    if not isinstance(result, Wait) or not _is_mapping(result.nodes) or type(result.nodes) is FixedReasons:
        return result
    nodes = result.nodes if type(result.nodes) is dict else dict(result.nodes)
    if not _REASONS.issuperset(map(type, nodes.values())):
        raise TypeError("Wait.nodes has values that are no Reason")
    return result if nodes is result.nodes else Wait(result.reason, nodes)


def wrong_with(result: object) -> str:
    """What is wrong with the shape of a decision; "" if nothing. Passes on the exception of a malformed reason."""
    match result:
        case Bind(node=node, annotations=annotations):
            well = isinstance(node, str) and all(
                isinstance(k, str) and isinstance(v, str) and _is_writable(k) and _is_writable(v)
                for k, v in annotations
            )
        case Preempt(victims=victims, reason=why, node=node, gang_members=gang_members):
            plans = [MemberPlan("", node, victims), *gang_members]
            well = all(isinstance(member_plan, MemberPlan) and _is_sound(member_plan) for member_plan in plans)
            well = well and _is_sound_reason(why)
        case Wait(reason=why, nodes=nodes):
            well = _is_mapping(nodes) and _is_sound_reason(why)
        case _:
            return f"{type_name(result)}, not Bind, Preempt or Wait"
    return "" if well else f"a malformed {type_name(result)}"


def _is_mapping(value: object) -> bool:
    return type(value) in _MAPPINGS or isinstance(value, Mapping)  # to ask an abstract class takes ten times as long


def _is_sound_reason(why: object) -> bool:
    """Whether it is a reason with a text that can be sent. Passes on the exception of a malformed one."""
    return isinstance(why, Reason) and bool(text := why.text) and _is_writable(text)


def _is_writable(text: str) -> bool:
    """Whether the text can be written as UTF-8: lone surrogates cannot."""
    return text.isascii() or text == text.encode("utf-8", "replace").decode()


def _is_sound(member_plan: MemberPlan) -> bool:
    return isinstance(member_plan.node, str) and all(isinstance(each, Victim) for each in member_plan.victims)


def _differs(known: Pod, pod: Pod) -> bool:
    """Whether the records differ in a field that an algorithm could use.

    The engine's own note of a preemption is none: it says what the algorithm decided. If the algorithm got a new record
    for it, the room would be given up and planned anew for each note, and preemptors could swap places without end.
    """
    if known is pod or (known.resource_version and known.resource_version == pod.resource_version):
        return False
    # Field by field: it is asked for each event, and the answer is nearly always found without making anything.
    return (
        known.requests != pod.requests
        or known.limits != pod.limits
        or known.priority != pod.priority
        or known.may_preempt != pod.may_preempt
        or known.terminating != pod.terminating
        or known.labels != pod.labels
        or known.group != pod.group
        or (known.annotations != pod.annotations and _without_note(known) != _without_note(pod))
    )


def _without_note(pod: Pod) -> list[tuple[str, str]]:
    return [item for item in pod.annotations if item[0] != ANNOTATION]
