"""What really happens from a state on: the live parts in one thread, wired as they are live, but without sockets.

API server (its real rules), Waggle's informers, engine and committer, kube-scheduler's informers and core: those of
`tests.soak`, without faults. What an attempt writes has arrived everywhere before the next attempt begins, as on a
cluster whose API server is quick.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.reads import Reads
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.table import NODES, PODS, PRIORITY_CLASSES
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.events import EXTENDER
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from extender.plan.run.configuration import configure
from extender.scheduling.events import Ticked
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo
from tests.conformance.plan_truth.outcomes import Outcome, live_outcome
from tests.conformance.plan_truth.states import State, priority_classes
from tests.soak.users import Users
from tests.soak.wire import Name
from tests.soak.world import SoakWorld

Object = dict[str, Any]
#: Seconds after which nothing more can come of timers.
_PATIENCE = 400.0
#: Seconds; the shortest timer is one second.
_AT_ONCE = 0.9


class LiveCluster(SoakWorld):
    """The cluster of a state, at rest once `settle` has returned."""

    def __init__(self, state: State) -> None:
        self._state = state
        #: When something happened last.
        self.rested_at = 0.0
        self._configuration = configure(state.settings, state.scheduler, seed=state.seed)
        self._algorithm: list[SchedulerAlgorithm] = [self._configuration.algorithm]
        self.make = self._made  # type: ignore[assignment]
        super().__init__(state.seed, rate=0.0, nodes=0)

    def _made(self) -> SchedulerAlgorithm:
        return self._algorithm.pop()

    def _make_policy(self, only: Name | None) -> Policy:
        return self._configuration.policy

    def reads(self) -> Reads:
        return self._configuration.reads

    def scheduler_config(self) -> SchedulerConfig:
        return self._configuration.scheduler

    def _make_users(self) -> Users:
        users = Users(self.api, self.rng)
        for each in (*priority_classes(self._state), *self._state.nodes, *self._state.bound, *self._state.waiting):
            self.create(each)
        return users

    # -- what the state says --------------------------------------------------------------------------------------

    def create(self, body: Object) -> None:
        resource = {"Node": NODES, "Pod": PODS, "PriorityClass": PRIORITY_CLASSES}[body["kind"]]
        namespace = body["metadata"].get("namespace", "")
        self.api.create(Target(resource, namespace), deepcopy(body))
        if body.get("status") and resource is PODS:
            target = Target(PODS, namespace, body["metadata"]["name"], "status")
            self.api.patch(target, {"status": body["status"]}, MERGE)

    def make_changes(self, steps: Sequence[tuple[str, str]]) -> None:
        """Delete pods and cordon nodes, all at once; then, when that has had its effect, drain nodes."""
        for verb, name in steps:
            if verb == "delete":
                self.users.delete(name)
            else:
                self.api.patch(Target(NODES, "", name), {"spec": {"unschedulable": True}}, MERGE)
        self.settle()
        drained = [name for verb, name in steps if verb == "drain"]
        for stored in list(self.api.store.collection(PODS)):
            if stored.fields["spec.nodeName"] in drained:
                self.users.delete(stored.key[1], stored.uid)
        self.settle()

    def world(self) -> World:
        """The cluster as a plan reads it."""
        reader = WorldReader(self._state.settings, self._state.scheduler)
        for resource, kind, version in (
            (PRIORITY_CLASSES, "PriorityClass", "scheduling.k8s.io/v1"),
            (NODES, "Node", "v1"),
            (PODS, "Pod", "v1"),
        ):
            for stored in self.api.store.collection(resource):
                reader.add(version, kind, stored.raw)
        assert not reader.faults, reader.faults
        return reader.world(source="truth")

    # -- rest -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen until nothing happens any more."""
        quiet_since = self.now
        for _ in range(20_000):
            if self._deliver() or self.scheduling.attempt():
                self.rested_at = quiet_since = self.now
                self._pass_time(0.0005)
                continue
            due = self._due()
            if due is None or due > quiet_since + _PATIENCE:
                return
            self._pass_time(max(0.001, due - self.now))
            self.replicas[0].handle(Ticked())
        raise AssertionError("it does not come to rest")

    def _due(self) -> float | None:
        replica = self.replicas[0]
        times = (replica.machine.next_due(), self.scheduling.core.queue.next_error_tick)
        return min((time for time in times if time is not None), default=None)

    def _deliver(self) -> bool:
        """Whether anything was on its way; it has arrived."""
        return self._informed() or self._written() or self._run()

    def _informed(self) -> bool:
        [replica] = self.replicas
        busy = False
        for informer in (replica.nodes, replica.pods):
            while not self._is_up_to_date(informer):
                busy = True
                replica.step_informer(informer)
        for heard in (self.scheduling.nodes, self.scheduling.pods):
            while heard.behind:
                busy = True
                heard.step()
        return busy

    def _written(self) -> bool:
        [replica] = self.replicas
        if self.scheduling.binds:
            self.scheduling.call_bind(self.scheduling.binds.pop(0))
            return True
        if replica.work:
            replica.carry_out(replica.work.pop(0))
            return True
        return False

    def _run(self) -> bool:
        before = self.api.store.revision
        self.users.kubelets()
        return self.api.store.revision != before

    # -- the outcome ----------------------------------------------------------------------------------------------

    def outcomes(self) -> dict[str, Outcome]:
        """Of every pod that there is, by name."""
        infos = {info.uid: info for info in self.replicas[0].machine.pod_infos()}
        pods = [json.loads(stored.raw) for stored in self.api.store.collection(PODS)]
        return {pod["metadata"]["name"]: self._outcome(pod, infos.get(pod["metadata"]["uid"])) for pod in pods}

    def _outcome(self, pod: Object, info: PodInfo | None) -> Outcome:
        last = self.scheduling.last.get(pod["metadata"]["uid"])
        refused = last is not None and last.diagnosis is not None and EXTENDER in last.diagnosis.rejecters
        return live_outcome(pod, info, refused_by_waggle=refused)


def comes_to_rest_at_once(state: State) -> bool:
    """Whether it does so without timers: with real clocks they take minutes."""
    live = LiveCluster(state)
    live.settle()
    return live.rested_at < _AT_ONCE


def what_happens(state: State) -> tuple[World, dict[str, Outcome]]:
    """The world at the beginning, and what has become of every pod at the end."""
    live = LiveCluster(state)
    world = live.world()
    live.settle()
    live.make_changes(state.steps)
    for pod in state.create:
        live.create(pod)
    live.settle()
    return world, live.outcomes()
