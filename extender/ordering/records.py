"""What start-up ordering speaks about: targets, the states that others wait for, declared dependencies, and the few
fields of pods and workloads that it reads."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from extender.core.ordering_names import AFTER, GATE

__all__ = [
    "AFTER",
    "DEPLOYMENT",
    "ENDLESS",
    "GATE",
    "GROUP",
    "JOB",
    "JOB_SET",
    "KINDS",
    "MET",
    "POD",
    "RELEASED",
    "REPLICATED_JOB",
    "REPLICA_SET",
    "STATEFUL_SET",
    "VOLCANO_JOB",
    "VOLCANO_TASK",
    "Dependency",
    "Part",
    "PodKey",
    "PodRecord",
    "State",
    "Target",
    "WorkloadRecord",
]

#: The kind of a `Target` that is a gang: a PodGroup, or the pods with one gang annotation.
GROUP = "Group"
POD, JOB, JOB_SET = "Pod", "Job", "JobSet"
DEPLOYMENT, REPLICA_SET, STATEFUL_SET = "Deployment", "ReplicaSet", "StatefulSet"
#: A Job of Volcano, which has its kind in common with the Job of Kubernetes.
VOLCANO_JOB = "VolcanoJob"
#: A part of a JobSet (a replicatedJob) or of a Volcano Job (a task). Its name is OBJECT/PART.
REPLICATED_JOB, VOLCANO_TASK = "ReplicatedJob", "VolcanoTask"
#: The kinds that a dependency may name.
KINDS = (GROUP, POD, JOB, JOB_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VOLCANO_JOB)
#: Kinds that run until somebody deletes them, so that nothing can wait for their end.
ENDLESS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)

#: The annotation with the dependencies that were met, and whose targets may be deleted before the others are met.
MET = "waggle.dev/after-met"
#: Its value on a pod that was released.
RELEASED = "*"


class State(StrEnum):
    """What a dependant can wait for, of a pod or of everything that the target makes."""

    #: All its pods (of a gang: as many as it needs) are bound to nodes.
    SCHEDULED = "Scheduled"
    #: All its pods (of a gang: as many as it needs) are ready. A failed pod is not ready, a completed one counts.
    READY = "Ready"
    #: It has run to its end with success.
    COMPLETE = "Complete"


class Target(NamedTuple):
    """An object by kind, namespace and name; `GROUP` is the kind of a gang. Totally ordered."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class Dependency(msgspec.Struct, frozen=True, gc=False, order=True):
    """The dependant waits until `target` has reached `state`.

    `optional`: it is waived if the target does not exist when `grace` is over. `grace`: seconds for which the target
    may be missing before that is a fault (or, if optional, is waived); None: the default of the settings. `either`:
    dependencies of one declaration with the same text are alternatives, of which one is enough; "": it has none.
    """

    target: Target
    state: State = State.READY
    optional: bool = False
    grace: float | None = None
    either: str = ""

    @property
    def key(self) -> str:
        """Target and state as a text, such as "Job/default/a=Complete"."""
        return f"{self.target}={self.state}"


# -- what the engine reads of objects ------------------------------------------------------------------------------


class PodKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def target(self) -> Target:
        return Target(POD, self.namespace, self.name)


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a pod that start-up ordering reads. `podreader.decode_pod` makes it."""

    key: PodKey
    uid: str
    version: str = ""
    #: The node that it is bound to; "" for none.
    node: str = ""
    phase: str = "Pending"
    ready: bool = False
    terminating: bool = False
    #: The names of its scheduling gates, in their order.
    gates: tuple[str, ...] = ()
    #: What it declares itself, and the error in its declaration ("" for none).
    after: tuple[Dependency, ...] = ()
    bad_after: str = ""
    #: Whether it has the annotation, with or without an error.
    declares: bool = False
    #: `Dependency.key` of dependencies that were met; `RELEASED`: it was released.
    met: frozenset[str] = frozenset()
    has_annotations: bool = False
    #: Its controller, if that is of a kind that is followed.
    owner: Target | None = None
    owner_uid: str = ""
    #: Whether it has a controller, of whatever kind.
    controlled: bool = False
    #: Its gang. `has_group_object`: named by spec.schedulingGroup, so that a PodGroup exists, or will.
    group: Target | None = None
    has_group_object: bool = False
    #: Whether an annotation of another scheduler names a group, also if the name is empty or does not count.
    names_group: bool = False
    #: How many pods its gang needs at once, as far as the pod says so.
    minimum: int = 1
    #: The task of a Volcano Job that it belongs to.
    part: Target | None = None

    @property
    def is_gated(self) -> bool:
        return GATE in self.gates


class Part(msgspec.Struct, frozen=True, gc=False):
    """A replicatedJob of a JobSet, or a task of a Volcano Job: how many pods it has at once, of how many Jobs."""

    target: Target
    pods: int
    jobs: int = 0
    after: tuple[Dependency, ...] = ()


class WorkloadRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of an object that makes pods, or of a PodGroup. `workloadreader.decode_workload` makes it."""

    target: Target
    uid: str
    version: str = ""
    #: How many pods are to run at once; of a PodGroup: how many it needs.
    pods: int = 0
    #: How many of them are ready or have succeeded as far as its status says.
    ready: int = 0
    complete: bool = False
    #: Why it has failed for good; "" if it has not.
    failed: str = ""
    after: tuple[Dependency, ...] = ()
    bad_after: str = ""
    owner: Target | None = None
    owner_uid: str = ""
    #: The replicatedJob that a Job belongs to.
    part: Target | None = None
    parts: tuple[Part, ...] = ()
