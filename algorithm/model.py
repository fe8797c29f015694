"""Node and Pod as scheduling sees them: lean, immutable, decoded straight from Kubernetes JSON.

What this module promises:

* only the fields that scheduling reads are decoded; the decoder skips all others in C;
* resources are integers already (cpu in thousandths, the rest in units), so that no algorithm parses text;
* records are frozen, hold tuples, and are invisible to the garbage collector: tens of thousands of them cost
  no pause (a full collection with 10,000 ordinary records stops every thread for some 70 ms);
* what is decoded has a bound that the pod's author cannot raise: `algorithm.reads` says what is kept of a pod;
* `null` means "absent" everywhere, as in Go; unknown fields are ignored;
* an object that cannot be read raises DecodeError with the field's path; in a list, the other objects are still read.

What a pod asks for follows k8s.io/component-helpers `resource.PodRequests`: the larger of (containers plus
sidecars) and (each init container plus the sidecars started before it), plus the overhead; pod-level
`spec.resources` replaces what the containers say, resource by resource. Where a request is absent the API
server's defaults are applied again (a limit counts as the request), so that a record does not depend on its source.
`status.containerStatuses[].resources`, the sizes of a pod that is being resized in place, are not read. They concern
cpu and memory only. kube-scheduler counts these itself and offers no node that is too full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from algorithm.quantity import QuantityError, parse_quantity
from algorithm.reads import (
    EVERYTHING,
    LONGEST_KEY,
    LONGEST_NAME,
    MOST_CONTAINERS,
    UNCOUNTED,
    Reads,
    kept_labels,
    once,
    too_many,
)

#: Amounts by resource name, sorted by name. cpu in thousandths of a core, everything else in units (bytes, devices).
Resources = tuple[tuple[str, int], ...]
#: String pairs sorted by key: labels and annotations.
Pairs = tuple[tuple[str, str], ...]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"


class DecodeError(ValueError):
    """A Kubernetes object that cannot be read; the message names the field and what was expected there."""


class PodKey(NamedTuple):
    """The namespace and name of a pod. Successive pods of one name differ in their UID only."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node. `allocatable` is what pods may use; `ready` is the Ready condition being "True"."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    allocatable: Resources = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod. `requests` is what the whole pod takes on a node; `limits` has every limit, summed over containers.

    `created` is the RFC 3339 text of the API server (it sorts by time). `group` is the PodGroup of
    `spec.schedulingGroup`, "" if none. `terminating` means that its deletion was requested, and `grace_period` is how
    long the deletion may take, in seconds. `oversized` says which bound the pod exceeds, "" if none. An oversized pod
    is not scheduled; its `requests` and `limits` have only the resources that nodes have, none if it has no node.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    created: str = ""
    terminating: bool = False
    node_name: str = ""
    nominated_node_name: str = ""
    phase: str = "Pending"
    priority: int = 0
    may_preempt: bool = True
    scheduler_name: str = "default-scheduler"
    group: str = ""
    gated: bool = False
    grace_period: int = 30
    requests: Resources = ()
    limits: Resources = ()
    oversized: str = ""

    @property
    def key(self) -> PodKey:
        return PodKey(self.namespace, self.name)

    @property
    def finished(self) -> bool:
        """A pod that has run to its end takes no room, although the object still exists."""
        return self.phase in ("Succeeded", "Failed")

    def annotation(self, key: str) -> str | None:
        return lookup(self.annotations, key)

    def placed(self, node: str, annotations: Pairs = ()) -> Pod:
        """This pod as it will be once it is bound: on `node`, with the annotations that the binding writes."""
        merged = (
            tuple(sorted({**dict(self.annotations), **dict(annotations)}.items())) if annotations else self.annotations
        )
        return msgspec.structs.replace(self, node_name=node, annotations=merged)


def lookup(pairs: Pairs, key: str) -> str | None:
    """The value of `key` in sorted string pairs, None if absent."""
    for name, value in pairs:
        if name == key:
            return value
    return None


def same_but_version(known: Node | Pod, other: Node | Pod) -> bool:
    """Whether two records of one object differ only in their version.

    Then the changes in between (a heartbeat, a condition, a status) concern only fields that scheduling does not read.
    """
    return known == msgspec.structs.replace(other, resource_version=known.resource_version)


