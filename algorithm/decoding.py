"""Reads Node and Pod straight from Kubernetes JSON, as far as scheduling reads them.

What this module promises:

* only the fields that scheduling reads are decoded; the decoder skips all others in C;
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
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from algorithm.kubernetes_types import (
    Amounts,
    Container,
    Meta,
    NodeSpec,
    NodeStatus,
    NodeWire,
    PodSpec,
    PodStatus,
    PodWire,
    Requirements,
)
from algorithm.model import CPU, Node, Pairs, Pod, Resources, Taint, pairs
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


class DecodeError(ValueError):
    """A Kubernetes object that cannot be read; the message names the field and what was expected there."""


# -- objects -----------------------------------------------------------------------------------------------------------

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
        controlled=any(each and each.controller for each in meta.owner_references or ()),
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


def _may_be_too_many(spec: PodSpec) -> bool:
    """Whether the requests and limits are so many that `too_many` has to check them. Cheap."""
    number = len(spec.overhead or ())
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            if container and (asked := container.resources):
                number += len(asked.requests or ()) + len(asked.limits or ())
    if (asked := spec.resources) is not None:
        number += len(asked.requests or ()) + len(asked.limits or ())
    return number > UNCOUNTED


def _all_requirements(spec: PodSpec) -> list[Requirements]:
    """The requirements of each container, and then those of the pod as a whole."""
    found = [
        container.resources
        for containers in (spec.containers, spec.init_containers)
        for container in containers or ()
        if container and container.resources
    ]
    return [*found, spec.resources] if spec.resources else found


def _all_amounts(spec: PodSpec) -> list[Amounts]:
    """All requests and limits of the pod, as given."""
    found = [part for each in _all_requirements(spec) for part in (each.requests, each.limits) if part]
    return [*found, spec.overhead] if spec.overhead else found


def _too_much(spec: PodSpec) -> str:
    if len(spec.containers or ()) + len(spec.init_containers or ()) > MOST_CONTAINERS:
        return f"it has more than {MOST_CONTAINERS} containers"
    return too_many(_all_amounts(spec)) if _may_be_too_many(spec) else ""


def _reduce(spec: PodSpec, wanted: Iterable[str]) -> None:
    """Remove all other resources from the spec, before they cost time."""
    for each in _all_requirements(spec):
        each.requests, each.limits = _only(each.requests, wanted), _only(each.limits, wanted)
    spec.overhead = _only(spec.overhead, wanted)


def _only(amounts: Amounts | None, wanted: Iterable[str]) -> Amounts | None:
    return {name: amounts[name] for name in wanted if name in amounts} if amounts else None


def _grace_period(meta: Meta, spec: PodSpec) -> int:
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


_NO_POD_SPEC = PodSpec()
_NO_POD_STATUS = PodStatus()
_NO_NODE_SPEC = NodeSpec()
_NO_NODE_STATUS = NodeStatus()


def _named(meta: Meta | None) -> Meta:
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


def _amounts(given: Amounts | None, path: str) -> dict[str, int]:
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


def _requests(container: Container, path: str) -> dict[str, int]:
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


def _pod_requests(spec: PodSpec) -> Resources:
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


def _count_init_containers(total: dict[str, int], containers: Iterable[Container | None]) -> None:
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


def _pod_limits(spec: PodSpec) -> Resources:
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
