"""Makes the records of pods and nodes. A record keeps the fields that are read (`algorithm.reads`), and no others.

One reader serves informers, verbs, comparisons and reads of single pods, so two records of a pod with the same content
are equal. The reader learns from nodes which resources exist: of a bound pod with too many resources, only these count.
A resource that a node reports later counts on such pods once the comparer has read them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from algorithm.decoding import (
    Decoded,
    decode_node,
    decode_pod,
    decode_pod_wire,
    decode_pods,
    node_from_wire,
    pod_from_wire,
)
from algorithm.kubernetes_types import NodeWire, PodWire
from algorithm.model import Node, Pod
from algorithm.reads import EVERYTHING, Reads
from extender.kube.client import bounds
from extender.kube.informers.decisions import DecisionRoom, Decisions
from extender.kube.informers.slim import slim_pod
from extender.kube.informers.unschedulable import UnschedulableMessages


class PodReader:
    """Makes records. Thread-safe: its `reads` are one immutable value, replaced as a whole. `decisions` bounds its
    records."""

    def __init__(self, reads: Reads = EVERYTHING, decisions: Decisions | None = None) -> None:
        self.reads = reads
        self.decisions = decisions or Decisions((), {}, DecisionRoom(*[lambda: 0] * 3))
        #: What kube-scheduler wrote on the informer's pods.
        self.messages = UnschedulableMessages()

    def learn(self, node: Node) -> None:
        """Count the node's resources from now on. If two threads do this at the same time, the next event includes
        both."""
        self.reads = self.reads.and_of(name for name, _ in node.allocatable)

    def pod(self, raw: bytes | msgspec.Raw) -> Pod:
        """Decode a pod. Raises DecodeError."""
        return decode_pod(raw, self.reads)

    def informed(self, raw: bytes | msgspec.Raw) -> Pod:
        """Decode a pod for the informer: its message is kept, too. Raises DecodeError."""
        return self.informed_from_wire(decode_pod_wire(raw))

    def informed_from_wire(self, wire: PodWire) -> Pod:
        """The same of a decoded pod."""
        pod = self.from_wire(wire)
        self.messages.note(pod.uid, wire)
        return pod

    def live(self, body: bytes) -> Pod:
        """Decode a pod that was read alone, to the record that the informer would keep of it. Raises DecodeError."""
        return self.decisions.as_kept(self.pod(slim_pod(body) if bounds.oversized(body) else body))

    def forget(self, uid: str) -> None:
        """The informer's pod is gone."""
        self.decisions.forget(uid)
        self.messages.forget(uid)

    def forget_others(self, uids: Collection[str]) -> None:
        """All of the informer's pods but these are gone."""
        self.decisions.forget_others(uids)
        self.messages.forget_others(uids)

    def pods(self, items: Iterable[msgspec.Raw]) -> Decoded[Pod]:
        """Decode several pods. One that cannot be decoded affects no other."""
        return decode_pods(items, self.reads)

    def lighter(self, pod: Pod) -> Pod:
        """The pod without the text of claims. Claims reserve room for other pods; nothing that the pod itself takes is
        lost."""
        claims = self.reads.claims
        if not any(text and name in claims for name, text in pod.annotations):
            return pod
        annotations = tuple((name, "" if name in claims else text) for name, text in pod.annotations)
        return msgspec.structs.replace(pod, annotations=annotations)

    def node(self, raw: bytes | msgspec.Raw) -> Node:
        """Decode a node. Raises DecodeError."""
        return decode_node(raw, self.reads)

    def node_from_wire(self, wire: NodeWire) -> Node:
        """Make the record of a decoded node. Raises DecodeError."""
        return node_from_wire(wire, self.reads)

    def from_wire(self, wire: PodWire) -> Pod:
        """Make the record of a decoded pod. Raises DecodeError."""
        return pod_from_wire(wire, self.reads)