def pairs(mapping: Mapping[str, str] | None) -> Pairs:
    """A mapping as sorted pairs, the form in which records hold it."""
    return tuple(sorted(mapping.items())) if mapping else ()


# -- the wire: what Kubernetes sends, as far as we read it ---------------------------------------------------

_Amounts = dict[str, str | int | float | None]


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class _Requirements(msgspec.Struct, gc=False):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


class _Container(msgspec.Struct, gc=False, rename="camel"):
    resources: _Requirements | None = None
    restart_policy: str | None = None


class _SchedulingGroup(msgspec.Struct, gc=False, rename="camel"):
    pod_group_name: str | None = None


class _PodSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    preemption_policy: str | None = None
    scheduling_group: _SchedulingGroup | None = None
    scheduling_gates: list[msgspec.Raw] | None = None
    termination_grace_period_seconds: int | None = None
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    resources: _Requirements | None = None
    overhead: _Amounts | None = None


class _PodStatus(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class PodWire(msgspec.Struct, gc=False):
    """A v1 Pod as it comes over the wire; `pod_from_wire` makes the record."""

    metadata: _Meta | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None

    @property
    def conditions(self) -> msgspec.Raw | None:
        """The JSON of `status.conditions` of a pod without a node, for people; it is in no record."""
        if self.status is None or (self.spec is not None and self.spec.node_name):
            return None
        return self.status.conditions if isinstance(self.status.conditions, msgspec.Raw) else None


class _TaintWire(msgspec.Struct, gc=False):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _NodeSpec(msgspec.Struct, gc=False):
    unschedulable: bool | None = None
    taints: list[_TaintWire | None] | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str | None = None
    status: str | None = None


class _NodeStatus(msgspec.Struct, gc=False):
    allocatable: _Amounts | None = None
    capacity: _Amounts | None = None
    conditions: list[_Condition | None] | None = None


class NodeWire(msgspec.Struct, gc=False):
    """A v1 Node as it comes over the wire; `node_from_wire` makes the record."""

    metadata: _Meta | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_pod_decoder = msgspec.json.Decoder(PodWire)
_node_decoder = msgspec.json.Decoder(NodeWire)


def decode_pod(raw: bytes | msgspec.Raw, reads: Reads = EVERYTHING) -> Pod:
    """One Pod from its JSON, with the fields that `reads` names. Raises DecodeError."""
    return pod_from_wire(_decode(_pod_decoder, raw), reads)


def decode_node(raw: bytes | msgspec.Raw, reads: Reads = EVERYTHING) -> Node:
    """One Node from its JSON, with the annotations that `reads` names. Raises DecodeError."""
    return node_from_wire(_decode(_node_decoder, raw), reads)


_T = TypeVar("_T")


def decode_pod_wire(raw: bytes | msgspec.Raw) -> PodWire:
    """One Pod from its JSON, before `pod_from_wire` makes its record. Raises DecodeError."""
    return _decode(_pod_decoder, raw)


def _decode(decoder: msgspec.json.Decoder[_T], raw: bytes | msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def pod_from_wire(wire: PodWire, reads: Reads = EVERYTHING) -> Pod:
    """The record of a decoded Pod, with the fields that `reads` names.

    Raises DecodeError where a value makes no sense, naming the field.
    """
    meta = _named(wire.metadata)
    spec = wire.spec or _NO_POD_SPEC
    status = wire.status or _NO_POD_STATUS
    group = spec.scheduling_group
    annotations = reads.annotations(meta.annotations, decided=bool(spec.node_name)) if meta.annotations else None
    oversized = _too_much(spec)
    if oversized and not spec.node_name:
        spec.containers = spec.init_containers = spec.resources = spec.overhead = None
    elif oversized and reads.resources is not None:
        _reduce(spec, reads.resources)
    return Pod(
        namespace=once(_name(meta.namespace, "metadata.namespace")) or "default",
        name=meta.name or "",
        uid=_name(meta.uid, "metadata.uid"),
        resource_version=_name(meta.resource_version, "metadata.resourceVersion"),
        labels=kept_labels(meta.labels) if meta.labels else (),
        annotations=pairs(annotations),
        created=_name(meta.creation_timestamp, "metadata.creationTimestamp"),
        terminating=bool(meta.deletion_timestamp),
        node_name=once(_name(spec.node_name, "spec.nodeName")),
        nominated_node_name=_first_of(status.nominated_node_name),
        phase=once(_first_of(status.phase)) or "Pending",
        priority=spec.priority or 0,
        may_preempt=spec.preemption_policy != "Never",
        scheduler_name=once(_first_of(spec.scheduler_name)) or "default-scheduler",
        group=_first_of(group.pod_group_name) if group else "",
        gated=bool(spec.scheduling_gates),
        grace_period=_grace_period(meta, spec),
        requests=_shared(_pod_requests(spec)),
        limits=_shared(_pod_limits(spec)),
        oversized=oversized,
    )


def _name(text: str | None, path: str) -> str:
    """A text that serves as a name or a key. Raises DecodeError if it is longer than Kubernetes allows for names."""
    if not text:
        return ""
    if len(text) > LONGEST_NAME:
        raise DecodeError(f"{path} must have at most {LONGEST_NAME} characters, not {len(text)}")
    return text


def _first_of(text: str | None) -> str:
    """A text that is only compared with names, cut one character after the longest name."""
    return (text or "")[: LONGEST_NAME + 1]


def _may_be_too_many(spec: _PodSpec) -> bool:
    """Whether the requests and limits are so many that `too_many` has to check them. Cheap."""
    number = len(spec.overhead or ())
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            if container and (asked := container.resources):
                number += len(asked.requests or ()) + len(asked.limits or ())
    if (asked := spec.resources) is not None:
        number += len(asked.requests or ()) + len(asked.limits or ())
    return number > UNCOUNTED


def _all_requirements(spec: _PodSpec) -> list[_Requirements]:
    """The requirements of each container, and then those of the pod as a whole."""
    found = [
        container.resources
        for containers in (spec.containers, spec.init_containers)
        for container in containers or ()
        if container and container.resources
    ]
    return [*found, spec.resources] if spec.resources else found


def _all_amounts(spec: _PodSpec) -> list[_Amounts]:
    """All requests and limits of the pod, as given."""
    found = [part for each in _all_requirements(spec) for part in (each.requests, each.limits) if part]
    return [*found, spec.overhead] if spec.overhead else found


def _too_much(spec: _PodSpec) -> str:
    if len(spec.containers or ()) + len(spec.init_containers or ()) > MOST_CONTAINERS:
        return f"it has more than {MOST_CONTAINERS} containers"
    return too_many(_all_amounts(spec)) if _may_be_too_many(spec) else ""


def _reduce(spec: _PodSpec, wanted: Iterable[str]) -> None:
    """Remove all other resources from the spec, before they cost time."""
    for each in _all_requirements(spec):
        each.requests, each.limits = _only(each.requests, wanted), _only(each.limits, wanted)
    spec.overhead = _only(spec.overhead, wanted)


def _only(amounts: _Amounts | None, wanted: Iterable[str]) -> _Amounts | None:
    return {name: amounts[name] for name in wanted if name in amounts} if amounts else None


def _grace_period(meta: _Meta, spec: _PodSpec) -> int:
    """The grace period of the deletion, if there is one, else that of the pod; the API server's default is 30 s."""
    for seconds in (meta.deletion_grace_period_seconds, spec.termination_grace_period_seconds):
        if seconds is not None:
            return max(0, seconds)
    return 30


def node_from_wire(wire: NodeWire, reads: Reads = EVERYTHING) -> Node:
    """The record of a decoded Node, with the annotations that `reads` names.

    Raises DecodeError where a value makes no sense, naming the field.
    """
    meta = _named(wire.metadata)
    spec = wire.spec or _NO_NODE_SPEC
    status = wire.status or _NO_NODE_STATUS
    conditions = status.conditions or ()
    allocatable = status.allocatable if status.allocatable is not None else status.capacity
    return Node(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=_pairs(meta.labels),
        annotations=_pairs(reads.annotations_of_node(meta.annotations)) if meta.annotations else (),
        allocatable=_sorted(_amounts(allocatable, "status.allocatable")),
        taints=tuple(Taint(t.key or "", t.effect or "", t.value or "") for t in spec.taints or () if t),
        unschedulable=bool(spec.unschedulable),
        ready=all(c.status == "True" for c in conditions if c and c.type == "Ready"),
    )


_NO_POD_SPEC = _PodSpec()
_NO_POD_STATUS = _PodStatus()
_NO_NODE_SPEC = _NodeSpec()
_NO_NODE_STATUS = _NodeStatus()


def _named(meta: _Meta | None) -> _Meta:
    if meta is None or not meta.name:
        raise DecodeError("metadata.name must not be empty")
    _name(meta.name, "metadata.name")
    return meta


def _pairs(mapping: dict[str, str | None] | None) -> Pairs:
    if not mapping:
        return ()
    if None in mapping.values():
        mapping = {key: value or "" for key, value in mapping.items()}
    return tuple(sorted(mapping.items()))  # type: ignore[arg-type]


def _sorted(amounts: Mapping[str, int]) -> Resources:
    return tuple(sorted(amounts.items()))


def _amounts(given: _Amounts | None, path: str) -> dict[str, int]:
    if not given:
        return {}
    amounts = {}
    for name, text in given.items():
        if len(name) > LONGEST_KEY:
            raise DecodeError(f"{path}: the name of a resource must have at most {LONGEST_KEY} characters")
        try:
            value = parse_quantity("0" if text is None else text, milli=name == CPU)
        except QuantityError as error:
            raise DecodeError(f"{path}[{name}]: {error}") from error
        if value < 0:
            raise DecodeError(f"{path}[{name}]: quantity {text!r} must not be negative")
        amounts[name] = value
    return amounts


def _requests(container: _Container, path: str) -> dict[str, int]:
    """The requests of one container. A limit without a request counts as the request (the API server's default)."""
    wanted = container.resources
    if wanted is None:
        return {}
    asked = _amounts(wanted.limits, f"{path}.resources.limits")
    asked.update(_amounts(wanted.requests, f"{path}.resources.requests"))
    return asked


@lru_cache(maxsize=1024)
def _shared(amounts: Resources) -> Resources:
    """The same amounts, kept once: most pods of a cluster ask for one of a few sizes."""
    return amounts


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _maximum(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount


def _pod_requests(spec: _PodSpec) -> Resources:
    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers or ()):
        if container:
            _add(total, _requests(container, f"spec.containers[{index}]"))
    if spec.init_containers:
        _count_init_containers(total, spec.init_containers)
    if spec.resources is not None:
        for name, amount in _amounts(spec.resources.limits, "spec.resources.limits").items():
            total.setdefault(name, amount)
        total.update(_amounts(spec.resources.requests, "spec.resources.requests"))
    if spec.overhead:
        _add(total, _amounts(spec.overhead, "spec.overhead"))
    return _sorted(total)


def _count_init_containers(total: dict[str, int], containers: Iterable[_Container | None]) -> None:
    """Sidecars (restartPolicy Always) stay and add up; an ordinary init container only needs room while it runs."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(containers):
        if container is None:
            continue
        asked = _requests(container, f"spec.initContainers[{index}]")
        if container.restart_policy == "Always":
            _add(sidecars, asked)
            _maximum(peak, sidecars)
        else:
            _add(asked, sidecars)
            _maximum(peak, asked)
    _add(total, sidecars)
    _maximum(total, peak)


def _pod_limits(spec: _PodSpec) -> Resources:
    total: dict[str, int] = {}
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers or ()):
            if container and container.resources and container.resources.limits:
                path = f"spec.{field}[{index}].resources.limits"
                _add(total, _amounts(container.resources.limits, path))
    return _sorted(total)


# -- lists ---------------------------------------------------------------------------------------------------

_Record = TypeVar("_Record", Pod, Node)


class Decoded(NamedTuple, Generic[_Record]):
    """A decoded list: its records, and a DecodeError for each object that could not be read."""

    records: list[_Record]
    errors: list[DecodeError]


def decode_pods(items: Iterable[msgspec.Raw], reads: Reads = EVERYTHING) -> Decoded[Pod]:
    """Records of the raw items of a PodList. An item that cannot be read does not affect the others."""
    return _decode_each(items, partial(decode_pod, reads=reads))


def decode_nodes(items: Iterable[msgspec.Raw]) -> Decoded[Node]:
    """Records of the raw items of a NodeList. An item that cannot be read does not affect the others."""
    return _decode_each(items, decode_node)


def _decode_each(items: Iterable[msgspec.Raw], decode: Any) -> Decoded[Any]:
    records, errors = [], []
    for item in items:
        try:
            records.append(decode(item))
        except DecodeError as error:
            errors.append(error)
    return Decoded(records, errors)
