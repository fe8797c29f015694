"""What targets have reached: pods are counted under all that they belong to.

    pod --> Job --> replicatedJob, JobSet        A share is what one adds to those above it. A Job that has
    pod --> ReplicaSet --> Deployment            completed adds all its pods, also deleted ones.
    pod --> gang, task of a Volcano Job

A change of one pod costs a few additions, however many pods there are. Owners are known by their UID, so that pods of
a Job that was deleted do not count for the next one of its name. An owner's kind is always above the kind of what it
owns, so that no ownerReference can lead in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from extender.ordering.records import (
    DEPLOYMENT,
    ENDLESS,
    GROUP,
    JOB_SET,
    REPLICATED_JOB,
    VOLCANO_TASK,
    Part,
    PodKey,
    PodRecord,
    Target,
    WorkloadRecord,
)
from extender.ordering.shares import (
    BOUND,
    FAILED,
    JOBS,
    MISSING,
    NOTHING,
    PODS,
    READY,
    SUCCEEDED,
    Share,
    Standing,
    share_of_pod,
    standing_of,
    standing_of_pod,
)

T = TypeVar("T")
#: A target with the UID of the object; "" for gangs and for parts, which pods name without one.
NodeKey: TypeAlias = tuple[Target, str]
_TOP = (DEPLOYMENT, JOB_SET)


class Node(msgspec.Struct):
    """A workload, a part of one, or a gang."""

    key: NodeKey
    record: WorkloadRecord | None = None
    counts: list[int] = msgspec.field(default_factory=lambda: [0] * 6)
    #: What it adds to its parents.
    parents: tuple[NodeKey, ...] = ()
    share: Share = NOTHING
    children: dict[NodeKey, None] = msgspec.field(default_factory=dict)
    #: UIDs of pods that wait, in it and in none of its children.
    waiting: dict[str, None] = msgspec.field(default_factory=dict)
    #: Pods that are in it and in none of its children.
    members: int = 0
    #: Of a gang: the pods' minimums, and the owners of its pods (None: a pod without). Of an owner: gangs of its pods.
    minimums: Counter[int] = msgspec.field(default_factory=Counter)
    owners: Counter[NodeKey | None] = msgspec.field(default_factory=Counter)
    gangs: Counter[NodeKey] = msgspec.field(default_factory=Counter)
    standing: Standing = MISSING
    #: How many pods it has and needs.
    size: tuple[int, int] = (0, 0)

    @property
    def is_empty(self) -> bool:
        return not (self.record or self.children or self.members or self.gangs or any(self.counts))


class _Known(NamedTuple):
    """A pod as it was counted."""

    parents: tuple[NodeKey, ...]
    share: Share
    minimum: int


class Tree:
    """See the module. `changed` is called with each target whose standing is another now."""

    def __init__(self, changed: Callable[[Target], None]) -> None:
        self._changed = changed
        self.nodes: dict[NodeKey, Node] = {}
        self.pods: dict[str, PodRecord] = {}
        self.uids: dict[PodKey, str] = {}
        #: The UID of the object that has a name now; "" for gangs.
        self.current: dict[Target, str] = {}
        #: Parts, with the object that has them.
        self.parts: dict[Target, tuple[Part, NodeKey]] = {}
        self._known: dict[str, _Known] = {}
        #: Whether a target whose pods wait has come to have or to need more or fewer pods; the reader resets it.
        self.reshaped = False

    # -- reading

    def node_of(self, target: Target) -> Node | None:
        """The node of the object that has this name now."""
        return self.nodes.get((target, self.current.get(target, "")))

    def standing(self, target: Target) -> Standing:
        """What a target has reached; `MISSING` if it does not exist."""
        if target.kind == "Pod":
            uid = self.uids.get(PodKey(target.namespace, target.name))
            return MISSING if uid is None else standing_of_pod(self.pods[uid])
        node = self.node_of(target)
        if node is None:
            return self._evaluate(Node((target, ""))) if target in self.parts else MISSING
        return node.standing

    def above(self, record: PodRecord) -> Iterator[NodeKey]:
        """All that a pod belongs to, nearest first."""
        keys = list(_parents(record))
        while keys:
            key = keys.pop(0)
            yield key
            node = self.nodes.get(key)
            keys.extend(node.parents if node else ())

    def expected(self, node: Node) -> int:
        """How many pods a target needs at once."""
        target = node.key[0]
        if target in self.parts:
            return self.parts[target][0].pods
        if node.record is not None:
            return node.record.pods
        return max(node.minimums, default=1) if target.kind == GROUP else 0

    # -- pods

    def put_pod(self, record: PodRecord) -> None:
        """Count a pod as it is now."""
        before = self.pods.get(record.uid)
        was = self.standing(record.key.target)
        self.pods[record.uid], self.uids[record.key] = record, record.uid
        parents, share, minimum = _parents(record), share_of_pod(record), record.minimum
        known = self._known.get(record.uid)
        if before is None or known is None or known.parents != parents or known.minimum != minimum:
            self._unlink(record.uid)
            self._link(record, parents, minimum)
            known = _Known(parents, NOTHING, minimum)
        self._known[record.uid] = _Known(parents, share, minimum)
        self._add(parents, known.share, share)
        self._compare_pod(record.key.target, was)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        record = self.pods[uid]
        was = self.standing(record.key.target)
        self._unlink(uid)
        del self.pods[uid]
        if self.uids.get(record.key) == uid:
            del self.uids[record.key]
        self._compare_pod(record.key.target, was)

    def _compare_pod(self, target: Target, was: Standing) -> None:
        if self.standing(target) != was:
            self._changed(target)

    def _link(self, record: PodRecord, parents: tuple[NodeKey, ...], minimum: int) -> None:
        owner = (record.owner, record.owner_uid) if record.owner else None
        for key in parents:
            node = self._node(key)
            node.members += 1
            if key[0].kind == GROUP:
                node.minimums[minimum] += 1
                node.owners[owner] += 1
                if owner:
                    self._node(owner).gangs[key] += 1

    def _unlink(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is None:
            return
        owner = next((key for key in known.parents if key[0].kind not in (GROUP, VOLCANO_TASK)), None)
        for key in known.parents:
            node = self.nodes[key]
            node.waiting.pop(uid, None)
            node.members -= 1
            if key[0].kind == GROUP:
                _less(node.minimums, known.minimum)
                _less(node.owners, owner)
                if owner:
                    _less(self.nodes[owner].gangs, key)
        self._add(known.parents, known.share, NOTHING)

    def wait(self, uid: str, *, waits: bool) -> None:
        """Whether a pod waits now, for those who ask which pods of a target do."""
        for key in self._known[uid].parents:
            if waits:
                self._node(key).waiting[uid] = None
            elif node := self.nodes.get(key):
                node.waiting.pop(uid, None)

    # -- workloads

    def put_workload(self, record: WorkloadRecord) -> None:
        """Count an object as it is now."""
        key = (record.target, "" if record.target.kind == GROUP else record.uid)
        node = self._node(key)
        before, node.record = node.record, record
        self._set_parts(key, before, record)
        self.current[record.target] = key[1]
        self._set_parents(node, _parents_of_workload(record))
        self._refresh(key)

    def drop_workload(self, key: NodeKey) -> None:
        """An object is gone. Its pods may still be there, and are no longer of anything that exists."""
        node = self.nodes[key]
        before, node.record = node.record, None
        self._set_parts(key, before, None)
        self._set_parents(node, ())
        if self.current.get(key[0]) == key[1]:
            del self.current[key[0]]
            self._changed(key[0])
        self._refresh(key)

    def _set_parents(self, node: Node, parents: tuple[NodeKey, ...]) -> None:
        if node.parents == parents:
            return
        before, node.parents = node.parents, ()
        for key in before:
            self.nodes[key].children.pop(node.key, None)
        self._add(before, node.share, NOTHING)
        node.parents, node.share = parents, NOTHING
        for key in parents:
            self._node(key).children[node.key] = None
            self._refresh(key)  # it exists now, though it has no pods

    def _set_parts(self, key: NodeKey, before: WorkloadRecord | None, now: WorkloadRecord | None) -> None:
        old = {part.target: part for part in before.parts} if before else {}
        new = {part.target: part for part in now.parts} if now else {}
        for target in old.keys() - new.keys():
            if self.parts.get(target, (None, None))[1] == key:
                del self.parts[target]
        for target, part in new.items():
            self.parts[target] = part, key
        same = before and now and (before.failed, before.complete) == (now.failed, now.complete)
        for target in sorted(old.keys() | new.keys()):
            if not same or old.get(target) != new.get(target):
                self._refresh((target, ""))
                self._changed(target)

    # -- counting

    def _node(self, key: NodeKey) -> Node:
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(key)
        return node

    def _add(self, keys: tuple[NodeKey, ...], before: Share, now: Share) -> None:
        for key in keys:
            node = self._node(key)
            if before != now:
                node.counts = [each - old + new for each, old, new in zip(node.counts, before, now, strict=True)]
            self._refresh(key)

    def _refresh(self, key: NodeKey) -> None:
        """Derive the standing and the share of a node from its counts."""
        node = self.nodes.get(key)
        if node is None:
            return
        was, node.standing = node.standing, self._evaluate(node)
        size = node.counts[PODS], self.expected(node)
        if size != node.size:
            node.size = size
            self.reshaped = self.reshaped or bool(node.waiting or node.children)
        if was != node.standing:
            if self.current.get(key[0], "") == key[1]:
                self._changed(key[0])
            for gang in list(node.gangs):
                self._refresh(gang)
        share = _share_of_workload(node)
        if share != node.share:
            before, node.share = node.share, share
            self._add(node.parents, before, share)
        if node.is_empty:
            self.nodes.pop(key, None)

    def _evaluate(self, node: Node) -> Standing:
        target = node.key[0]
        if target.kind == GROUP:
            return self._of_gang(node)
        if target in self.parts:
            return self._of_part(node, *self.parts[target])
        return _of_workload(node, node.record) if node.record else MISSING

    def _of_part(self, node: Node, part: Part, owner: NodeKey) -> Standing:
        above = self.nodes.get(owner)
        record = above.record if above else None
        failed = record.failed if record and not record.complete else ""
        if part.target.kind == REPLICATED_JOB:
            complete = node.counts[JOBS] >= part.jobs > 0
        else:
            complete = node.counts[SUCCEEDED] >= part.pods > 0
        complete = complete or bool(record and record.complete)
        return standing_of(node.counts, part.pods, complete=complete, failed=failed, root=owner[0])

    def _of_gang(self, node: Node) -> Standing:
        counts, needed = node.counts, self.expected(node)
        if not node.record and not node.members:
            return MISSING
        complete = counts[SUCCEEDED] == counts[PODS] >= needed
        failed, root = "", None
        if counts[FAILED] and counts[PODS] - counts[FAILED] < needed:
            failed, root = self._why_gang_failed(node)
        return standing_of(counts, needed, complete=complete, failed=failed, root=root)

    def _why_gang_failed(self, node: Node) -> tuple[str, Target | None]:
        """Say why no controller replaces the failed pods of a gang; "" if one may do so."""
        failed, root = "too many of its pods failed", node.key[0]
        for owner in node.owners:
            above = self.nodes.get(owner) if owner else None
            if owner and above and above.record:
                if not above.standing.failed:
                    return "", None
                failed, root = above.standing.failed, owner[0]
        return failed, root

    def validate(self) -> None:
        """Count again. Raises AssertionError that names the difference."""
        counts: dict[NodeKey, list[int]] = {}
        shares = [(_parents(pod), share_of_pod(pod)) for pod in self.pods.values()]
        shares += [(node.parents, _share_of_workload(node)) for node in self.nodes.values()]
        for parents, share in shares:
            for key in parents:
                counts[key] = [a + b for a, b in zip(counts.get(key, NOTHING), share, strict=True)]
        for key, node in self.nodes.items():
            assert node.counts == counts.get(key, list(NOTHING)), f"{key}: {node.counts} instead of {counts.get(key)}"
            assert node.standing == self._evaluate(node), f"{key}: {node.standing} instead of {self._evaluate(node)}"
            assert not node.is_empty, f"{key} is empty"
        assert counts.keys() <= self.nodes.keys(), f"{counts.keys() - self.nodes.keys()} are not known"


def _less(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


def _parents(record: PodRecord) -> tuple[NodeKey, ...]:
    found = [(record.owner, record.owner_uid)] if record.owner else []
    found += [(each, "") for each in (record.group, record.part) if each]
    return tuple(found)


def _parents_of_workload(record: WorkloadRecord) -> tuple[NodeKey, ...]:
    owner = record.owner
    found = []
    if owner and owner.kind in _TOP and record.target.kind not in _TOP and record.target.kind != GROUP:
        found.append((owner, record.owner_uid))
    if record.part:
        found.append((record.part, ""))
    return tuple(found)


def _share_of_workload(node: Node) -> Share:
    record = node.record
    if record is None or not node.parents:
        return NOTHING
    pods, bound, ready, succeeded, failed, _ = node.counts
    if record.complete:
        return max(pods, record.pods), max(bound, record.pods), max(ready, record.pods), succeeded, failed, 1
    if record.failed:  # some of its pods may have succeeded, or may still run: all the same it is not ready
        return pods, 0, 0, succeeded, failed, 0
    return pods, max(bound, record.ready), max(ready, record.ready), succeeded, failed, 0


def _of_workload(node: Node, record: WorkloadRecord) -> Standing:
    counts = list(node.counts)
    counts[READY] = max(counts[READY], record.ready)
    counts[BOUND] = max(counts[BOUND], record.ready)
    endless = record.target.kind in ENDLESS
    return standing_of(
        counts, record.pods, complete=record.complete, failed=record.failed, root=record.target, may_be_empty=endless
    )
