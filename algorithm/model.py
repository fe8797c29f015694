"""Node and Pod as scheduling sees them: lean and immutable. `algorithm.decoding` reads them from Kubernetes JSON.

* Resources are integers (cpu in thousandths, the rest in units), so that no algorithm parses text.
* Records are frozen, hold tuples, and are invisible to the garbage collector: tens of thousands of them cost no pause
  (a full collection with 10,000 ordinary records stops every thread for some 70 ms).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

#: Amounts by resource name, sorted by name. cpu in thousandths of a core, everything else in units (bytes, devices).
Resources = tuple[tuple[str, int], ...]
#: String pairs sorted by key: labels and annotations.
Pairs = tuple[tuple[str, str], ...]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"


def fits(requests: Resources, free: Mapping[str, int]) -> bool:
    """Whether so much is free of each of these. Of a resource that `free` does not name, nothing is."""
    for name, amount in requests:  # noqa: SIM110 - a generator costs twice the time here, the hottest line of all
        if free.get(name, 0) < amount:
            return False
    return True


class PodKey(NamedTuple):
    """The namespace and name of a pod. Successive pods of one name differ in their UID only."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


#: What the constructor of a NamedTuple calls. A pod's key is asked for several times for each event.
_new_tuple = tuple.__new__


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node. `allocatable` is what pods may use; `ready` is the Ready condition being "True"."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    allocatable: Resources = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True

    @property
    def takes_pods(self) -> bool:
        """Whether it is ready and not cordoned."""
        return self.ready and not self.unschedulable


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod. `requests` is what the whole pod takes on a node; `limits` has every limit, summed over containers.

    `created` is the RFC 3339 text of the API server (it sorts by time). `group` is the PodGroup of
    `spec.schedulingGroup`, "" if none. `may_preempt` is false if its `preemptionPolicy` is Never. `terminating` means
    that its deletion was requested, and `grace_period` is how long the deletion may take, in seconds. `controlled`: one
    of its ownerReferences names the object that controls it.
    `oversized` says which bound the pod exceeds, "" if none. An oversized pod is not scheduled; its `requests` and
    `limits` have only the resources that nodes have, none if it has no node.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    created: str = ""
    terminating: bool = False
    node_name: str = ""
    nominated_node_name: str = ""
    phase: str = "Pending"
    priority: int = 0
    may_preempt: bool = True
    scheduler_name: str = "default-scheduler"
    group: str = ""
    gated: bool = False
    controlled: bool = False
    grace_period: int = 30
    requests: Resources = ()
    limits: Resources = ()
    oversized: str = ""

    @property
    def key(self) -> PodKey:
        return _new_tuple(PodKey, (self.namespace, self.name))

    @property
    def finished(self) -> bool:
        """A pod that has run to its end takes no room, although the object still exists."""
        return self.phase in ("Succeeded", "Failed")

    def annotation(self, key: str) -> str | None:
        return lookup(self.annotations, key)

    def placed(self, node: str, annotations: Pairs = ()) -> Pod:
        """This pod as it will be once it is bound: on `node`, with the annotations that the binding writes."""
        merged = (
            tuple(sorted({**dict(self.annotations), **dict(annotations)}.items())) if annotations else self.annotations
        )
        return msgspec.structs.replace(self, node_name=node, annotations=merged)


def lookup(pairs: Pairs, key: str) -> str | None:
    """The value of `key` in sorted string pairs, None if absent."""
    for name, value in pairs:
        if name == key:
            return value
    return None


def same_but_version(known: Node | Pod, other: Node | Pod) -> bool:
    """Whether two records of one object differ only in their version.

    Then the changes in between (a heartbeat, a condition, a status) concern only fields that scheduling does not read.
    """
    return known == msgspec.structs.replace(other, resource_version=known.resource_version)


def pairs(mapping: Mapping[str, str] | None) -> Pairs:
    """A mapping as sorted pairs, the form in which records hold it."""
    return tuple(sorted(mapping.items())) if mapping else ()
