"""A cluster's life around one algorithm: the harness, which carries out plain calls and lets judges watch each of them.

    machine draws calls ---> Life.perform ---> AlgorithmHarness ---> Guarded ---> the algorithm
                                  |                                     | log of changes, limits, side effects
                                  v                                     v
                              judges: before, after, raised       twins, forks, restarts

A call that is impossible now (a pod that does not exist any more) is left out, so any part of a program is a program.
`life.calls` has the calls that were carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, Protocol, cast

import msgspec

from algorithm.conformance.calls import (
    AddNode,
    Allocate,
    Ask,
    Call,
    Delete,
    DeleteNode,
    Expire,
    Faulty,
    FoundBound,
    Lapse,
    Linger,
    NewLife,
    Protect,
    Replace,
    Restart,
    SetTime,
    StartPreempting,
    StopPreempting,
    Submit,
    Update,
    UpdateNode,
    UseFork,
)
from algorithm.conformance.faulty import report as report_faulty
from algorithm.conformance.guard import CallCut, Guard, Guarded
from algorithm.conformance.harness import AlgorithmHarness, ContractBroken
from algorithm.conformance.results import shown
from algorithm.interface import (
    Bind,
    MemberPlan,
    Preempt,
    SchedulerAlgorithm,
    ScheduleResult,
    SuggestedNodes,
    Victim,
)
from algorithm.model import Node, Pod, pairs
from algorithm.reads import Reads

#: When costly judges look: at every call, at some of them, or only when the life is over.
Look = Literal["always", "sometimes", "end"]


class Watcher(Protocol):
    """What a life tells of its calls: see `Judge`, the base of all that are."""

    @property
    def name(self) -> str: ...
    @property
    def wants_faults(self) -> bool: ...
    def before(self, call: Call) -> None: ...
    def after(self, call: Call, answer: Any) -> None: ...
    def raised(self, call: Call, error: Exception) -> None: ...
    def swallowed(self, call: Call) -> None: ...
    def cut(self, method: str, what: str) -> None: ...
    def cause(self) -> None: ...
    def end(self) -> None: ...


class Life:
    """The life of one cluster. `judges` are told of every call.

    A broken promise raises ContractBroken; with `report`, it is reported, and the judge is told of no more calls.
    """

    def __init__(
        self,
        create: Callable[[], SchedulerAlgorithm],
        *,
        judges: Iterable[Callable[[Life], Watcher]] = (),
        report: Callable[[str, ContractBroken], None] | None = None,
        reads: Reads | None = None,
        guard: Guard | None = None,
        history: str = "",
        node_names: tuple[str, ...] = (),
        pages: tuple[str, ...] = (),
        suspects: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
        look: Look = "always",
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        self.create = create
        self.guard = guard or Guard()
        self.guard.side_effects.clear()
        self.reads = reads or Reads()
        self.history, self.node_names, self.pages, self.look = history, node_names, pages, look
        self.suspects, self.on_call = suspects, on_call
        self.calls: list[Call] = []
        self._report = report
        self._begin()
        self.judges = [judge(self) for judge in judges]

    def _begin(self) -> None:
        self.cluster = AlgorithmHarness[Any](lambda: Guarded(self.create, self.guard))
        self.cluster.thorough = False
        #: Answers that can be accepted: nothing has changed since.
        self.answers: dict[str, Any] = {}
        #: The waiting records of the pods that have a place because the algorithm answered so, by UID.
        self.proposed: dict[str, Pod] = {}
        #: The first record of every pod that there was, by UID.
        self.seen: dict[str, Pod] = {}
        self.protected: frozenset[str] = frozenset()
        self.lingering: frozenset[str] = frozenset()
        self.lapsed: frozenset[str] = frozenset()
        self.now: float | None = None
        #: Names of nodes that were deleted and have not come back.
        self.gone_nodes: set[str] = set()
        #: Whether the state is not known any more, because a change raised.
        self.is_over = False

    @property
    def algorithm(self) -> Guarded:
        return cast("Guarded", self.cluster.algorithm)

    @property
    def nodes(self) -> dict[str, Node]:
        return self.cluster.nodes

    @property
    def waiting(self) -> dict[str, Pod]:
        return self.cluster.waiting

    @property
    def allocated(self) -> dict[str, Pod]:
        return self.cluster.allocated

    @property
    def preempting(self) -> dict[str, tuple[Victim, ...]]:
        return self.cluster.preempting

    # -- calls ------------------------------------------------------------------------------------------------

    def perform(self, call: Call) -> bool:
        """Carry out a call. Returns whether it was possible."""
        if (self.is_over and not isinstance(call, NewLife)) or not self._is_possible(call):
            return False
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        try:
            self.tell("before", call)
            match call:
                case Ask():
                    self.tell("after", call, self._ask(call))
                case NewLife():
                    self._begin()
                    self.tell("after", call, None)
                case Faulty() if any(judge.wants_faults for judge in self.judges):
                    report_faulty(self, call)
                case Faulty(change=change):
                    self.change(change, self.as_kept(change))
                case _:
                    self.change(call, self.as_kept(call))
        except CallCut:
            self._was_cut()
        return True

    def _was_cut(self) -> None:
        self.is_over = True
        self.tell("cut", *self.guard.cut[-1])

    def reserved(self) -> frozenset[str]:
        """The algorithm's reserved pods; none if it cannot be asked."""
        try:
            return frozenset() if self.is_over else frozenset(self.algorithm.reserved_pods())
        except Exception:
            return frozenset()
        except CallCut:
            self._was_cut()
            return frozenset()

    def end(self) -> None:
        """Tell the judges that the life is over."""
        if not self.is_over:
            try:
                self.tell("end")
            except CallCut:
                self._was_cut()

    def tell(self, method: str, *args: Any) -> None:
        """Call this method of each judge, until one says that something is broken: then the life is over."""
        for judge in list(self.judges):
            broken = self._told(judge, method, args)
            if broken is None:
                continue
            judge, broken = self._cause(judge, broken)
            if self._report is None:
                raise broken
            self.judges.remove(judge)
            self._report(judge.name, broken)
            self.is_over = True  # what comes now may be a consequence
            return

    def _cause(self, judge: Watcher, broken: ContractBroken) -> tuple[Watcher, ContractBroken]:
        """What one judge says is broken, or what another one says is its cause."""
        causes = ((each, self._told(each, "cause", ())) for each in self.judges)
        return next(((each, found) for each, found in causes if found is not None), (judge, broken))

    def _told(self, judge: Watcher, method: str, args: tuple[Any, ...]) -> ContractBroken | None:
        """Tell one judge. Returns what it says is broken: also that another instance raised, at a restart, say."""
        try:
            getattr(judge, method)(*args)
        except ContractBroken as broken:
            return broken
        except Exception as error:
            if not self.guard.has_raised(error):
                raise
            raised = ContractBroken(f"an instance that was told the same, or a question, raised {shown(error)}")
            raised.__cause__ = error
            return raised
        return None

    def change(self, call: Call, kept: Call) -> None:
        """Report a change, `kept` being the call with records as the server keeps them, and tell the judges."""
        try:
            self.carry_out(kept)
        except Exception as error:
            self.is_over = True
            self.tell("raised", call, error)
            return
        self.answers.clear()
        self.tell("after", call, None)

    def _is_possible(self, call: Call) -> bool:
        match call:
            case Faulty(change=change):
                return self._is_possible(change)
            case AddNode(node=node):
                return node.name not in self.nodes
            case UpdateNode(node=node):
                return node.name in self.nodes and self.nodes[node.name].uid == node.uid
            case DeleteNode(name=name):
                return name in self.nodes
            case Submit(pods=pods):
                return not any(pod.uid in self.seen for pod in pods)
            case FoundBound(pod=pod):
                return bool(pod.node_name) and (pod.uid not in self.seen or pod.uid in self.waiting)
            case Ask(uid=uid, nodes=nodes):
                return uid in self.waiting and bool(nodes)
            case Allocate(uid=uid):
                return uid in self.waiting and isinstance(self.answers.get(uid), Bind)
            case StartPreempting(uid=uid):
                answer = self.answers.get(uid)
                return uid in self.waiting and isinstance(answer, Preempt) and self._can_preempt(answer)
            case StopPreempting(uid=uid):
                return uid in self.preempting
            case Expire(uid=uid):
                return uid in self.proposed
            case Update(pod=pod):
                known = self.allocated.get(pod.uid)
                return known is not None and known.node_name == pod.node_name
            case Replace(pod=pod):
                return pod.uid in self.waiting
            case Delete(uid=uid):
                return uid in self.waiting or uid in self.allocated
            case _:
                return True

    def _can_preempt(self, answer: Preempt) -> bool:
        """Whether the extender would carry out the plan: its victims run, its members wait."""
        plans = [MemberPlan("", answer.node, answer.victims), *answer.gang_members]
        victims = [victim for plan in plans for victim in plan.victims]
        run = all(self._runs_on(victim.uid) == victim.node for victim in victims)
        return run and all(plan.uid in self.waiting for plan in answer.gang_members)

    def _runs_on(self, uid: str) -> str:
        found = self.allocated.get(uid)
        return found.node_name if found is not None else ""

    def carry_out(self, call: Call) -> None:
        """Report a change to the algorithm. Raises what the algorithm raises."""
        match call:
            case AddNode(node=node):
                self.cluster.add_node(node)
                self.gone_nodes.discard(node.name)
            case UpdateNode(node=node):
                self.cluster.update_node(node)
            case DeleteNode(name=name):
                self.cluster.delete_node(name)
                self.gone_nodes.add(name)
            case Submit(pods=pods):
                for pod in pods:
                    self.seen[pod.uid] = pod
                self.cluster.submit(*pods)
            case FoundBound(pod=pod):
                self.seen[pod.uid] = pod
                self.cluster.found_bound(pod)
            case Allocate(uid=uid):
                waited = self.waiting[uid]
                self.cluster.allocate(waited, self.answers[uid])
                self.proposed[uid] = waited
            case StartPreempting(uid=uid):
                self._start_preempting(self.waiting[uid], self.answers[uid])
            case StopPreempting(uid=uid):
                self.cluster.stop_preempting(uid)
            case Expire(uid=uid):
                self._expire(uid)
            case Update(pod=pod):
                self.cluster.update(pod)
            case Replace(pod=pod):
                self.cluster.replace(pod)
            case Delete(uid=uid):
                self.proposed.pop(uid, None)
                self.cluster.delete(uid)
            case Restart(seed=seed):
                self.cluster.algorithm = self.restarted(seed)
                self.allocated.update({uid: self.kept(pod) for uid, pod in self.allocated.items()})
                self.preempting.clear()
            case UseFork():
                with suppress(NotImplementedError):
                    self.cluster.algorithm = self.algorithm.forked()
            case _:
                self._set(call)

    def _set(self, call: Call) -> None:
        match call:
            case Protect(uids=uids):
                self.protected = frozenset(uids)
                self.algorithm.set_protected_pods(self.protected)
            case Linger(uids=uids):
                self.lingering = frozenset(uids)
                self.algorithm.set_lingering_pods(self.lingering)
            case Lapse(uids=uids):
                self.lapsed = frozenset(uids)
                self.algorithm.set_lapsed_pods(self.lapsed)
            case SetTime(now=now):
                self.now = now
                self.algorithm.set_time(now)

    def _ask(self, call: Ask) -> ScheduleResult | Exception:
        try:
            answer: Any = self.algorithm.schedule(self.waiting[call.uid], SuggestedNodes(call.nodes), call.phase)
        except Exception as error:
            self.answers.pop(call.uid, None)
            return error
        self.answers[call.uid] = answer
        return cast("ScheduleResult", answer)

    def _start_preempting(self, pod: Pod, answer: Preempt) -> None:
        self.cluster.start_preempting(pod, answer)
        for plan in answer.gang_members:
            self.cluster.start_preempting(self.waiting[plan.uid], Preempt(plan.victims, answer.reason, plan.node))

    def _expire(self, uid: str) -> None:
        waited = self.proposed.pop(uid)
        written = {name for name, _ in self.allocated[uid].annotations} - {name for name, _ in waited.annotations}
        self.cluster.expire(uid, without=written)

    def restarted(self, seed: int = 0) -> Guarded:
        """A new algorithm that was told what there is, as after a restart: also which pods are not to be evicted.

        Of what a Bind wrote on a pod, the annotations that the plug-in does not declare are not read again.
        """
        known = self.cluster.allocated
        self.cluster.allocated = {uid: self.kept(pod) for uid, pod in known.items()}
        try:
            fresh = cast("Guarded", self.cluster.restarted(seed, nodes_by_name=bool(self.history)))
        finally:
            self.cluster.allocated = known
        if self.protected:
            fresh.set_protected_pods(self.protected)
        if self.lingering:
            fresh.set_lingering_pods(self.lingering)
        return fresh

    # -- records as the server keeps them -----------------------------------------------------------------------

    def as_kept(self, call: Call) -> Call:
        """The call with records as the server keeps them: with the annotations that the plug-in declares."""
        match call:
            case AddNode(node=node):
                return AddNode(self._kept_node(node))
            case UpdateNode(node=node):
                return UpdateNode(self._kept_node(node))
            case Submit(pods=pods):
                return Submit(tuple(map(self.kept, pods)))
            case FoundBound(pod=pod):
                return FoundBound(self.kept(pod))
            case Update(pod=pod):
                return Update(self.kept(pod))
            case Replace(pod=pod):
                return Replace(self.kept(pod))
            case _:
                return call

    def placed(self, uid: str) -> Pod:
        """The waiting pod with the place that the algorithm's last answer gives it, which must be a Bind."""
        answer = self.answers[uid]
        return self.waiting[uid].placed(answer.node, answer.annotations)

    def kept(self, pod: Pod) -> Pod:
        if self.reads.wishes is None or not pod.annotations:
            return pod
        found = self.reads.annotations(dict(pod.annotations), decided=bool(pod.node_name))
        return msgspec.structs.replace(pod, annotations=pairs(found))

    def _kept_node(self, node: Node) -> Node:
        if self.reads.of_nodes is None or not node.annotations:
            return node
        found = cast("dict[str, str]", self.reads.annotations_of_node(dict(node.annotations)))
        return msgspec.structs.replace(node, annotations=pairs(found))
