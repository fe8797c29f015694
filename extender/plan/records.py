"""What a plan starts from (`World`, `Changes`, `Options`) and what it says (`Plan`, with a `Row` for each object).

All are plain data that msgspec encodes: a snapshot is an encoded `World`, `-o json` an encoded `Plan`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.ordering.records import Dependency, Target

#: The version of encoded worlds and plans. A reader refuses another one and says so.
VERSION = 1


# -- what it starts from -------------------------------------------------------------------------------------------


class PlanPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod of the cluster, or one that the changes would make."""

    pod: SchedPod
    #: The object that made it and would make it again after an eviction; None: nothing would.
    owner: Target | None = None
    #: The objects above the owner, nearest first: of a JobSet's pod the JobSet, of a Deployment's pod the Deployment.
    above: tuple[Target, ...] = ()
    #: Its gang; None: it has none.
    group: Target | None = None
    #: Whether it is ready now.
    ready: bool = False
    #: Whether it runs to an end, as a Job's pods do.
    runs_to_end: bool = False
    #: How long it says that it runs, seconds, as a range; None: it does not say.
    seconds: tuple[float, float] | None = None
    #: What it waits for, with the dependencies of its owner, the objects above and its gang.
    after: tuple[Dependency, ...] = ()
    #: Whether its only scheduling gate is that of start-up ordering; False: it has none, or others.
    has_own_gate: bool = False
    #: The pod before it in a StatefulSet that starts its pods in order; "" for others.
    behind: str = ""
    #: The file and the number of the document that it comes from; "" for pods of the cluster.
    origin: str = ""


class RawObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object as Kubernetes JSON, for parts that read their own kinds: pools, claims, sets of vpods, vpods,
    workloads, pod groups, priority classes."""

    kind: str
    api_version: str
    namespace: str
    name: str
    json: bytes
    #: The file and the number of the document in it, from 1; "" for objects of the cluster.
    origin: str = ""

    @property
    def target(self) -> Target:
        return Target(self.kind, self.namespace, self.name)


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as it is, and how it schedules."""

    version: int = VERSION
    #: The release of Waggle that took it, when (RFC 3339), and from where.
    release: str = ""
    taken: str = ""
    source: str = ""
    nodes: tuple[SchedNode, ...] = ()
    #: In the order in which kube-scheduler hears of them.
    pods: tuple[PlanPod, ...] = ()
    budgets: tuple[Budget, ...] = ()
    objects: tuple[RawObject, ...] = ()
    #: Waggle's configuration file, and the KubeSchedulerConfiguration: YAML texts; "": the defaults.
    settings: str = ""
    scheduler: str = ""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What is to happen to the cluster, in this order."""

    #: Replaced: the settings and the algorithm by name.
    settings: str | None = None
    algorithm: str | None = None
    delete: tuple[Target, ...] = ()
    add_nodes: tuple[SchedNode, ...] = ()
    cordon: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    #: The new priority of pods, or of all pods of a workload or a gang.
    priorities: tuple[tuple[Target, int], ...] = ()
    #: New objects, in the order of their creation.
    create: tuple[RawObject, ...] = ()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the run is made, and its bounds. A plan that exceeds a bound says so in `Plan.stopped`."""

    seed: int = 0
    most_pods: int = 100_000
    most_nodes: int = 20_000
    most_attempts: int = 1_000_000
    #: Whether starts are estimated from the run times that pods declare.
    estimate: bool = False


# -- what it says --------------------------------------------------------------------------------------------------


class Sign(StrEnum):
    """What happens to an object."""

    RUNS = "+"
    MOVES = "~"
    EVICTED = "-"
    WAITS = "?"
    STAYS = "="


class Estimate(msgspec.Struct, frozen=True):
    """When an object would start: seconds from now, at the earliest and at the latest."""

    earliest: float
    latest: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one pod, claim or vpod. One reason, if it waits or is evicted: `code` with its text."""

    sign: Sign
    kind: str
    namespace: str
    name: str
    uid: str = ""
    #: Who it belongs to: its workload, its gang, its tenant ("" for none).
    workload: str = ""
    group: str = ""
    tenant: str = ""
    priority: int = 0
    #: Where it goes, and where it was.
    node: str = ""
    before: str = ""
    #: A code of `algorithm.reasons` (of claims: of `extender.claims.codes`), and its text.
    code: str = ""
    text: str = ""
    #: The smallest change that would help, as a sentence; "" if none is known.
    fix: str = ""
    #: The objects at the root of a dependency that cannot be met, as "Kind/namespace/name".
    root: tuple[str, ...] = ()
    #: What it waits or waited for.
    after: tuple[str, ...] = ()
    #: 0: it starts at once; n: it depends on something in wave n - 1.
    wave: int = 0
    start: Estimate | None = None
    origin: str = ""


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of rows by sign, of one group or tenant."""

    name: str
    runs: int = 0
    moves: int = 0
    evicted: int = 0
    waits: int = 0
    stays: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The result. The same world, changes and options give the same plan, byte for byte."""

    version: int = VERSION
    release: str = ""
    source: str = ""
    taken: str = ""
    algorithm: str = ""
    seed: int = 0
    #: Of the state that it holds for.
    fingerprint: str = ""
    #: Without rows of pods that stay.
    rows: tuple[Row, ...] = ()
    groups: tuple[Total, ...] = ()
    tenants: tuple[Total, ...] = ()
    total: Total = Total(name="")
    waves: int = 0
    #: The longest chain of objects that wait for each other, first the one that starts first.
    critical_path: tuple[str, ...] = ()
    #: Dependencies as (dependant, what it waits for, state).
    edges: tuple[tuple[str, str, str], ...] = ()
    #: Objects of kinds that a plan does not know, with their origin.
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: The bound that ended the run early; "" if it ran to its end.
    stopped: str = ""
    #: How often a pod was tried.
    attempts: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing waits and nothing is evicted."""
        return not (self.total.waits or self.total.evicted or self.stopped)
