"""What really happens from a state on: the live parts in one thread, wired as they are live, but without sockets.

API server (its real rules), Waggle's informers, engine and committer, kube-scheduler's informers and core: those of
`tests.soak`, without faults. What an attempt writes has arrived everywhere before the next attempt begins, as on a
cluster whose API server is quick.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing, suppress
from copy import deepcopy
from typing import Any

from algorithm.interface import SchedulerAlgorithm
from algorithm.reads import Reads
from extender.embedded.apiserver.cluster import DeleteOptions
from extender.embedded.apiserver.conditions import is_ready
from extender.embedded.apiserver.controllers import Controllers
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.pods import bind, evict
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.table import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from extender.embedded.kubescheduler.budgets import decode_budget
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.events import EXTENDER
from extender.ordering.records import GROUP
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from extender.plan.run.configuration import configure
from extender.plan.run.making import ROUND_TRIP
from extender.scheduling.events import Ticked
from extender.scheduling.policy import Policy
from extender.scheduling.reads import GANG_ANNOTATION
from extender.scheduling.state.pod_info import PodInfo
from tests.conformance.plan_truth.outcomes import Outcome, live_outcome
from tests.conformance.plan_truth.states import State, priority_classes
from tests.soak.links import Informer
from tests.soak.users import Users
from tests.soak.wire import Name
from tests.soak.world import SoakWorld

Object = dict[str, Any]
#: Seconds after which nothing more can come of timers.
_PATIENCE = 400.0
#: Seconds; the shortest timer is one second.
_AT_ONCE = 0.9
#: Those above others come first.
_RESOURCES = {
    "PriorityClass": PRIORITY_CLASSES,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "Node": NODES,
    "Pod": PODS,
}
_READY = {"type": "Ready", "status": "True"}


class NeverRestsError(AssertionError):
    """Pods come and go without end."""


class LiveCluster(SoakWorld):
    """The cluster of a state, at rest once `settle` has returned."""

    def __init__(self, state: State) -> None:
        self._state = state
        #: When something happened last.
        self.rested_at = 0.0
        self._configuration = configure(state.settings, state.scheduler, seed=state.seed)
        self._algorithm: list[SchedulerAlgorithm] = [self._configuration.algorithm]
        self.make = self._made  # type: ignore[assignment]
        self._loop = asyncio.new_event_loop()
        super().__init__(state.seed, rate=0.0, nodes=0)
        self._budgets = self._hear_of_budgets()

    def _hear_of_budgets(self) -> Informer:
        core = self.scheduling.core
        return Informer(
            self.api.store,
            POD_DISRUPTION_BUDGETS,
            seen=lambda raw: core.budget_seen(decode_budget(raw)),
            gone=lambda raw: core.budget_gone(decode_budget(raw).key),
        )

    def close(self) -> None:
        self._loop.close()

    def restart(self) -> None:
        """End Waggle and kube-scheduler, and start both on the same cluster: Waggle as the state says from now on."""
        state = self._state
        settings = state.settings if state.new_settings is None else state.new_settings
        self._configuration = configure(settings, state.scheduler, algorithm=state.new_algorithm, seed=state.seed)
        self._algorithm = [self._configuration.algorithm]
        self.policy = self._configuration.policy
        self.replicas = [self._boot()]
        self.scheduling.boot()
        self.scheduling.last.clear()
        self._budgets = self._hear_of_budgets()

    def _made(self) -> SchedulerAlgorithm:
        return self._algorithm.pop()

    def _make_policy(self, only: Name | None) -> Policy:
        return self._configuration.policy

    def reads(self) -> Reads:
        return self._configuration.reads

    def scheduler_config(self) -> SchedulerConfig:
        return self._configuration.scheduler

    def _make_users(self) -> Users:
        users = self.users = _Users(self.api, self.rng)
        state = self._state
        for each in (*priority_classes(state), *state.nodes, *state.objects):
            self.create(each)
        Controllers(self.api).start(self._loop)
        self._controlled()
        for owner, places in state.places.items():
            self._place(owner, places)
        for each in (*state.bound, *state.waiting):
            self.create(each)
        self._controlled()
        return users

    def _place(self, owner: str, places: Sequence[tuple[str, str]]) -> None:
        """Let pods that a controller has made run on these nodes."""
        pods = [each.key for each in self.api.store.collection(PODS) if each.key[1].startswith(f"{owner}-")]
        for (namespace, name), (node, started) in zip(sorted(pods), places, strict=False):
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            bind(self.api, Target(PODS, namespace, name), binding)
            self.users.patch(
                name, {"status": {"phase": "Running", "startTime": started, "conditions": [_READY]}}, "status"
            )

    # -- what the state says --------------------------------------------------------------------------------------

    def create(self, body: Object) -> None:
        body = deepcopy(body)
        resource, namespace = _RESOURCES[body["kind"]], body["metadata"].get("namespace", "")
        self.api.create(Target(resource, namespace), body)
        if body.get("status") and resource is PODS:
            target = Target(PODS, namespace, body["metadata"]["name"], "status")
            self.api.patch(target, {"status": {**body["status"], "conditions": [_READY]}}, MERGE)

    def make_changes(self) -> None:
        """Delete, add and cordon, all at once; then, when that has had its effect, drain nodes."""
        for verb, name in self._state.steps:
            if verb == "delete":
                self.users.delete(name)
            elif verb == "delete-node":
                self.api.delete(Target(NODES, "", name))
            elif verb == "delete-workload":
                [kind] = {each["kind"] for each in self._state.objects if _owns(each, name)}
                self.api.delete(Target(_RESOURCES[kind], "default", name))
            elif verb == "delete-gang":
                for pod in self._pods_of(GROUP, name):
                    self.users.delete(pod["metadata"]["name"])
        for node in self._state.added:
            self.create(node)
        for verb, name in self._state.steps:
            if verb in ("cordon", "drain"):
                self.api.patch(Target(NODES, "", name), {"spec": {"unschedulable": True}}, MERGE)
        self.settle()
        while self._drain([name for verb, name in self._state.steps if verb == "drain"]):
            self.settle()

    def make_objects(self) -> None:
        """Give pods their new priorities, and create the new objects."""
        for kind, name, priority in self._state.priorities:
            for pod in self._pods_of(kind, name):
                self._set_priority(pod, priority)
            self._set_template(kind, name, priority)
        for each in self._state.create:
            self.create(reprioritised(self._state, each))

    def _pods_of(self, kind: str, name: str) -> list[Object]:
        pods: list[Object] = [json.loads(stored.raw) for stored in self.api.store.collection(PODS)]
        return [pod for pod in pods if belongs(pod, kind, name)]

    def _set_priority(self, pod: Object, priority: int) -> None:
        """No API can do that: the pod is written as if it had been created so. One that waits is tried anew."""
        if not pod["spec"].get("nodeName"):
            stored = self.api.store.find(PODS, (pod["metadata"]["namespace"], pod["metadata"]["name"]))
            assert stored is not None
            self.api.store.remove(PODS, stored)
            pod["metadata"]["uid"] += "-again"
        pod["spec"] |= {"priority": priority, "priorityClassName": f"p{priority}"}
        self.api.store.put(PODS, pod)

    def _set_template(self, kind: str, name: str, priority: int) -> None:
        """Pods that are made again have the new priority, too."""
        stored = self.api.store.find(REPLICA_SETS, ("default", name)) if kind == "ReplicaSet" else None
        if stored is not None:
            owner = stored.fresh()
            owner["spec"]["template"]["spec"]["priorityClassName"] = f"p{priority}"
            self.api.store.put(REPLICA_SETS, owner)

    def _drain(self, nodes: Sequence[str]) -> int:
        """Evict what is on these nodes, as far as budgets allow; how many pods were evicted."""
        evicted = 0
        for stored in list(self.api.store.collection(PODS)):
            if stored.fields["spec.nodeName"] in nodes:
                with suppress(ApiError):
                    evict(self.api, Target(PODS, *stored.key), {"metadata": {"name": stored.key[1]}}, DeleteOptions())
                    evicted += 1
        return evicted

    def world(self) -> World:
        """The cluster as a plan reads it."""
        reader = WorldReader(self._state.settings, self._state.scheduler)
        for kind, resource in _RESOURCES.items():
            for stored in self.api.store.collection(resource):
                reader.add(f"{resource.group}/{resource.version}".lstrip("/"), kind, stored.raw)
        assert not reader.faults, reader.faults
        return reader.world(source="truth")

    # -- rest -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen until no pod comes or goes any more: some are tried again for ever."""
        places: dict[str, str] = {}
        quiet_since = self.now
        for _ in range(20_000):
            if self._deliver() or self._ticked() or self.scheduling.attempt():
                self.rested_at = self.now
                self._pass_time(0.0005)
                continue
            if places != (places := self._places()):
                quiet_since = self.now
            due = self._due()
            if due is None or due > quiet_since + _PATIENCE:
                return
            self._pass_time(max(0.0, due - self.now) + ROUND_TRIP)
        raise NeverRestsError

    def _places(self) -> dict[str, str]:
        return {each.uid: each.fields["spec.nodeName"] for each in self.api.store.collection(PODS)}

    def _due(self) -> float | None:
        replica = self.replicas[0]
        times = (replica.machine.next_due(), self.scheduling.core.queue.next_error_tick)
        return min((time for time in times if time is not None), default=None)

    def _ticked(self) -> bool:
        """Whether a timer of Waggle's was due; it has fired, as it does on a thread of its own."""
        replica = self.replicas[0]
        due = replica.machine.next_due()
        if due is None or due > self.now:
            return False
        replica.handle(Ticked())
        return True

    def _deliver(self) -> bool:
        """Whether anything was on its way; it has arrived."""
        return self._controlled() or self._informed() or self._written() or self._run()

    def _controlled(self) -> bool:
        """Controllers are quick, and learn of every change at once."""
        before = self.api.store.revision
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        return self.api.store.revision != before

    def _informed(self) -> bool:
        [replica] = self.replicas
        busy = False
        for informer in (replica.nodes, replica.pods):
            while not self._is_up_to_date(informer):
                busy = True
                replica.step_informer(informer)
        for heard in (self.scheduling.nodes, self.scheduling.pods, self._budgets):
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
    with closing(LiveCluster(state)) as live:
        live.settle()
        return live.rested_at < _AT_ONCE


