"""What a replay holds in memory: the engine keeps all pods and nodes, and the nodes that each pod was last offered.

A server has bounds for what comes in. A log has none: 0.4 MB can offer 189,000 nodes to each of 400 pods, which
would be 4 GB. So what the events bring is weighed, and a log is refused at the event that is too much.

    an offer        once, however many pods share it: its names
    a pod, a node   its line, until it has gone
"""

from __future__ import annotations

from collections import Counter

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod, PodKey
from extender.recording.records import RecordingError, Step
from extender.scheduling.events import FilterRequested, NodeGone, NodeSeen, PodGone, PodSeen

#: Bytes of memory of a name in an offer, and of a record for each byte of its line; measured, rounded up.
_BYTES_OF_NAME, _BYTES_OF_BYTE = 60, 8
#: Bytes of the line of a pod without labels and annotations.
_LEAST = 500
#: MiB of memory that a replay may take for this, by default.
MOST_MIB = 4096


class Held:
    """Weighs the events of one replay. `name`: of the recording, for messages."""

    def __init__(self, name: str, most_mib: int = MOST_MIB) -> None:
        self._name, self._most = name, most_mib << 20
        self._records: dict[tuple[str, str], int] = {}
        self._uids: dict[PodKey, str] = {}
        #: They are kept, so that no other list gets the `id` of one.
        self._offers: dict[str, SuggestedNodes] = {}
        self._sharing: Counter[int] = Counter()
        #: Bytes, as they are estimated.
        self.bytes = 0

    def take(self, step: Step) -> Step:
        """Weigh an event, and return it. Raises RecordingError if it is too much."""
        match step.event:
            case PodSeen(pod=pod):
                self._uids[pod.key] = pod.uid
                self._record("pod", pod.uid, step.size)
            case FilterRequested(pod=pod, nodes=nodes):
                if self._offers.get(pod.uid) is not nodes:
                    self._forget_offer(pod.uid)
                    self._offer(pod.uid, nodes)
                self._uids[pod.key] = pod.uid
                if ("pod", pod.uid) not in self._records:
                    self._record("pod", pod.uid, _size_of(pod))
            case NodeSeen(node=node):
                self._record("node", node.name, step.size)
            case PodGone(key=key):
                uid = self._uids.pop(key, "") if not step.event.uid else step.event.uid
                self._forget_offer(uid)
                self._forget("pod", uid)
            case NodeGone(name=name):
                self._forget("node", name)
        if self.bytes > self._most:
            raise RecordingError(
                f"{self._name}: at event {step.number} a replay would hold more than {self._most >> 20} MiB of pods, "
                "nodes and names of offered nodes; --memory-mib N allows more, if the log is to be trusted"
            )
        return step

    def _record(self, kind: str, name: str, size: int) -> None:
        self._forget(kind, name)
        self._records[kind, name] = size
        self.bytes += size * _BYTES_OF_BYTE

    def _forget(self, kind: str, name: str) -> None:
        self.bytes -= self._records.pop((kind, name), 0) * _BYTES_OF_BYTE

    def _offer(self, uid: str, offer: SuggestedNodes) -> None:
        self._offers[uid] = offer
        self._sharing[id(offer)] += 1
        if self._sharing[id(offer)] == 1:
            self.bytes += len(offer) * _BYTES_OF_NAME

    def _forget_offer(self, uid: str) -> None:
        offer = self._offers.pop(uid, None)
        if offer is None:
            return
        self._sharing[id(offer)] -= 1
        if not self._sharing[id(offer)]:
            del self._sharing[id(offer)]
            self.bytes -= len(offer) * _BYTES_OF_NAME


def _size_of(pod: Pod) -> int:
    """About what a line has of a pod; the line of a filter also has the offer."""
    return _LEAST + sum(len(value) for _, value in (*pod.labels, *pod.annotations))
