"""The cache: nodes, and the pods that take room on them, including assumed pods that are not confirmed yet.

                assume                  add_pod                  remove_pod
    Initial ------------> ASSUMED ------------------> ADDED -------------------> Deleted
       ^                   | |  ^                       ^
       |      forget       | |  |                       | add_pod: the confirmation
       +-------------------+ |  | assume: proposed      |          came late
                      expire v  |         again         |
                            EXPIRED --------------------+

    Initial -> ADDED       add_pod: bound by another client, or before we started
    ADDED   -> ADDED       add_pod: seen again, changed, moved to another node
    any     -> Initial     forget: no source names it any more, and it may come again
    any     -> Deleted     remove_pod, or another UID under the same name

Assumptions, and their consequences:

* A UID never comes back: any event of a removed UID (by default the last 10,000 are remembered) is late and ignored.
* Of several records of one object, the one with the highest resourceVersion counts; an older one is late and ignored.
  Events may be missed, doubled or reordered; the youngest event received counts. `is_late` is the engine's only filter
  of events, so the cache also hears of pods that take no room: `show`, `ignore`.
* A name has one pod at a time. Another UID under the same name means that the old pod was deleted and the event was
  missed, unless the new record's resourceVersion is lower: then it is a late event of an older pod.
* An assumed record is our own; an event comes from the API server. The event wins, also if it names another node.
* Nothing expires by itself. The caller of `expire` has read the pod live and found it unbound.
* Pods may be on nodes that are not known yet, or no longer known; they are counted under the node's name all the same.
* A finished pod takes no room: it is removed.

Requests are counted as pods come and go; `snapshot` rebuilds only the nodes that changed since the last one.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType

from algorithm.model import Node, Pod, PodKey
from algorithm.tables import Table
from extender.core.freshness import ShownVersions, older
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.state.cache_records import CacheError, Counts, PodState, Record, Snapshot
from extender.scheduling.state.node_info import NodeInfo, NodeInfoBuilder, by_name
from extender.scheduling.state.selector import Selector

__all__ = ["Cache", "CacheError", "Counts", "NodeInfo", "PodState", "Snapshot"]


class Cache:
    """See the module docstring. To recognise late events, it remembers this many removed UIDs and ignored pods."""

    def __init__(self, *, remembered: int = 10_000, ignored: int = 4096) -> None:
        #: What the API server has shown of pods, those that take no room included.
        self.versions: ShownVersions[PodKey] = ShownVersions(gone=remembered, ignored=ignored)
        self._pods: Table[str, Record] = Table()
        self._uids: dict[PodKey, str] = {}
        self._states: Counter[PodState] = Counter()
        self._nodes: Table[str, Node] = Table()
        #: A builder for every known node, and for every node name that pods are on; no others.
        self._builders: Table[str, NodeInfoBuilder] = Table()
        self._generation = 0
        #: Names of nodes whose builder differs from their NodeInfo in _infos.
        self._changed: set[str] = set()
        self._infos: dict[str, NodeInfo] = {}
        #: The names of which the builder has changed, while the state is copied (`scheduling/fork.py`).
        self.watch: set[str] | None = None
        self._snapshot = Snapshot(0, MappingProxyType(self._infos), self.counts())

    # -- our own decisions ------------------------------------------------------------------------------------

    def assume(self, pod: Pod) -> None:
        """Count the pod on `pod.node_name` at once, before the API server confirms it.

        Raises CacheError if it is Assumed or Added already, if its UID was removed, or if a younger pod has its name.
        """
        _check(pod)
        held = self._pods.get(pod.uid)
        if held is not None and held.state is not PodState.EXPIRED:
            raise CacheError(f"{_text(pod)} cannot be assumed on {pod.node_name}: {held.state} on {held.pod.node_name}")
        if self.removed(pod.uid) or self._has_successor(pod):
            raise CacheError(f"{_text(pod)} cannot be assumed on {pod.node_name}: it no longer exists")
        self._put(pod, PodState.ASSUMED)

    def assume_if(self, pod: Pod, outcome: Outcome) -> bool:
        """Assume the pod if its binding was written, in one step. True if it takes room on that node now.

        Only DONE changes anything. DONE changes nothing either if the API server has meanwhile shown the pod bound, or
        gone: such events are younger than our write.
        """
        _check(pod)
        if outcome.kind is not OutcomeKind.DONE:
            return False
        held = self._pods.get(pod.uid)
        if held is not None and held.state is PodState.ADDED:
            return held.pod.node_name == pod.node_name
        if self.removed(pod.uid) or self._has_successor(pod):
            return False
        self._put(pod, PodState.ASSUMED)
        return True

    def forget(self, uid: str) -> Pod:
        """Make the pod unknown again, and free its room. Raises CacheError if it is not in the cache."""
        held = self._pods.get(uid)
        if held is None:
            raise CacheError(f"pod {uid!r} cannot be forgotten: it is not in the cache")
        if held.state is PodState.ADDED:
            self.versions.drop(held.pod.key, uid)
        return self._drop(uid)

    def expire(self, uid: str) -> Pod:
        """Expire an Assumed pod that was found unbound: it takes no room any more. Raises CacheError if not Assumed."""
        held = self._pods.get(uid)
        if held is None:
            raise CacheError(f"pod {uid!r} cannot expire: it is not in the cache")
        if held.state is not PodState.ASSUMED:
            raise CacheError(f"{_text(held.pod)} cannot expire: it is {held.state} on {held.pod.node_name}")
        self._put(held.pod, PodState.EXPIRED)
        return held.pod

    # -- events of the API server -----------------------------------------------------------------------------

    def is_late(self, pod: Pod) -> bool:
        """Whether the API server has shown something younger than this record: of this pod, or of one with its name.

        So is an unbound record of a pod that was shown bound, whatever its version is: no pod is ever unbound.
        """
        if self.versions.is_late(pod.key, pod.uid, pod.resource_version):
            return True
        return not pod.node_name and not pod.finished and self.state(pod.uid) is PodState.ADDED

    def is_late_node(self, node: Node) -> bool:
        """Whether a younger record of the node is known."""
        known = self._nodes.get(node.name)
        return known is not None and older(node.resource_version, known.resource_version)

    def show(self, pod: Pod) -> None:
        """Hear of a record that is not late, of a pod that may take no room. From now on, older records are late."""
        self.versions.show(pod.key, pod.uid, pod.resource_version)

    def add_pod(self, pod: Pod) -> Pod | None:
        """Hear of a pod that is bound or finished: `is_late`, `show`, `put_bound` in one. Returns the record held now.

        None if no record is held: the event was late and changed nothing, or the pod is finished and was removed.
        Another pod of this name is removed. Raises CacheError if the pod has no UID, or is neither bound nor finished.
        """
        _check(pod, bound=not pod.finished)
        if self.is_late(pod) or self._has_successor(pod):
            return None
        if pod.finished:
            self._remove_namesake(pod)
            self.remove_pod(pod.uid)
            return None
        self.show(pod)
        self._put(pod, PodState.ADDED)
        return pod

    update_pod = add_pod

    def put_bound(self, pod: Pod) -> None:
        """Add or update a bound pod, on any node, by a record that is not late. Another pod of this name is removed."""
        _check(pod)
        self._put(pod, PodState.ADDED)

    def remove_pod(self, uid: str) -> Pod | None:
        """Remove a pod that is gone for good. Returns the record that was held, None if there was none."""
        self.versions.add_tombstone(uid)
        if uid not in self._pods:
            return None
        pod = self._drop(uid)
        self.versions.drop(pod.key, uid)
        return pod

    def set_node(self, node: Node) -> Node | None:
        """Add or update a node. Returns the record that was held before. The caller handles a change of the UID."""
        before = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if node != before:
            self._builder(node.name).node = node
            self._mark(node.name)
        return before

    def remove_node(self, name: str) -> Node | None:
        """Remove a node. Returns its record, None if it was not known. Pods on it stay counted until removed."""
        before = self._nodes.pop(name, None)
        if before is not None:
            self._builder(name).node = None
            self._left(name)
        return before

    # -- after the checks -------------------------------------------------------------------------------------

    def _has_successor(self, pod: Pod) -> bool:
        """Whether a younger pod has the name. It may be one that was only assumed, and never shown."""
        uid = self._uids.get(pod.key, pod.uid)
        return uid != pod.uid and older(pod.resource_version, self._pods[uid].pod.resource_version)

    def _put(self, pod: Pod, state: PodState) -> None:
        held = self._pods.get(pod.uid)
        if held == (pod, state):
            return
        if held is not None and _takes_the_same(held, pod, state):
            self._replace(held.state, pod, state)
            return
        self._remove_namesake(pod)
        if held is not None:
            self._drop(pod.uid)
        self._pods[pod.uid] = Record(pod, state)
        self._uids[pod.key] = pod.uid
        self._states[state] += 1
        self._generation += 1
        if state is not PodState.EXPIRED:
            self._builder(pod.node_name).add_pod(pod)
            self._mark(pod.node_name)

    def _replace(self, before: PodState, pod: Pod, state: PodState) -> None:
        """Replace a record by one that takes the same, as in most updates of a pod and when it is confirmed."""
        self._pods[pod.uid] = Record(pod, state)
        self._states[before] -= 1
        self._states[state] += 1
        self._generation += 1
        if state is not PodState.EXPIRED:
            self._builders[pod.node_name].pods[pod.uid] = pod
            self._mark(pod.node_name)

    def _remove_namesake(self, pod: Pod) -> None:
        uid = self._uids.get(pod.key, pod.uid)
        if uid != pod.uid:
            self.remove_pod(uid)

    def _drop(self, uid: str) -> Pod:
        pod, state = self._pods.pop(uid)
        del self._uids[pod.key]
        self._states[state] -= 1
        self._generation += 1
        if state is not PodState.EXPIRED:
            self._builder(pod.node_name).remove_pod(pod)
            self._left(pod.node_name)
        return pod

    def _builder(self, name: str) -> NodeInfoBuilder:
        builder = self._builders.get(name)
        if builder is None:
            builder = self._builders[name] = NodeInfoBuilder()
        return builder

    def _mark(self, name: str) -> None:
        """Record that the pods or the node under this name have changed."""
        self._generation += 1
        self._changed.add(name)
        builder = self._builders[name]
        builder.generation = self._generation
        if self.watch is not None:
            self.watch.add(name)

    def _left(self, name: str) -> None:
        """Record that a pod or the node under this name is gone. A builder with neither is dropped."""
        self._mark(name)
        if self._builders[name].deserted:
            del self._builders[name]

    def restore_names(self) -> None:
        """Make the index of names from the records, in a copy."""
        self._uids = {held.pod.key: uid for uid, held in self._pods.items()}

    @property
    def builders(self) -> dict[str, NodeInfoBuilder]:
        """The builder of each node's name, for a copy of the cache."""
        return self._builders

    # -- reading ----------------------------------------------------------------------------------------------

    def pod(self, uid: str) -> Pod | None:
        """The record that is held, in any state."""
        held = self._pods.get(uid)
        return held.pod if held else None

    def state(self, uid: str) -> PodState | None:
        held = self._pods.get(uid)
        return held.state if held else None

    def removed(self, uid: str) -> bool:
        """Whether this UID is known to be gone for good."""
        return uid in self.versions.gone

    def uid_of(self, namespace: str, name: str) -> str | None:
        """The UID of the pod with this name, in any state."""
        return self._uids.get(PodKey(namespace, name))

    def pods(self, selector: str | Selector = "", namespace: str = "") -> list[Pod]:
        """Pods that take room (Assumed and Added), by namespace and name; an empty `namespace` means all.

        `selector` is a Kubernetes label selector; raises ValueError naming the part of it that cannot be read.
        """
        wanted = Selector.parse(selector) if isinstance(selector, str) else selector
        found = [
            pod
            for pod, state in self._pods.values()
            if state is not PodState.EXPIRED and namespace in ("", pod.namespace) and wanted.matches(pod.labels)
        ]
        return sorted(found, key=by_name)

    def pods_on(self, node: str) -> list[Pod]:
        """Pods that take room on the node, by namespace and name."""
        builder = self._builders.get(node)
        return builder.sorted_pods() if builder else []

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def nodes(self) -> list[Node]:
        """All known nodes, by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    def counts(self) -> Counts:
        """Sizes for metrics; costs nothing."""
        assumed = self._states[PodState.ASSUMED]
        return Counts(
            nodes=len(self._nodes),
            pods=assumed + self._states[PodState.ADDED],
            assumed=assumed,
            expired=self._states[PodState.EXPIRED],
        )

    def snapshot(self) -> Snapshot:
        """Return an immutable snapshot of the current state.

        It costs a shallow copy, and a rebuild of the nodes that changed since the last call.
        """
        if self._generation == self._snapshot.generation:
            return self._snapshot
        infos = self._infos.copy()
        for name in self._changed:
            if name in self._builders:
                infos[name] = self._builders[name].info()
            else:
                infos.pop(name, None)
        if not infos.keys() <= self._infos.keys():
            infos = dict(sorted(infos.items()))
        self._infos = infos
        self._changed.clear()
        self._snapshot = Snapshot(self._generation, MappingProxyType(infos), self.counts())
        return self._snapshot

    # -- proof ------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Derive every aggregate and index again. Raises AssertionError that names the difference."""
        for uid, (pod, _) in self._pods.items():
            assert uid == pod.uid, f"{_text(pod)} is held under {uid}"
            assert pod.node_name, f"{_text(pod)} is held without a node"
            assert not self.removed(uid), f"{_text(pod)} is held and removed"
        uids = {pod.key: uid for uid, (pod, _) in self._pods.items()}
        assert self._uids == uids, f"names: {self._uids}, pods: {uids}"
        assert len(uids) == len(self._pods), f"a name is held twice: {sorted(self._pods)}"
        states = Counter(state for _, state in self._pods.values())
        assert +self._states == states, f"states: counted {dict(self._states)}, are {dict(states)}"
        self.versions.validate()
        self._validate_builders()
        self._validate_infos()

    def _validate_builders(self) -> None:
        builders: dict[str, NodeInfoBuilder] = {}
        for name, node in self._nodes.items():
            assert name == node.name, f"node {node.name} is held under {name}"
            builders.setdefault(name, NodeInfoBuilder()).node = node
        for pod, state in self._pods.values():
            if state is not PodState.EXPIRED:
                builders.setdefault(pod.node_name, NodeInfoBuilder()).add_pod(pod)
        assert builders.keys() == self._builders.keys(), (
            f"builders: {sorted(self._builders)}, expected {sorted(builders)}"
        )
        for name, builder in builders.items():
            held = self._builders[name]
            assert held.node == builder.node, f"{name}: node is {held.node}, expected {builder.node}"
            assert held.pods == builder.pods, f"{name}: pods are {held.pods}, expected {builder.pods}"
            assert held.requested == builder.requested, (
                f"{name}: requested {held.requested}, expected {builder.requested}"
            )

    def _validate_infos(self) -> None:
        assert list(self._infos) == sorted(self._infos), "nodes of the snapshot are not sorted"
        for name in self._infos.keys() | self._builders.keys():
            if name not in self._changed:
                info = self._builders[name].info() if name in self._builders else None
                assert self._infos.get(name) == info, f"{name}: snapshot {self._infos.get(name)}, is {info}"


def _check(pod: Pod, *, bound: bool = True) -> None:
    if not pod.uid:
        raise CacheError(f"{_text(pod)}: metadata.uid is empty")
    if bound and not pod.node_name:
        raise CacheError(f"{_text(pod)}: spec.nodeName is empty, a node's name was expected")


def _takes_the_same(held: Record, pod: Pod, state: PodState) -> bool:
    """Whether this pod takes the same room under the same name as before, or both take none."""
    return (
        held.pod.node_name == pod.node_name
        and held.pod.requests == pod.requests
        and held.pod.name == pod.name
        and held.pod.namespace == pod.namespace
        and (held.state is state or PodState.EXPIRED not in (held.state, state))
    )


def _text(pod: Pod) -> str:
    return f"pod {pod.key} (uid {pod.uid!r})"
