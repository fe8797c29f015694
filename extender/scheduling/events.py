"""The engine's inputs (events) and outputs (instructions). Plain data, nothing else.

    kube-scheduler -- FilterRequested, PrioritizeRequested, ------------->  +-----------+ --> FilterAnswer,
                      PreemptRequested, BindRequested ------------------->  |           |     PrioritizeAnswer,
    informers ------- NodeSeen, NodeGone, PodSeen, PodGone, Synced ------>  |           |     PreemptAnswer, BindAnswer
    election -------- TermBegan, TermEnded ------------------------------>  |           |
    ordering -------- DependenciesChanged, DependenciesForgotten -------->  |           |
    committer ------- BindFinished, PodRead, EvictFinished -------------->  |  engine   | --> WriteBinding, ReadPod,
                      PreemptionRecorded -------------------------------->  |           |     Evict, RecordPreemption,
    operator -------- ReconfigureRequested, AlgorithmPrepared ----------->  |           |     RequeuePod, RecordEvent,
    timer ----------- Ticked -------------------------------------------->  +-----------+     PrepareAlgorithm,
                                                                                              Reconfigured

`commands.py` has the instructions that go to the API server with the events that report them, and the guarantees they
come with.

Events and instructions hold no object of the program. What cannot be data (an algorithm that is being prepared, and the
state that is loaded into it) is in a table, by number: `reconfiguration.Preparations`. So a recording of the events has
everything that a replay needs. They are structs: one is made several times as fast as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod, PodKey
from algorithm.reasons import Reason
from extender.scheduling.commands import Command, Report

# -- events: what happened -------------------------------------------------------------------------------------


class FilterRequested(msgspec.Struct, frozen=True):
    """kube-scheduler asks on which of `nodes` the pod can run. Answered at once with FilterAnswer."""

    pod: Pod
    nodes: SuggestedNodes


class PrioritizeRequested(msgspec.Struct, frozen=True):
    """kube-scheduler asks how good each of `nodes` is for the pod. Answered at once with PrioritizeAnswer."""

    pod: Pod
    nodes: SuggestedNodes


class Candidate(msgspec.Struct, frozen=True):
    """A node on which kube-scheduler would preempt, with the UIDs of its victims there."""

    node: str
    victims: tuple[str, ...] = ()
    pdb_violations: int = 0


class PreemptRequested(msgspec.Struct, frozen=True):
    """kube-scheduler asks which pods to evict for this pod. Answered at once with PreemptAnswer."""

    pod: Pod
    candidates: tuple[Candidate, ...]


class BindRequested(msgspec.Struct, frozen=True):
    """kube-scheduler asks us to bind the pod. Answered, perhaps later, with the BindAnswer of the same `request`."""

    request: int
    namespace: str
    name: str
    uid: str
    node: str

    @property
    def key(self) -> PodKey:
        return PodKey(self.namespace, self.name)


class PodSeen(msgspec.Struct, frozen=True):
    """The API server has this pod: added or changed. The event may be doubled, late or out of order."""

    pod: Pod


class PodGone(msgspec.Struct, frozen=True):
    """The API server no longer has this pod. An empty `uid` means whichever pod had the name."""

    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> PodKey:
        return PodKey(self.namespace, self.name)


class NodeSeen(msgspec.Struct, frozen=True):
    """The API server has this node: added or changed. The event may be doubled, late or out of order."""

    node: Node


class NodeGone(msgspec.Struct, frozen=True):
    """The API server no longer has a node of this name."""

    name: str


class Synced(msgspec.Struct, frozen=True):
    """All informers have delivered their first list and all of it was handled: requests may be answered now."""


class TermBegan(msgspec.Struct, frozen=True):
    """This replica leads, and its informers have caught up with the start of its term: it decides from now on.

    Terms grow within one process. Without leader election there is one permanent term, and this event never comes.
    """

    term: int


class DependenciesChanged(msgspec.Struct, frozen=True):
    """Start-up ordering says why a pod has to wait for others; `reason` None: it need not wait any more."""

    uid: str
    reason: Reason | None = None
    #: What start-up ordering says later has a higher number. It may arrive earlier.
    number: int = 0


class DependenciesForgotten(msgspec.Struct, frozen=True):
    """Start-up ordering says nothing about this pod any more: it is bound, or gone."""

    uid: str


class TermEnded(msgspec.Struct, frozen=True):
    """This term is over: another replica may decide now. May come more than once, and for a term that never began."""

    term: int


class ReconfigureRequested(msgspec.Struct, frozen=True):
    """Switch to other settings. Answered with PrepareAlgorithm; may be repeated with the same number."""

    number: int
    algorithm: str
    settings: dict[str, Any]


class AlgorithmPrepared(msgspec.Struct, frozen=True):
    """The report of a PrepareAlgorithm: the algorithm of this number has the state. Answered with Reconfigured."""

    number: int


class Ticked(msgspec.Struct, frozen=True):
    """Time has passed. Only timers that are due are handled; nothing is polled."""


Event = (
    FilterRequested
    | PrioritizeRequested
    | PreemptRequested
    | BindRequested
    | PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | Synced
    | TermBegan
    | TermEnded
    | DependenciesChanged
    | DependenciesForgotten
    | Report
    | ReconfigureRequested
    | AlgorithmPrepared
    | Ticked
)


# -- instructions: what to do ---------------------------------------------------------------------------------


class FilterAnswer(msgspec.Struct, frozen=True):
    """The answer to a filter request: one of three.

    * `pass_through`: the pod is not managed by this server; all offered nodes pass.
    * `node` is set: that one node passes (it was offered); the others are refused without a reason.
    * otherwise refused: every offered node with its own reason in `nodes`, or else with `reason`.

    `error` means that the request itself could not be served; kube-scheduler then retries with back-off.
    """

    node: str | None = None
    reason: Reason | None = None
    nodes: Mapping[str, Reason] = {}
    pass_through: bool = False
    error: bool = False


class PrioritizeAnswer(msgspec.Struct, frozen=True):
    """The answer to a prioritize request: scores 0..10 by node name, more is better; a node without one has 0."""

    scores: Mapping[str, int] = {}


class PreemptAnswer(msgspec.Struct, frozen=True):
    """The answer to a preempt request: victims by node, nodes sorted; never a node without victims.

    `pass_through`: this server does not manage the pod; kube-scheduler's own choice stands. No candidates: nothing to
    evict.
    `error` means that the request itself could not be served; the protocol has no field for it, only an HTTP status.
    """

    candidates: tuple[Candidate, ...] = ()
    reason: Reason | None = None
    pass_through: bool = False
    error: bool = False


class BindAnswer(msgspec.Struct, frozen=True):
    """The answer to the BindRequested with this number. `error` None: the pod is bound to the requested node."""

    request: int
    error: Reason | None = None


class PrepareAlgorithm(msgspec.Struct, frozen=True):
    """Create this algorithm, unless it was already created for this number, and load the current state into it.

    The state is in `reconfiguration.Preparations`, under the same number.
    """

    number: int
    algorithm: str
    settings: dict[str, Any]


class Reconfigured(msgspec.Struct, frozen=True):
    """The answer to AlgorithmPrepared: the new algorithm decides from now on, with `changes`; or why it was refused."""

    number: int
    refused: str = ""
    changes: tuple[str, ...] = ()


#: The answers that a caller gets at once, as the result of its event. BindAnswer may come later, and is delivered.
Answer = FilterAnswer | PrioritizeAnswer | PreemptAnswer | PrepareAlgorithm | Reconfigured
Instruction = Answer | BindAnswer | Command
