"""The configuration of sets, and the pods and nodes of the cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from algorithm.placements.policy import Policy, PolicyError
from extender.core.freshness import older
from extender.vpods.events import (
    HostNodeGone,
    HostNodeSeen,
    HostPodGone,
    HostPodSeen,
    SetsConfigured,
    WorkloadGone,
)
from extender.vpods.members import Members
from extender.vpods.names import split
from extender.vpods.notices import NoticeReason
from extender.vpods.records import HostPod, ObjectKey, SetSettings
from extender.vpods.sets import HostedSet
from extender.vpods.state import EngineState

#: Makes a policy from its name and settings. Raises PolicyError.
MakePolicy: TypeAlias = Callable[[str, Mapping[str, Any]], Policy]
#: Pods by the key of their StatefulSet, and by ordinal.
_Pods: TypeAlias = Mapping[ObjectKey, dict[int, HostPod]]


class Cluster:
    """See the module."""

    def __init__(self, state: EngineState, members: Members, policies: MakePolicy) -> None:
        self._state = state
        self._members = members
        self._policies = policies

    # -- sets

    def configured(self, event: SetsConfigured) -> None:
        """Build all sets anew. What is under way goes on, and keeps its room."""
        state = self._state
        old = dict(state.sets)
        state.sets.clear()
        state.refused = dict(event.refused)
        state.by_workload.clear()
        pods = self._pods_by_workload()
        for settings in sorted(event.sets, key=lambda each: each.key):
            self._add(settings, old.get(settings.key), pods)
        for key in old.keys() - state.sets.keys():
            state.scaling.pop(key, None)
            state.scales.discard(key)
        for tracked in state.vpods.values():
            if tracked.overlap:
                tracked.overlap.moves = 0
            self._members.enter(tracked)
            self._members.hold_again(tracked)

    def _pods_by_workload(self) -> _Pods:
        """All pods by StatefulSet and ordinal, in one look at them: there may be a thousand sets."""
        found: defaultdict[ObjectKey, dict[int, HostPod]] = defaultdict(dict)
        for pod in self._state.pods.values():
            if named := split(pod.key.name):
                found[ObjectKey(pod.key.namespace, named[0])][named[1]] = pod
        return found

    def _add(self, settings: SetSettings, before: HostedSet | None, pods: _Pods) -> None:
        state, key = self._state, settings.key
        hosted = state.sets[key] = HostedSet(settings, self._policy(settings))
        if before and before.settings.workload == settings.workload:
            hosted.inherit(before)
        else:
            state.scaling.pop(key, None)
        if hosted.policy is None:
            hosted.policy_fault = self._fault
            state.notice_set(key, NoticeReason.POLICY_FAILED, self._fault, is_warning=True)
        workload = ObjectKey(key.namespace, settings.workload)
        if state.by_workload.setdefault(workload, key) == key:
            self._attach(key, workload, pods)

    def _policy(self, settings: SetSettings) -> Policy | None:
        self._fault = ""
        try:
            return self._policies(settings.policy, settings.policy_settings)
        except PolicyError as error:
            self._fault = str(error)
            return None

    def _attach(self, key: ObjectKey, workload: ObjectKey, pods: _Pods) -> None:
        """Tell a new set what is known of its StatefulSet and pods."""
        state = self._state
        hosted = state.sets[key]
        hosted.workload = state.workloads.get(workload)
        hosted.state.replicas = hosted.replicas
        hosted.pods = dict(pods.get(workload, {}))
        state.refresh(key)

    def workload_gone(self, event: WorkloadGone) -> None:
        state = self._state
        state.workloads.pop(event.key, None)
        if key := state.by_workload.get(event.key):
            hosted = state.sets[key]
            hosted.workload = None
            hosted.state.replicas = 0
            hosted.draining = hosted.low_since = hosted.drains = None
            state.scaling.pop(key, None)
            state.refresh(key)
            state.dirty_all(key)

    # -- pods

    def pod_seen(self, event: HostPodSeen) -> None:
        pod = event.pod
        known = self._state.pods.get(pod.key)
        if known and older(pod.version, than=known.version):
            return
        self._state.pods[pod.key] = pod
        self._pod_changed(pod.key, pod)

    def pod_gone(self, event: HostPodGone) -> None:
        known = self._state.pods.get(event.key)
        if known and known.uid == event.uid:
            del self._state.pods[event.key]
            self._pod_changed(event.key, None)

    def _pod_changed(self, name: ObjectKey, pod: HostPod | None) -> None:
        state = self._state
        found = split(name.name)
        if found is None or (key := state.by_workload.get(ObjectKey(name.namespace, found[0]))) is None:
            return
        hosted = state.sets[key]
        if pod is None:
            hosted.pods.pop(found[1], None)
        else:
            hosted.pods[found[1]] = pod
        if hosted.pod_changed(found[1], state.nodes, state.now):
            state.dirty_all(key)

    # -- nodes

    def node_seen(self, event: HostNodeSeen) -> None:
        if self._state.nodes.get(event.node.name) != event.node:
            self._state.nodes[event.node.name] = event.node
            self._node_changed(event.node.name)

    def node_gone(self, event: HostNodeGone) -> None:
        if self._state.nodes.pop(event.name, None):
            self._node_changed(event.name)

    def _node_changed(self, name: str) -> None:
        state = self._state
        for key, hosted in state.sets.items():
            on_it = [ordinal for ordinal, pod in hosted.pods.items() if pod.node == name]
            changed = [hosted.pod_changed(ordinal, state.nodes, state.now) for ordinal in on_it]
            if any(changed):
                state.dirty_all(key)

    def on_time(self) -> None:
        """The rest of a pod may have ended."""
        state = self._state
        for key, hosted in state.sets.items():
            for ordinal in hosted.rests.due(state.now):
                changed = hosted.pod_changed(ordinal, state.nodes, state.now)
                hosted.rests.discard(ordinal)
                if changed:
                    state.dirty_all(key)
