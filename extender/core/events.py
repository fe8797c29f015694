"""What can happen to the heart (events), and what it then wants done (instructions). Plain data, nothing else.

    kube-scheduler -- FilterRequested, PreemptRequested, BindRequested -->  +-----------+ --> FilterAnswer,
    informers ------- NodeSeen, NodeGone, PodSeen, PodGone, Synced ------>  |           |     PreemptAnswer, BindAnswer
    election -------- TermBegan, TermEnded ------------------------------>  |           |
    committer ------- BindFinished, PodRead, EvictFinished -------------->  | lifecycle | --> WriteBinding, ReadPod,
                      PreemptionRecorded -------------------------------->  |           |     Evict, RecordPreemption,
    operator -------- ReconfigureRequested, AlgorithmPrepared ----------->  |           |     Nudge, RecordEvent,
    timer ----------- Ticked -------------------------------------------->  +-----------+     PrepareAlgorithm,
                                                                                              Reconfigured

The rim carries out every instruction exactly once and reports back with the event that the instruction names, with
the same token. An instruction whose report never comes (a crash) is repaired by verifying, never by guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pairs, Pod, PodKey
from algorithm.reasons import Reason
from extender.core.learning import Truth
from extender.core.teller import Teller


class OutcomeKind(StrEnum):
    """How a write to the API server ended. Unknown is an outcome: a write that timed out may have happened."""

    #: The write happened, and it was ours.
    DONE = "done"
    #: Somebody else changed the object first (409). Read back: it may even have been an earlier try of our own.
    LOST = "lost"
    #: The object no longer exists (404).
    GONE = "gone"
    #: The object exists, but it is not the one that was meant (UID or resourceVersion differ): look again.
    STALE = "stale"
    #: Not now (429, or 503 with Retry-After): `retry_after` seconds.
    THROTTLED = "throttled"
    #: Never as it is (400, 403, 422, ...).
    REJECTED = "rejected"
    #: Time-out, connection lost, 5xx: it may have happened. Read back before anything else.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    kind: OutcomeKind
    #: For people and logs; never decides.
    detail: str = ""
    #: Seconds; only with THROTTLED.
    retry_after: float = 0.0


# -- events: what happened -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterRequested:
    """kube-scheduler asks which of `nodes` take the pod. Answered at once with FilterAnswer."""

    pod: Pod
    nodes: SuggestedNodes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which kube-scheduler would preempt, with the UIDs of its victims there."""

    node: str
    victims: tuple[str, ...] = ()
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptRequested:
    """kube-scheduler asks whom to evict for the pod. Answered at once with PreemptAnswer."""

    pod: Pod
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class BindRequested:
    """kube-scheduler asks us to bind. Answered, perhaps later, with the BindAnswer of the same `request`."""

    request: int
    namespace: str
    name: str
    uid: str
    node: str

    @property
    def key(self) -> PodKey:
        return PodKey(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The API server has this pod: added or changed, perhaps told twice, late or out of order."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The API server has this pod no more. An empty uid means: whichever pod had the name."""

    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> PodKey:
        return PodKey(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class Synced:
    """All informers have delivered their first list, and all of it was handled: answers may be given."""


@dataclass(frozen=True, slots=True)
class TermBegan:
    """This replica leads, and its informers have seen all that was true when it began to: it decides from now on.

    Terms of one process grow. Without an election there is one eternal term, and this never comes.
    """

    term: int


@dataclass(frozen=True, slots=True)
class TermEnded:
    """This term is over: somebody else may decide by now. May come more than once, and for a term that never began."""

    term: int


@dataclass(frozen=True, slots=True)
class BindFinished:
    """The report of a WriteBinding."""

    token: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PodRead:
    """The report of a ReadPod: the pod as it is on the API server now, or why it could not be read.

    `outcome` is DONE with the pod (whatever UID it has now), GONE without one, anything else: could not be read.
    """

    token: int
    outcome: Outcome
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class EvictFinished:
    """The report of an Evict of the pod `uid`. REJECTED: it may not be evicted (PodDisruptionBudget, RBAC)."""

    token: int
    outcome: Outcome
    uid: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionRecorded:
    """The report of a RecordPreemption on the pod `uid`."""

    token: int
    outcome: Outcome
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ReconfigureRequested:
    """Other settings are to be used. Answered with PrepareAlgorithm; may be asked again with the same number."""

    number: int
    algorithm: str
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AlgorithmPrepared:
    """The report of a PrepareAlgorithm, if all went well: the new algorithm, with what it was told.

    `teller` is not recorded: a replay makes it again. Answered with Reconfigured.
    """

    number: int
    teller: Teller | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed. Only leases and verifications that are due are looked at; nothing is polled."""


Event = (
    FilterRequested
    | PreemptRequested
    | BindRequested
    | PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | Synced
    | TermBegan
    | TermEnded
    | BindFinished
    | PodRead
    | EvictFinished
    | PreemptionRecorded
    | ReconfigureRequested
    | AlgorithmPrepared
    | Ticked
)


# -- instructions: what is to be done --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The answer of a filter request: one of three.

    * `untouched`: the pod is none of ours; all offered nodes pass.
    * `node` is set: that one node passes (it was offered); the others are refused without a word.
    * otherwise refused: every offered node with its own reason in `nodes`, or else with `reason`.

    `error` means that the request itself could not be served; kube-scheduler then retries with back-off.
    """

    node: str | None = None
    reason: Reason | None = None
    nodes: Mapping[str, Reason] = field(default_factory=dict)
    untouched: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class PreemptAnswer:
    """The answer of a preempt request: victims by node, nodes sorted; never a node without victims.

    `untouched`: the pod is none of ours, kube-scheduler's own choice stands. Empty candidates: nothing to evict.
    `error` means that the request itself could not be served; the wire has no field for it, only a status.
    """

    candidates: tuple[Candidate, ...] = ()
    reason: Reason | None = None
    untouched: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """The answer of the BindRequested with this number. `error` None: the pod is bound to the node asked for."""

    request: int
    error: Reason | None = None


@dataclass(frozen=True, slots=True)
class WriteBinding:
    """POST the Binding with UID and annotations, if the `term` still lasts. Reported by BindFinished.

    It must not leave later than `valid_for` seconds after it was given (then: THROTTLED). The heart does not wait for
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
class Nudge:
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


@dataclass(frozen=True, slots=True)
class PrepareAlgorithm:
    """Make this algorithm, unless it was made for this number before, and let it learn what is true now."""

    number: int
    algorithm: str
    settings: dict[str, Any]
    truth: Truth


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The answer of AlgorithmPrepared: it decides from now on, and this is what changed; or why it does not."""

    number: int
    refused: str = ""
    changes: tuple[str, ...] = ()


Instruction = (
    FilterAnswer
    | PreemptAnswer
    | BindAnswer
    | WriteBinding
    | ReadPod
    | Evict
    | RecordPreemption
    | Nudge
    | RecordEvent
    | PrepareAlgorithm
    | Reconfigured
)
