"""Reads vpods from JSON into records, leniently: what its author got wrong is kept, so that it can be named."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.core.field_paths import MISSING
from extender.vpods.names import MOST_PLACEMENTS
from extender.vpods.records import VPOD_OBJECTS, ObjectKey, VPodKey, VPodRecord, VPodSource

#: Stands for a number that is none, and for one beyond 64 bits.
NO_NUMBER = -1
#: Characters of a pod's name that are kept; Kubernetes accepts 253.
MOST_NAME = 256


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 0
    deletionTimestamp: str | None = None  # noqa: N815


class _Named(msgspec.Struct):
    metadata: _Metadata


_metadata = msgspec.json.Decoder(_Named)
_object = msgspec.json.Decoder(dict[str, Any])


def decode_vpod(body: bytes, source: VPodSource = VPOD_OBJECTS) -> VPodRecord | None:
    """Return the vpod of this source; None if the object is not one. Raises DecodeError for no object with a name."""
    try:
        metadata = _metadata.decode(body).metadata
        found = _object.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from error
    if any(_as_text(path.find(found)) != text for path, text in source.where):
        return None
    wanted = source.wanted.find(found)
    record = VPodRecord(
        key=VPodKey(metadata.namespace, metadata.name, source.name),
        uid=metadata.uid,
        version=metadata.resourceVersion,
        set=source.set or ObjectKey("", ""),
        wanted=source.default_wanted if wanted is None or wanted is MISSING else _number(wanted),
        placements=_placements(source.placements.find(found)),
        spread=source.spread,
        source=source,
        generation=metadata.generation,
        deleting=metadata.deletionTimestamp is not None,
    )
    return _with_own_fields(record, found) if source.has_conditions else record


def _with_own_fields(record: VPodRecord, found: dict[str, Any]) -> VPodRecord:
    """The same with what only VPod objects have."""
    condition = _condition(_at(found, ("status", "conditions")))
    return msgspec.structs.replace(
        record,
        set=_set_of(_at(found, ("spec", "set")), record.key.namespace),
        spread=max(0, _number(_at(found, ("spec", "spread")) or 0)),
        max_per_pod=max(0, _number(_at(found, ("spec", "maxPerPod")) or 0)),
        reason=_text(_at(found, ("status", "reason"))),
        condition=_text(condition.get("status")),
        since=_text(condition.get("lastTransitionTime")),
        observed=max(0, _number(_at(found, ("status", "observedGeneration")) or 0)),
    )


def _at(found: Any, path: tuple[str, ...]) -> Any:
    """The value of a field; None if a part of the path is not there."""
    for name in path:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def _as_text(found: Any) -> str | None:
    """A value as `where` has it; None if it is no scalar."""
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int) else None


def _condition(found: Any) -> dict[str, Any]:
    conditions = found[:20] if isinstance(found, list) else []
    return next((each for each in conditions if isinstance(each, dict) and each.get("type") == "Scheduled"), {})


def _text(found: Any) -> str:
    return found[:MOST_NAME] if isinstance(found, str) else ""


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
    return _text(entry.get("podName")) if isinstance(entry, dict) else ""
