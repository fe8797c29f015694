"""What the engine of pods wants done at the API server. Plain data, nothing else.

The I/O layers carry out every command exactly once and report back with the event that the command names, with the same
token. A command whose report never comes (a crash) is repaired by verifying, never by guessing.
"""

from __future__ import annotations

from dataclasses import dataclass

from algorithm.model import Pairs, PodKey
from algorithm.reasons import Reason


@dataclass(frozen=True, slots=True)
class WriteBinding:
    """POST the Binding with UID and annotations, if the `term` still lasts. Reported by BindFinished.

    It must not leave later than `valid_for` seconds after it was given (then: THROTTLED). The engine does not wait for
    ever; a write that still lay in a queue when its place was given to somebody else would bind two pods to it.
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

    `dry_run`: only ask the API server whether it would do it. Reported by EvictFinished.
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
    """PATCH the annotation of a preemption on a waiting pod, if the `term` still lasts; "" takes it off.

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
    """PATCH an annotation on a waiting pod, so that kube-scheduler tries it now. Not reported: a hint may be lost."""

    namespace: str
    name: str
    uid: str
    term: int = 0


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Show people what happened: a Kubernetes Event on the pod. Not reported."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    warning: bool = True
    term: int = 0
