"""Pods and nodes as the stand-in keeps them: the scheduling record, what in-tree plugins read, and the raw JSON.

The raw JSON goes to the extender as the real kube-scheduler sends it: without apiVersion and kind, pods also without
managedFields. `decode_pod` and `decode_node` raise algorithm.decoding.DecodeError.
"""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm import decoding, model
from algorithm.decoding import DecodeError
from algorithm.model import Node, Pairs, Pod, PodKey

PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One line of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """All of its requirements must hold; a term without any holds for no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class Toleration(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class HostPort(msgspec.Struct, frozen=True, gc=False):
    ip: str
    protocol: str
    port: int


class ScheduledCondition(msgspec.Struct, frozen=True, gc=False):
    """The pod's PodScheduled condition, as far as an update is compared with it."""

    status: str
    reason: str
    message: str


class SchedPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod. `affinity` None means no required node affinity; `resource_names` is what managedResources look at."""

    pod: Pod
    raw: bytes
    node_selector: Pairs = ()
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    resource_names: frozenset[str] = frozenset()
    scheduled_condition: ScheduledCondition | None = None
    #: Being deleted because a scheduler preempted it.
    disrupted: bool = False
    #: RFC 3339, "" if it has not started.
    started: str = ""
    #: metadata.generation, 0 if it has none.
    generation: int = 0

    @property
    def key(self) -> PodKey:
        return self.pod.key

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def resource_version(self) -> str:
        return self.pod.resource_version

    @property
    def priority(self) -> int:
        return self.pod.priority


class SchedNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node. `conditions` are pairs of type and status: the part whose change wakes rejected pods."""

    node: Node
    raw: bytes
    conditions: Pairs = ()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def uid(self) -> str:
        return self.node.uid

    @property
    def resource_version(self) -> str:
        return self.node.resource_version


# -- the wire ------------------------------------------------------------------------------------------------


class _RequirementWire(msgspec.Struct, gc=False):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _TermWire(msgspec.Struct, gc=False, rename="camel"):
    match_expressions: list[_RequirementWire] | None = None
    match_fields: list[_RequirementWire] | None = None


class _NodeSelectorWire(msgspec.Struct, gc=False, rename="camel"):
    node_selector_terms: list[_TermWire] | None = None


class _NodeAffinityWire(msgspec.Struct, gc=False):
    required: _NodeSelectorWire | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _AffinityWire(msgspec.Struct, gc=False, rename="camel"):
    node_affinity: _NodeAffinityWire | None = None


class _TolerationWire(msgspec.Struct, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _PortWire(msgspec.Struct, gc=False, rename="camel"):
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class _ResourcesWire(msgspec.Struct, gc=False):
    requests: dict[str, msgspec.Raw] | None = None
    limits: dict[str, msgspec.Raw] | None = None


class _ContainerWire(msgspec.Struct, gc=False):
    resources: _ResourcesWire | None = None
    ports: list[_PortWire] | None = None


class _SpecWire(msgspec.Struct, gc=False, rename="camel"):
    node_selector: dict[str, str] | None = None
    affinity: _AffinityWire | None = None
    tolerations: list[_TolerationWire] | None = None
    containers: list[_ContainerWire] | None = None
    init_containers: list[_ContainerWire] | None = None


class _ConditionWire(msgspec.Struct, gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class _StatusWire(msgspec.Struct, gc=False, rename="camel"):
    conditions: list[_ConditionWire] | None = None
    start_time: str | None = None


class _MetadataWire(msgspec.Struct, gc=False):
    generation: int | None = None


class _PodWire(msgspec.Struct, gc=False):
    metadata: _MetadataWire | None = None
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


class _NodeWire(msgspec.Struct, gc=False):
    status: _StatusWire | None = None


_pods = msgspec.json.Decoder(_PodWire)
_nodes = msgspec.json.Decoder(_NodeWire)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def decode_pod(raw: bytes | msgspec.Raw) -> SchedPod:
    """A pod from its JSON. Raises DecodeError."""
    pod = decoding.decode_pod(raw)
    wire: _PodWire = _decoded(_pods, raw)
    spec, status = wire.spec or _SpecWire(), wire.status or _StatusWire()
    conditions = {c.type or "": c for c in status.conditions or ()}
    disruption = conditions.get("DisruptionTarget")
    return SchedPod(
        pod=pod,
        raw=_bare(raw, drop_managed_fields=True),
        node_selector=model.pairs(spec.node_selector),
        affinity=_required_affinity(spec.affinity),
        tolerations=tuple(_toleration(t) for t in spec.tolerations or ()),
        host_ports=_host_ports(spec),
        resource_names=_resource_names(spec),
        scheduled_condition=_scheduled(conditions.get("PodScheduled")),
        disrupted=disruption is not None and disruption.reason == PREEMPTION_BY_SCHEDULER,
        started=status.start_time or "",
        generation=(wire.metadata.generation if wire.metadata else None) or 0,
    )


def decode_node(raw: bytes | msgspec.Raw) -> SchedNode:
    """A node from its JSON. Raises DecodeError."""
    node = decoding.decode_node(raw)
    wire: _NodeWire = _decoded(_nodes, raw)
    conditions = (wire.status.conditions or ()) if wire.status else ()
    return SchedNode(
        node=node,
        raw=_bare(raw, drop_managed_fields=False),
        conditions=model.pairs({c.type or "": c.status or "" for c in conditions}),
    )


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def _bare(raw: bytes | msgspec.Raw, *, drop_managed_fields: bool) -> bytes:
    """The object as it is nested in a request: no apiVersion and kind, which a watch adds and a list does not."""
    members = _decoded(_members, raw)
    members.pop("kind", None)
    members.pop("apiVersion", None)
    if drop_managed_fields:
        metadata = _decoded(_members, members["metadata"])
        if metadata.pop("managedFields", None) is not None:
            members["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(members)


def _required_affinity(affinity: _AffinityWire | None) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    return tuple(
        NodeSelectorTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in affinity.node_affinity.required.node_selector_terms or ()
    )


def _requirements(wires: list[_RequirementWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(w.key or "", w.operator or "", tuple(w.values or ())) for w in wires or ())


def _toleration(wire: _TolerationWire) -> Toleration:
    return Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")


def _host_ports(spec: _SpecWire) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - means "any address"
        for container in spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    )


def _resource_names(spec: _SpecWire) -> frozenset[str]:
    names: set[str] = set()
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.resources is not None:
            for amounts in (container.resources.requests, container.resources.limits):
                names.update(amounts or ())
    return frozenset(names)


def _scheduled(condition: _ConditionWire | None) -> ScheduledCondition | None:
    if condition is None:
        return None
    return ScheduledCondition(condition.status or "", condition.reason or "", condition.message or "")
