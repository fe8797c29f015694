"""The words in which workloads are written down: what happens to the cluster, and what the extenders answer.

A workload is a configuration and phases. In a phase the answers are set, its actions are carried out one after the
other, and then everybody comes to rest. Everything here is data; `stage` carries it out.

Answers are looked up by the most specific key: "1/filter p" (extender 1, pod p), "1/filter", "filter p", "filter". A
list is used up one after the other, its last one stays. Without any, an extender agrees: filter keeps all nodes,
prioritize scores nobody, preempt agrees to all victims, bind binds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
#: Of workloads in which several pods wait: at the end of each phase all back-offs of rejections are over, so that only
#: priorities decide who is tried first. A real scheduler is given the time, the stand-in a back-off of nothing.
RESTED = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}

# -- what happens --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Create:
    """POST each object."""

    objects: tuple[Object, ...]


@dataclass(frozen=True)
class Patch:
    """A merge patch of `path`, which is relative to /api/v1."""

    path: str
    body: Object


@dataclass(frozen=True)
class Delete:
    """DELETE of `path`, which is relative to /api/v1. `grace` in seconds; None is the object's own."""

    path: str
    grace: int | None = None


@dataclass(frozen=True)
class Await:
    """Until the pod `pod` is "bound", "gone", "nominated" or "terminating", has the PodScheduled reason `state`, or, if
    `state` is a verb, was asked about that many `times`."""

    pod: str
    state: str
    times: int = 1


@dataclass(frozen=True)
class Open:
    """Answers that are held back are given, from now on at once."""


@dataclass(frozen=True)
class Pause:
    """Time for watches to deliver while an answer is held back and nothing can be seen from outside."""

    seconds: float = 0.4


Action = Create | Patch | Delete | Await | Open | Pause

# -- what extenders answer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep:
    """filter: these of the offered nodes; reasons for others. `form` says as what they are named."""

    nodes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    form: str = "as asked"
    #: Held back until `Open`.
    held: bool = False


@dataclass(frozen=True)
class Scores:
    """prioritize."""

    of: Mapping[str, int]


@dataclass(frozen=True)
class Victims:
    """preempt: names of pods by node, and how many of them violate a budget."""

    of: Mapping[str, tuple[str, ...]]
    violations: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Bind:
    """bind: writes the binding, to another node than was asked for if `node` says so. Answers `error`."""

    node: str = ""
    error: str = ""
    binds: bool = True
    held: bool = False


@dataclass(frozen=True)
class Raw:
    """Any verb: this status and body."""

    body: str = ""
    status: int = 200


@dataclass(frozen=True)
class Drop:
    """Any verb: the connection is closed without a word."""


@dataclass(frozen=True)
class Never:
    """Any verb: no answer before the workload has ended."""


Answer = Keep | Scores | Victims | Bind | Raw | Drop | Never

# -- workloads -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    does: tuple[Action, ...]
    answers: Mapping[str, Answer | tuple[Answer, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """`extenders` are entries of the KubeSchedulerConfiguration without urlPrefix, `config` is the rest of it."""

    phases: tuple[Phase, ...]
    extenders: tuple[Object, ...] = ({},)
    config: Mapping[str, Any] = field(default_factory=dict)
    #: Pods that several nodes suit equally well: kube-scheduler draws lots, so their node is not compared.
    anywhere: tuple[str, ...] = ()
    #: Behind the (only) extender stands a Waggle with these settings, instead of a script.
    waggle: Mapping[str, Any] | None = None
    #: The first body of each verb is compared as a whole.
    bodies: bool = False


def extender(**more: Any) -> Object:
    """All verbs but prioritize, nodes by name. A value of None leaves the key away."""
    verbs = {"filterVerb": "filter", "preemptVerb": "preempt", "bindVerb": "bind"}
    given = {**verbs, "nodeCacheCapable": True, "httpTimeout": "30s", **more}
    return {key: value for key, value in given.items() if value is not None}


# -- objects -------------------------------------------------------------------------------------------------


def node(name: str, cpu: str = "4", **more: Any) -> Object:
    """A node with `cpu`; `labels`, `annotations` and `resources` may be given, the rest is spec."""
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}}
    if "annotations" in more:
        metadata["annotations"] = more.pop("annotations")
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20", **more.pop("resources", {})}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more, "status": status}


def pod(name: str, cpu: str = "1", priority: str = "", **more: Any) -> Object:
    """A pod that asks for `cpu`, of PriorityClass `priority`; `labels`, `annotations`, `finalizers`, `limits` and
    `ports` may be given, the rest is spec. It needs no grace to be deleted."""
    metadata: Object = {"name": name, "namespace": "default"}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations", "finalizers") if key in more}
    limits = more.pop("limits", {})
    container: Object = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, **limits}}}
    if limits:
        container["resources"]["limits"] = limits
    if "ports" in more:
        container["ports"] = more.pop("ports")
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
    if priority:
        spec["priorityClassName"] = priority
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def budget(name: str, **labels: str) -> Object:
    """A PodDisruptionBudget of the pods with these labels that allows no disruption."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def nodes(*names: str, **more: Any) -> Phase:
    """A phase that only creates nodes: at its end the scheduler knows them."""
    return Phase((Create(tuple(node(name, **more) for name in names)),))


def create(*objects: Object) -> Phase:
    return Phase((Create(objects),))


def annotated(path: str, value: str) -> Patch:
    return Patch(path, {"metadata": {"annotations": {"nudge": value}}})
