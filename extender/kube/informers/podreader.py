"""Makes the records of pods and nodes: each keeps the fields that somebody reads (`algorithm.reads`), and no more.

One reader serves informers, verbs, comparisons and reads of single pods, so two records of a pod that say the same are
equal. It learns from nodes which resources exist: of a bound pod with too many resources, only these count.
A resource that a node brings later is counted on such pods once the comparer has looked at them again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.model import (
    Decoded,
    Node,
    NodeWire,
    Pod,
    PodWire,
    decode_node,
    decode_pod,
    decode_pods,
    node_from_wire,
    pod_from_wire,
)
from algorithm.reads import EVERYTHING, LONGEST_NAME, NATIVE, Reads
from extender.kube.informers.decisions import DecisionRoom, Decisions
from extender.scheduling.policy import Policy
from extender.scheduling.state.preemption_record import ANNOTATION, LONGEST_RECORD

#: The annotation with the name of a pod's gang. The server only shows it; the algorithm decides what it means.
GANG_ANNOTATION = "waggle.dev/gang"


def reads_for(algorithm: Reads, policy: Policy) -> Reads:
    """What an algorithm and the server together read."""
    wishes = None if algorithm.wishes is None else algorithm.wishes | {ANNOTATION, GANG_ANNOTATION}
    looked_for = {policy.annotation} if policy.annotation else frozenset[str]()
    lengths = {GANG_ANNOTATION: LONGEST_NAME, **algorithm.lengths, ANNOTATION: LONGEST_RECORD}
    if GANG_ANNOTATION in (algorithm.wishes or ()) and GANG_ANNOTATION not in algorithm.lengths:
        del lengths[GANG_ANNOTATION]
    resources = NATIVE | ({policy.resource} if policy.resource else frozenset[str]())
    return Reads(
        wishes, algorithm.decisions, frozenset(looked_for), algorithm.claims, resources, algorithm.of_nodes, lengths
    )


class PodReader:
    """Thread-safe: what is read is one immutable value, exchanged as a whole. `decisions` bounds its records."""

    def __init__(self, reads: Reads = EVERYTHING, decisions: Decisions | None = None) -> None:
        self.reads = reads
        self.decisions = decisions or Decisions((), {}, DecisionRoom(*[lambda: 0] * 3))

    def learn(self, node: Node) -> None:
        """The node's resources count from now on. Two that are learnt at the same moment: the next event has both."""
        self.reads = self.reads.and_of(name for name, _ in node.allocatable)

    def pod(self, raw: bytes | msgspec.Raw) -> Pod:
        """Raises DecodeError."""
        return decode_pod(raw, self.reads)

    def pods(self, items: Iterable[msgspec.Raw]) -> Decoded[Pod]:
        """One that cannot be read costs only itself."""
        return decode_pods(items, self.reads)

    def lighter(self, pod: Pod) -> Pod:
        """The pod without the text of claims: they keep room for others, and nothing that it takes itself is lost."""
        claims = self.reads.claims
        if not any(text and name in claims for name, text in pod.annotations):
            return pod
        annotations = tuple((name, "" if name in claims else text) for name, text in pod.annotations)
        return msgspec.structs.replace(pod, annotations=annotations)

    def node(self, raw: bytes | msgspec.Raw) -> Node:
        """Raises DecodeError."""
        return decode_node(raw, self.reads)

    def node_from_wire(self, wire: NodeWire) -> Node:
        """Raises DecodeError."""
        return node_from_wire(wire, self.reads)

    def from_wire(self, wire: PodWire) -> Pod:
        """Raises DecodeError."""
        return pod_from_wire(wire, self.reads)
