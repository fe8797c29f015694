"""Commands of the engine of pods for the API server. Plain data, nothing else.

The I/O layers carry out every command exactly once, and report the result as the event that the command names, with the
same token. If a report never comes (a crash), the engine verifies the state; it never guesses.
"""

from __future__ import annotations

from dataclasses import dataclass

from algorithm.model import Pairs, PodKey
from algorithm.reasons import Reason


@dataclass(frozen=True, slots=True)
class WriteBinding:
    """POST the Binding with UID and annotations, if the `term` still lasts. Reported by BindFinished.

    It must not be sent later than `valid_for` seconds after it was given; then it is reported as THROTTLED. The engine
    does not wait for ever: a write still queued after its place went to another pod would bind two pods to that place.
    """

    token: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: Pairs = ()
    term: int = 0
    valid_for: float = 20.0


@dataclass(frozen=True, slots=True)
class ReadPod:
    """GET the pod live (not from any cache). Reported by PodRead."""

    token: int
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Evict:
    """POST an Eviction with UID precondition, if the `term` still lasts; not after `valid_for` seconds.

    `dry_run`: only ask whether the API server would allow the eviction. Reported by EvictFinished.
    """

    token: int
    namespace: str
    name: str
    uid: str
    preemptor: PodKey
    dry_run: bool = False
    term: int = 0
    valid_for: float = 20.0


@dataclass(frozen=True, slots=True)
class RecordPreemption:
    """PATCH the annotation of a preemption on a waiting pod, if the `term` still lasts; "" removes it.

    Not after `valid_for` seconds. Reported by PreemptionRecorded.
    """

    token: int
    namespace: str
    name: str
    uid: str
    value: str
    term: int = 0
    valid_for: float = 20.0


@dataclass(frozen=True, slots=True)
class RequeuePod:
    """PATCH an annotation on a waiting pod, so that kube-scheduler requeues it now. Not reported: it may be lost."""

    namespace: str
    name: str
    uid: str
    term: int = 0


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Create a Kubernetes Event on the pod, to show what happened. Not reported."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    warning: bool = True
    term: int = 0
