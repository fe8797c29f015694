"""Reduces a large pod to the fields that are read, so that its author cannot make it unreadable.

The cost of decoding an object grows with the number of its parts, and beyond a bound (`bounds.oversized`) no object is
decoded. If a running pod could not be read, its room would be given away twice; and its author can write hundreds of
thousands of labels, arguments, or commas within one text. So the fields that are read are cut out first, without
decoding the rest, and only these fields are checked against the bound. Such a pod has no labels here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.kube.client import bounds

_Any = msgspec.Raw | msgspec.UnsetType
_UNSET = msgspec.UNSET


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: _Any = _UNSET
    namespace: _Any = _UNSET
    uid: _Any = _UNSET
    resource_version: _Any = _UNSET
    annotations: _Any = _UNSET
    creation_timestamp: _Any = _UNSET
    deletion_timestamp: _Any = _UNSET
    deletion_grace_period_seconds: _Any = _UNSET


class _Container(msgspec.Struct, gc=False, rename="camel"):
    resources: _Any = _UNSET
    restart_policy: _Any = _UNSET


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: _Any = _UNSET
    scheduler_name: _Any = _UNSET
    priority: _Any = _UNSET
    preemption_policy: _Any = _UNSET
    scheduling_group: _Any = _UNSET
    scheduling_gates: _Any = _UNSET
    termination_grace_period_seconds: _Any = _UNSET
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    resources: _Any = _UNSET
    overhead: _Any = _UNSET


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: _Any = _UNSET
    nominated_node_name: _Any = _UNSET


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_pods = msgspec.json.Decoder(_Pod)
_encoder = msgspec.json.Encoder()


def slim_pod(raw: bytes | msgspec.Raw) -> msgspec.Raw:
    """Return the pod with only the fields that are read.

    Raises DecodeError if the fields cannot be found or have too many parts.
    """
    try:
        pod = _pods.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    # Annotations are not checked: at most 256 KiB, mostly text in which a comma separates nothing.
    if why := bounds.too_many_parts(_encode(pod.spec)):
        raise DecodeError(why)
    return msgspec.Raw(_encode(pod))


def _encode(part: Any) -> bytes:
    return _encoder.encode(part)
