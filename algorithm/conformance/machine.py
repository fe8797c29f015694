"""A Hypothesis state machine that draws random histories of clusters (lives) as calls, while judges watch the outcome.

It only draws, from the moves of `moves.py`. What it draws are plain calls (`life.calls`), so a failure is made shorter,
printed and replayed without Hypothesis (`shrink.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, Verbosity, seed, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from algorithm.conformance.calls import (
    AddNode,
    Ask,
    Delete,
    DeleteNode,
    Expire,
    FoundBound,
    Lapse,
    Linger,
    Protect,
    Replace,
    Restart,
    SetTime,
    StopPreempting,
    Submit,
    Update,
    UpdateNode,
    UseFork,
)
from algorithm.conformance.life import Life
from algorithm.conformance.moves import UNKNOWN_NODE, Fault, Moves, faults
from algorithm.conformance.unreadable_records import ANY, OF_NODES, OF_PODS
from algorithm.conformance.world import World
from algorithm.interface import Phase

_picks = st.integers(0, 1 << 16)
#: Pods that may exist at the same time: each question is asked about some of them.
_MOST_WAITING = 6
_MOST_ALLOCATED = 12
#: The priority of important pods.
_HIGH = 1_000_000
#: What happens while a node with pods is away; most often nothing.
_MEANWHILE = ("", "", "one pod goes", "pods come", "preemptions end", "cordoned")
#: What changes of a node.
_OF_A_NODE = ("allocatable", "labels", "annotations", "taints", "ready", "unschedulable")
#: Times that pods are created to fill a node, and all of them.
_MOST_TO_FILL, _MOST_TO_FILL_ALL = 4, 8
#: Lives that Hypothesis is asked for at once, however many are wanted: it draws others if it is asked for more.
_LIVES_AT_ONCE = 25
#: How often Hypothesis may give up.
_MOST_ATTEMPTS = 50


class _Enough(Exception):  # noqa: N818 - the time is over
    """Ends a run of Hypothesis."""


def live(
    world: World,
    begin: Callable[[], Life | None],
    finish: Callable[[Life], None],
    *,
    lives: int,
    steps: int,
    at: int = 0,
) -> None:
    """Run a number of lives with a number of steps each. `begin` makes each life, or returns None if the time is over.

    `finish` gets each life at its end. What can happen next depends on what the algorithm answered; apart from that,
    `at` decides everything: fewer lives are the first of more. If the algorithm answers the same calls differently,
    Hypothesis gives up, and is asked for other lives.
    """
    lived, attempts, is_enough = 0, 0, False

    def counted() -> Life:
        nonlocal lived, is_enough
        life = begin() if lived < lives and not is_enough else None
        if life is None:
            is_enough = True
            raise _Enough
        lived += 1
        return life

    machine = _machine(world, counted, finish)
    for number in itertools.count():
        try:
            with _whatever_is_loaded():
                _run(seed(f"{at} {number}")(machine), steps)
        except _Enough:
            return
        except Flaky:
            attempts += 1
        if is_enough or lived >= lives or attempts >= _MOST_ATTEMPTS:
            return


@contextlib.contextmanager
def _whatever_is_loaded() -> Iterator[None]:
    """Hypothesis prefers numbers that stand in the code of the modules that are loaded. Not here: which modules these
    are depends on how the kit is called, and on each line of the plug-in."""
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")  # older ones have none
    instead: dict[str, Any] = {"_get_local_constants": getattr(providers, "Constants", None), "CONSTANTS_CACHE": {}}
    there = {name: getattr(providers, name) for name in instead if hasattr(providers, name)}
    for name in there:
        setattr(providers, name, instead[name])
    try:
        yield
    finally:
        for name, value in there.items():
            setattr(providers, name, value)


def _run(machine: type[RuleBasedStateMachine], steps: int) -> None:
    chosen = settings(
        max_examples=_LIVES_AT_ONCE,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(HypothesisPhase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    run_state_machine_as_test(machine, settings=chosen)


def _machine(world: World, begin: Callable[[], Life], finish: Callable[[Life], None]) -> type[RuleBasedStateMachine]:
    """The class of machines for one world."""

    class Cluster(Moves):
        def __init__(self) -> None:
            super().__init__(world, begin())

        @initialize(data=st.data(), nodes=st.integers(1, len(world.node_names)))
        def nodes_are_there(self, data: st.DataObject, nodes: int) -> None:
            for name in world.node_names[:nodes]:
                self.do(AddNode(data.draw(world.nodes(name))))

        # -- nodes --------------------------------------------------------------------------------------------

        @rule(data=st.data(), name=st.sampled_from(world.node_names), fault=faults(OF_NODES))
        def node_appears_or_changes(self, data: st.DataObject, name: str, fault: Fault) -> None:
            """A node changes in several fields at once, in one after the other, or in one, as when it is cordoned."""
            record, known = data.draw(world.nodes(name)), self.life.nodes.get(name)
            if known is None:
                self.do(self.faulty(AddNode(record), fault))
                return
            record = msgspec.structs.replace(record, uid=known.uid)
            fields = [field for field in _OF_A_NODE if getattr(known, field) != getattr(record, field)]
            how = data.draw(st.sampled_from(["at once", "in turn", "in one"]))
            if how == "in one" and fields:
                fields = [data.draw(st.sampled_from(fields))]
            for field in fields if how != "at once" else ():
                known = msgspec.structs.replace(known, **{field: getattr(record, field)})
                self.do(self.faulty(UpdateNode(known), fault))
            self.do(self.faulty(UpdateNode(known if how == "in one" else record), fault))

        @precondition(lambda self: len(self.life.nodes) > 1)
        @rule(pick=_picks)
        def node_goes(self, pick: int) -> None:
            self.do(DeleteNode(self.pick(self.life.nodes, pick)))

        @precondition(lambda self: self.busy_nodes())
        @rule(data=st.data(), pick=_picks, meanwhile=st.sampled_from(_MEANWHILE))
        def node_with_pods_goes_and_comes_back(self, data: st.DataObject, pick: int, meanwhile: str) -> None:
            """Its pods go on running: the API server has deleted the node, and its kubelet registers it again."""
            name = self.pick(self.busy_nodes(), pick)
            record = self.life.nodes[name]
            if meanwhile == "cordoned":
                self.do(UpdateNode(msgspec.structs.replace(record, unschedulable=True)), UpdateNode(record))
                return
            self.do(DeleteNode(name))
            there = [uid for uid, pod in self.life.allocated.items() if pod.node_name == name]
            if meanwhile == "one pod goes":
                self.do(Delete(self.pick(there, pick)))
            elif meanwhile == "pods come":
                for pod in self.new_pods(data):
                    self.do(FoundBound(msgspec.structs.replace(pod, node_name=name, phase="Running")))
            elif meanwhile == "preemptions end":
                self.do(*(StopPreempting(uid) for uid in sorted(self.life.preempting)))
            self.do(AddNode(record))

        # -- pods ---------------------------------------------------------------------------------------------

        @precondition(lambda self: len(self.life.waiting) < _MOST_WAITING)
        @rule(data=st.data(), fault=faults(OF_PODS))
        def pods_come(self, data: st.DataObject, fault: Fault) -> None:
            self.do(self.faulty(Submit(self.new_pods(data)), fault))

        @precondition(lambda self: len(self.life.waiting) < _MOST_WAITING)
        @rule(data=st.data(), pick=_picks, important=st.sampled_from([False, True]), fault=faults(OF_PODS))
        def pods_come_and_are_placed(self, data: st.DataObject, pick: int, important: bool, fault: Fault) -> None:
            """Important ones may evict others, by their Kubernetes priority at least."""
            pods = self.new_pods(data)
            if important:
                pods = tuple(msgspec.structs.replace(pod, priority=_HIGH, may_preempt=True) for pod in pods)
            self.do(self.faulty(Submit(pods), fault))
            for pod in pods:
                self.asked_as_usual(pod.uid, self.offer(pick), pick)

        @precondition(lambda self: len(self.life.allocated) < _MOST_ALLOCATED)
        @rule(
            data=st.data(),
            name=st.sampled_from([*world.node_names, UNKNOWN_NODE]),
            fault=faults(OF_PODS),
            stranger=st.booleans(),
            ends=st.sampled_from([False, False, False, True]),
        )
        def pods_are_found_bound(
            self, data: st.DataObject, name: str, fault: Fault, stranger: bool, ends: bool
        ) -> None:
            for pod in self.new_pods(data):
                other: dict[str, Any] = {"terminating": ends}
                if stranger:
                    other |= {"scheduler_name": "other-scheduler", "annotations": (), "group": ""}
                bound = msgspec.structs.replace(pod, node_name=name, phase="Running", **other)
                self.do(self.faulty(FoundBound(bound), fault))

        @precondition(lambda self: self.life.waiting and len(self.life.allocated) < _MOST_ALLOCATED)
        @rule(pick=_picks, name=st.sampled_from([*world.node_names, UNKNOWN_NODE]))
        def waiting_pod_is_bound_by_somebody_else(self, pick: int, name: str) -> None:
            pod = self.life.waiting[self.pick(self.life.waiting, pick)]
            self.do(FoundBound(msgspec.structs.replace(pod, node_name=name, phase="Running")))

        @precondition(lambda self: self.life.waiting)
        @rule(pick=_picks)
        def waiting_pod_goes(self, pick: int) -> None:
            self.do(Delete(self.pick(self.life.waiting, pick)))

        @precondition(lambda self: self.life.allocated)
        @rule(pick=_picks)
        def allocated_pod_goes(self, pick: int) -> None:
            """At once, or its deletion is requested first: then it may stay for as long as it needs."""
            uid = self.pick(self.life.allocated, pick)
            if pick % 2:
                self.do(Update(msgspec.structs.replace(self.life.allocated[uid], terminating=True)))
            if pick % 3:
                self.do(Delete(uid))

        @precondition(lambda self: self.life.proposed)
        @rule(pick=_picks)
        def proposal_expires(self, pick: int) -> None:
            self.do(Expire(self.pick(self.life.proposed, pick)))

        @precondition(lambda self: self.life.allocated)
        @rule(data=st.data(), pick=_picks, fault=faults(OF_PODS))
        def allocated_pod_changes(self, data: st.DataObject, pick: int, fault: Fault) -> None:
            """Its labels, its resources (resized in place), or what its author annotates."""
            known = self.life.allocated[self.pick(self.life.allocated, pick)]
            self.do(self.faulty(Update(self.changed(known, data.draw(world.pods(0))[0], pick)), fault))

        @precondition(lambda self: self.life.waiting)
        @rule(data=st.data(), pick=_picks)
        def waiting_pod_changes(self, data: st.DataObject, pick: int) -> None:
            known = self.life.waiting[self.pick(self.life.waiting, pick)]
            self.do(Replace(self.changed(known, data.draw(world.pods(0))[0], pick)))

        # -- decisions ----------------------------------------------------------------------------------------

        @precondition(lambda self: self.life.waiting and self.life.nodes)
        @rule(pick=_picks, offer=_picks, accept=st.sampled_from([True, True, True, False]))
        def pod_is_filtered(self, pick: int, offer: int, accept: bool) -> None:
            uid = self.pick(self.life.waiting, pick)
            if accept:
                self.asked_as_usual(uid, self.offer(offer), offer)
            else:
                self.do(Ask(uid, self.offer(offer), Phase.FILTERING))

        @precondition(lambda self: self.life.waiting and self.life.nodes)
        @rule(pick=_picks)
        def all_pods_are_filtered(self, pick: int) -> None:
            nodes = tuple(sorted(self.life.nodes))
            for at, uid in enumerate(sorted(self.life.waiting)):
                if uid in self.life.waiting:
                    self.asked_as_usual(uid, nodes, pick + at)

        @precondition(lambda self: self.life.waiting and self.life.nodes)
        @rule(
            pick=_picks,
            offer=_picks,
            phase=st.sampled_from([Phase.PREEMPTING, Phase.EVICTING]),
            then=st.sampled_from(["", "waits", "victims go"]),
        )
        def pod_preempts(self, pick: int, offer: int, phase: Phase, then: str) -> None:
            uid = self.pick(self.life.waiting, pick)
            if then:
                self.preempts(uid, self.offer(offer), phase, goes_on=then == "victims go")
            else:
                self.do(Ask(uid, self.offer(offer), phase))

        @precondition(lambda self: self.life.waiting and self.life.allocated and self.life.nodes)
        @rule(pick=_picks, spare=st.sampled_from([Protect, Linger]))
        def victims_cannot_be_evicted(self, pick: int, spare: type[Protect] | type[Linger]) -> None:
            self.asked_for_others(self.pick(self.life.waiting, pick), tuple(sorted(self.life.nodes)), spare)

        @precondition(lambda self: self.life.nodes and len(self.life.allocated) < _MOST_ALLOCATED)
        @rule(data=st.data(), pick=_picks, spare=st.sampled_from([None, Protect, Linger]))
        def important_pod_comes_to_a_full_node(
            self, data: st.DataObject, pick: int, spare: type[Protect] | type[Linger] | None
        ) -> None:
            """Pods of low priority fill one node; then its plan is accepted, or its victims cannot be evicted."""
            well = {name for name, node in self.life.nodes.items() if node.takes_pods}
            offer = (self.pick(self.busy_nodes() & well or well or self.life.nodes, pick),)
            self.fill(data, offer, _MOST_TO_FILL)
            gang = (msgspec.structs.replace(pod, priority=_HIGH) for pod in self.new_pods(data))
            first, *mates = (
                msgspec.structs.replace(pod, may_preempt=not at or bool(pick % 2)) for at, pod in enumerate(gang)
            )
            self.do(Submit((first, *mates)))
            if spare is None:
                self.preempts(
                    first.uid, offer, Phase.EVICTING if pick % 2 else Phase.PREEMPTING, goes_on=bool(pick % 3)
                )
            else:
                self.asked_for_others(first.uid, offer, spare)

        @precondition(lambda self: len(self.life.nodes) > 1 and len(self.life.allocated) < _MOST_ALLOCATED)
        @rule(data=st.data(), pick=_picks, spare=st.sampled_from([Protect, Protect, Linger, None]))
        def important_gang_comes_to_a_full_cluster(
            self, data: st.DataObject, pick: int, spare: type[Protect] | type[Linger] | None
        ) -> None:
            """Pods of low priority fill all nodes. The victims of a plan for several pods are on several of them."""
            offer = tuple(sorted(self.life.nodes))
            self.fill(data, offer, _MOST_TO_FILL_ALL)
            first, *mates = (
                msgspec.structs.replace(pod, priority=_HIGH, may_preempt=not at or bool(pick % 2))
                for at, pod in enumerate(self.new_gang(data))
            )
            self.do(Submit((first, *mates)))
            if spare is None:
                self.preempts(first.uid, offer, Phase.EVICTING, goes_on=bool(pick % 3))
            else:
                self.asked_for_others(first.uid, offer, spare)

        @precondition(lambda self: self.life.preempting and len(self.life.nodes) > 1)
        @rule(pick=_picks)
        def preemption_is_planned_anew(self, pick: int) -> None:
            """As when its node is not offered any more: the new plan replaces the one before."""
            uid = self.pick(self.life.preempting, pick)
            other = tuple(sorted(self.life.nodes.keys() - {self.life.cluster.preempting_nodes.get(uid, "")}))
            if other:
                self.preempts(uid, other, Phase.EVICTING if pick % 2 else Phase.PREEMPTING, goes_on=False)

        @precondition(lambda self: self.life.preempting)
        @rule(pick=_picks, goes_on=st.booleans())
        def preemption_goes_on_or_ends(self, pick: int, goes_on: bool) -> None:
            uid = self.pick(self.life.preempting, pick)
            self.victims_go(uid) if goes_on else self.do(StopPreempting(uid))

        @precondition(lambda self: self.life.reserved() or self.life.lapsed)
        @rule(some=_picks)
        def places_lapse(self, some: int) -> None:
            """kube-scheduler did not ask about some of them in time, then about others: a set replaces the old one."""
            reserved = sorted(self.life.reserved() | self.life.lapsed & self.life.waiting.keys())
            first = {uid for at, uid in enumerate(reserved) if some >> at % 15 & 1}
            self.do(Lapse(tuple(sorted(first))))
            if some >> 15:
                self.do(Lapse(tuple(uid for uid in reserved if uid not in first)))

        @rule(what=st.sampled_from(["time", "protect", "linger", "restart", "fork"]), pick=_picks)
        def something_rare_happens(self, what: str, pick: int) -> None:
            """Time passes, pods cannot be evicted, the server is restarted, or a copy takes over."""
            match what:
                case "time":
                    self.do(SetTime((self.life.now or 1.7e9) + pick + 1))
                case "protect":
                    self.do(Protect(self.some_allocated(pick)))
                case "linger":
                    self.do(Linger(self.some_allocated(pick)))
                case "restart":
                    self.do(self.faulty(Restart(pick), (ANY, 0) if pick % 2 else None))
                case _:
                    self.do(UseFork())

        def teardown(self) -> None:
            """All pods go, in an order that their names decide."""
            self.do(Protect(()), Linger(()))
            self.life.end()
            for uid in sorted({**self.life.waiting, **self.life.allocated}, key=lambda uid: uid[::-1]):
                self.do(Delete(uid))
            finish(self.life)

    return Cluster
