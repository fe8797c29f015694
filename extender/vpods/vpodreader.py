"""Reads VPod objects from JSON into records, leniently: what its author got wrong is kept, so that it can be named."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.vpods.names import MOST_PLACEMENTS
from extender.vpods.records import ObjectKey, VPodRecord

#: Stands for a number that is none, and for one beyond 64 bits.
NO_NUMBER = -1
#: Characters of a pod's name that are kept; Kubernetes accepts 253.
MOST_NAME = 256


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815


class _VPod(msgspec.Struct):
    metadata: _Metadata
    spec: Any = None
    status: Any = None


_decoder = msgspec.json.Decoder(_VPod)


def decode_vpod(body: bytes) -> VPodRecord:
    """Raises DecodeError for what is no object with a name."""
    try:
        found = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from error
    metadata = found.metadata
    spec = found.spec if isinstance(found.spec, dict) else {}
    status = found.status if isinstance(found.status, dict) else {}
    return VPodRecord(
        key=ObjectKey(metadata.namespace, metadata.name),
        uid=metadata.uid,
        version=metadata.resourceVersion,
        set=_set_of(spec.get("set"), metadata.namespace),
        wanted=_number(spec.get("vreplicas", 1)),
        spread=max(0, _number(spec.get("spread", 0))),
        placements=_placements(status.get("placements")),
        reason=status["reason"] if isinstance(status.get("reason"), str) else "",
        deleting=metadata.deletionTimestamp is not None,
    )


def _set_of(named: Any, namespace: str) -> ObjectKey:
    """`spec.set` is NAME, in the vpod's namespace, or NAMESPACE/NAME."""
    text = named if isinstance(named, str) else ""
    before, slash, after = text.partition("/")
    return ObjectKey(before, after) if slash else ObjectKey(namespace, text)


def _number(found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int):
        return NO_NUMBER
    return found


def _placements(found: Any) -> tuple[tuple[str, int], ...]:
    entries = found[: MOST_PLACEMENTS + 1] if isinstance(found, list) else []
    return tuple(
        (_name(entry), _number(entry.get("vreplicas", 0)) if isinstance(entry, dict) else 0) for entry in entries
    )


def _name(entry: Any) -> str:
    name = entry.get("podName") if isinstance(entry, dict) else None
    return name[:MOST_NAME] if isinstance(name, str) else ""