def begins_as(state: State) -> World:
    """The world at the beginning."""
    with closing(LiveCluster(state)) as live:
        return live.world()


def what_happens(state: State) -> tuple[World, dict[str, Outcome]]:
    """The world at the beginning, and what has become of every pod at the end. Raises NeverRestsError."""
    with closing(LiveCluster(state)) as live:
        if state.new_settings is not None or state.new_algorithm is not None:
            live.settle()
            live.restart()
        world = live.world()
        live.settle()
        live.make_changes()
        live.make_objects()
        live.settle()
        return world, live.outcomes()


class _Users(Users):
    """Kubelets whose pods are ready as soon as they run."""

    def kubelets(self) -> None:
        super().kubelets()
        for stored in list(self.api.store.collection(PODS)):
            if stored.fields["status.phase"] == "Running" and not is_ready(stored.fresh()):
                self.patch(stored.key[1], {"status": {"conditions": [_READY]}}, "status")


def belongs(pod: Object, kind: str, name: str) -> bool:
    """Whether it is the pod of this kind and name, or belongs to a gang or a workload of this name."""
    metadata = pod["metadata"]
    if kind == GROUP:
        return bool(metadata.get("annotations", {}).get(GANG_ANNOTATION) == name)
    if kind == "Pod":
        return bool(metadata["name"] == name)
    return any((each["kind"], each["name"]) == (kind, name) for each in metadata.get("ownerReferences", ()))


def reprioritised(state: State, body: Object) -> Object:
    """A new object, with the new priority of its pods if there is one."""
    body = deepcopy(body)
    for kind, name, priority in state.priorities:
        if "template" in body["spec"]:
            if (body["kind"], body["metadata"]["name"]) == (kind, name):
                body["spec"]["template"]["spec"]["priorityClassName"] = f"p{priority}"
        elif belongs(body, kind, name):
            body["spec"]["priorityClassName"] = f"p{priority}"
    return body


def _owns(body: Object, name: str) -> bool:
    return body["metadata"]["name"] == name and "template" in body["spec"]
