"""Reads StatefulSets, their pods, nodes and vpods from the API server, each as the few fields that the engine needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from algorithm.decoding import DecodeError
from algorithm.model import Node
from extender.kube.informers.reflector import Resource
from extender.vpods.records import HostNode, HostPod, ObjectKey, Toleration, VPodRecord, VPodSource, Workload
from extender.vpods.vpodreader import decode_vpod

#: The annotation of a pod that takes no vreplicas, and the texts that say so: those of Knative eventing's scheduler,
#: which reads it with Go's strconv.ParseBool.
UNSCHEDULABLE: Final = "eventing.knative.dev/unschedulable"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
#: The label that the StatefulSet controller gives to each of its pods.
STATEFUL_POD: Final = "statefulset.kubernetes.io/pod-name"
ZONE: Final = "topology.kubernetes.io/zone"

#: Bytes of memory that a record takes, estimated: that of a pod or a StatefulSet; of a vpod, and of one placement.
_RECORD, _VPOD, _PLACEMENT = 700, 1500, 150


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, Any] | None = None


class _Toleration(msgspec.Struct, rename="camel"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    tolerations: list[_Toleration] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodStatus(msgspec.Struct):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Ordinals(msgspec.Struct):
    start: int | None = None


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    pod_management_policy: str | None = None
    ordinals: _Ordinals | None = None


class _Workload(msgspec.Struct):
    metadata: _Metadata
    spec: _WorkloadSpec | None = None


_POD = msgspec.json.Decoder(_Pod)
_WORKLOAD = msgspec.json.Decoder(_Workload)


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What an informer stores: a record of the engine, with the fields under which the API server knows the object."""

    uid: str
    resource_version: str
    key: str
    record: Any
    #: The kind of the object, "" if it does not say.
    kind: str = ""


def read_pod(raw: bytes | msgspec.Raw) -> Seen:
    """Return a HostPod. Raises DecodeError, which names the field."""
    pod = _decoded(_POD, raw)
    meta, status = pod.metadata, pod.status or _PodStatus()
    is_ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or ())
    record = HostPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        version=meta.resource_version,
        node=(pod.spec and pod.spec.node_name) or "",
        ready=is_ready and status.phase == "Running",
        terminating=meta.deletion_timestamp is not None,
        closed=(meta.annotations or {}).get(UNSCHEDULABLE) in _TRUE,
        tolerates=_tolerates(pod.spec.tolerations) if pod.spec and pod.spec.tolerations else (),
    )
    return Seen(meta.uid, meta.resource_version, meta.name, record)


def _tolerates(given: list[_Toleration]) -> tuple[Toleration, ...]:
    """Tolerations of NoExecute without an end. With an end, which Kubernetes gives to every pod, the pod will go."""
    found = {
        Toleration(each.key, None if each.operator == "Exists" else each.value)
        for each in given
        if each.effect in ("", "NoExecute") and each.toleration_seconds is None
    }
    return tuple(sorted(found, key=lambda each: (each.key, each.value or "")))


def read_workload(raw: bytes | msgspec.Raw) -> Seen:
    """Return a Workload. Raises DecodeError, which names the field. No `spec.replicas` means 1, as in Kubernetes."""
    found = _decoded(_WORKLOAD, raw)
    meta, spec = found.metadata, found.spec or _WorkloadSpec()
    record = Workload(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        version=meta.resource_version,
        replicas=1 if spec.replicas is None else spec.replicas,
        first=(spec.ordinals.start or 0) if spec.ordinals else 0,
        in_order=spec.pod_management_policy != "Parallel",
    )
    return Seen(meta.uid, meta.resource_version, meta.name, record)


def _decoded(decoder: Any, raw: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def host_node(node: Node) -> HostNode:
    """Return whether pods on this node can be used, and its zone."""
    zone = next((value for name, value in node.labels if name == ZONE), "")
    taints = tuple(sorted((each.key, each.value) for each in node.taints if each.effect == "NoExecute"))
    return HostNode(node.name, serves=node.takes_pods, zone=zone, taints=taints)


def pods_in(namespace: str) -> Resource[Seen]:
    """The pods of StatefulSets of a namespace."""
    return Resource(
        "pods",
        read_pod,
        lambda seen: seen.key,
        namespace=namespace,
        label_selector=STATEFUL_POD,
        weigh=lambda _: _RECORD,
    )


def workloads_in(namespace: str) -> Resource[Seen]:
    """The StatefulSets of a namespace."""
    return Resource(
        "statefulsets",
        read_workload,
        lambda seen: seen.key,
        group="apps",
        namespace=namespace,
        weigh=lambda _: _RECORD,
    )


def _ignore(_body: bytes) -> None:
    """Nobody looks."""


def vpods_of(sources: Sequence[VPodSource], look: Callable[[bytes], None] = _ignore) -> Resource[Seen]:
    """The objects of one resource, which these sources have in common: each with its vpods, one for each source of
    which it is one."""
    first = sources[0]

    def read(raw: bytes | msgspec.Raw) -> Seen:
        body = bytes(raw)
        named = _decoded(_METADATA, body)
        meta = named.metadata
        look(body)
        vpods = tuple(vpod for source in sources if (vpod := decode_vpod(body, source)) is not None)
        return Seen(meta.uid, meta.resource_version, f"{meta.namespace}/{meta.name}", vpods, named.kind)

    return Resource(
        first.resource, read, lambda seen: seen.key, group=first.group, version=first.version, weigh=_weigh_vpods
    )


class _Named(msgspec.Struct):
    metadata: _Metadata
    kind: str = ""


_METADATA = msgspec.json.Decoder(_Named)


def _weigh_vpods(seen: Seen) -> int:
    vpods: tuple[VPodRecord, ...] = seen.record
    return _RECORD + sum(_VPOD + _PLACEMENT * len(each.placements) for each in vpods)
