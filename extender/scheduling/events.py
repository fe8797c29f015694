"""What can happen to the engine (events), and what it then wants done (instructions). Plain data, nothing else.

    kube-scheduler -- FilterRequested, PreemptRequested, BindRequested -->  +-----------+ --> FilterAnswer,
    informers ------- NodeSeen, NodeGone, PodSeen, PodGone, Synced ------>  |           |     PreemptAnswer, BindAnswer
    election -------- TermBegan, TermEnded ------------------------------>  |           |
    committer ------- BindFinished, PodRead, EvictFinished -------------->  | lifecycle | --> WriteBinding, ReadPod,
                      PreemptionRecorded -------------------------------->  |           |     Evict, RecordPreemption,
    operator -------- ReconfigureRequested, AlgorithmPrepared ----------->  |           |     Nudge, RecordEvent,
    timer ----------- Ticked -------------------------------------------->  +-----------+     PrepareAlgorithm,
                                                                                              Reconfigured

`commands.py` has the instructions that go to the API server, and what is promised of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod, PodKey
from algorithm.reasons import Reason
from extender.core.outcomes import Outcome
from extender.scheduling.bootstrap import ClusterState
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.driver import AlgorithmDriver

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
    teller: AlgorithmDriver | None = None


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
class PrepareAlgorithm:
    """Make this algorithm, unless it was made for this number before, and let it learn what is true now."""

    number: int
    algorithm: str
    settings: dict[str, Any]
    truth: ClusterState


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
    | RequeuePod
    | RecordEvent
    | PrepareAlgorithm
    | Reconfigured
)
