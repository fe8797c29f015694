"""The fields of Kubernetes' v1 Pod and v1 Node that scheduling reads, with their names and types.

Every field may be absent or null. `algorithm.decoding` makes records of them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

#: Quantities by resource name, as they were written.
Amounts = dict[str, str | int | float | None]


class OwnerReference(msgspec.Struct, gc=False):
    controller: bool | None = None


class Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerReference | None] | None = None


class Requirements(msgspec.Struct, gc=False):
    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(msgspec.Struct, gc=False, rename="camel"):
    resources: Requirements | None = None
    restart_policy: str | None = None


class SchedulingGroup(msgspec.Struct, gc=False, rename="camel"):
    pod_group_name: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    preemption_policy: str | None = None
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: list[msgspec.Raw] | None = None
    termination_grace_period_seconds: int | None = None
    containers: list[Container | None] | None = None
    init_containers: list[Container | None] | None = None
    resources: Requirements | None = None
    overhead: Amounts | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class PodWire(msgspec.Struct, gc=False):
    """A v1 Pod as it comes over the wire; `pod_from_wire` makes the record."""

    metadata: Meta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def conditions(self) -> msgspec.Raw | None:
        """The JSON of `status.conditions` of a pod without a node, for people; it is in no record."""
        if self.status is None or (self.spec is not None and self.spec.node_name):
            return None
        return self.status.conditions if isinstance(self.status.conditions, msgspec.Raw) else None


class TaintWire(msgspec.Struct, gc=False):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(msgspec.Struct, gc=False):
    unschedulable: bool | None = None
    taints: list[TaintWire | None] | None = None


class Condition(msgspec.Struct, gc=False):
    type: str | None = None
    status: str | None = None


class NodeStatus(msgspec.Struct, gc=False):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    conditions: list[Condition | None] | None = None


class NodeWire(msgspec.Struct, gc=False):
    """A v1 Node as it comes over the wire; `node_from_wire` makes the record."""

    metadata: Meta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None
