"""What an extender can be asked, and its answers: the port between the scheduling cycle and HTTP.

The cycle only knows `Extender`. `extender_client.HttpExtender` asks over HTTP; tests script their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.model import SchedNode, SchedPod


class ExtenderError(Exception):
    """A call came to nothing; the text is the one that kube-scheduler would show."""


class SchedulerPanic(Exception):  # noqa: N818 - Go's word: the real kube-scheduler dies of this answer
    """An answer that makes the real kube-scheduler dereference nil and exit."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Which of the offered nodes are left, and why others are not.

    `names` are offered nodes. `nodes` is set instead if the answer came as Node objects: these are taken as they
    are, even if they were never offered.
    """

    names: tuple[str, ...] = ()
    nodes: tuple[SchedNode, ...] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    failed_and_unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would go from one node, most important first."""

    pods: tuple[SchedPod, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class MetaVictims:
    """An answer's victims: UIDs, not looked up yet."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class Extender(ABC):
    """One configured extender. All calls block, and raise ExtenderError."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config

    def is_interested(self, pod: SchedPod) -> bool:
        """No managed resources: every pod. Else pods that name one of them in any container's requests or limits."""
        manages = self.config.manages
        return not manages or not manages.isdisjoint(pod.resource_names)

    def forget(self) -> None:  # noqa: B027 - most keep nothing
        """Drop what is kept only to be quick."""

    @abstractmethod
    def filter(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> FilterResult: ...

    @abstractmethod
    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        """Scores by node, as they came: a node may be unknown, or named twice."""

    @abstractmethod
    def preempt(self, pod: SchedPod, candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
        """The victims that the extender agrees to. Raises SchedulerPanic for a null among them."""

    @abstractmethod
    def bind(self, pod: SchedPod, node: str) -> None: ...
