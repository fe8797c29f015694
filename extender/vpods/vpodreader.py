"""Reads vpods from JSON into records, leniently: a record keeps the errors of its author, so that they can be reported.

Only the fields that the source names are decoded. Entries of placements are shared between records: many vpods have the
same number of vreplicas on the same pod, and a fleet has a million entries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.core.field_paths import FieldPath
from extender.vpods.fields import FieldDecoder
from extender.vpods.names import MOST, MOST_PLACEMENTS, NO_NUMBER, expected_number
from extender.vpods.records import VPOD_OBJECTS, ObjectKey, VPodKey, VPodRecord, VPodSource

#: Characters of a text that are kept. Kubernetes accepts 253 for a pod's name.
MOST_NAME = 256
#: Conditions that are looked at.
_MOST_CONDITIONS = 20
#: Entries of placements that are shared.
_SHARED = 65_536

#: What only VPod objects have.
_OWN = tuple(
    FieldPath(steps)
    for steps in (
        ("spec", "set"),
        ("spec", "spread"),
        ("spec", "maxPerPod"),
        ("status", "reason"),
        ("status", "conditions"),
        ("status", "observedGeneration"),
    )
)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class _Named(msgspec.Struct):
    metadata: _Metadata


class _Placement(msgspec.Struct, rename="camel", gc=False):
    pod_name: str = ""
    vreplicas: int = 0


_NAMED = msgspec.json.Decoder(_Named)
_PLACEMENTS = msgspec.json.Decoder(list[_Placement])


def decode_vpod(body: bytes, source: VPodSource = VPOD_OBJECTS) -> VPodRecord | None:
    """Return the vpod of this source; None if the object is not one. Raises DecodeError for no object with a name."""
    try:
        return _reader(source).read(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


@lru_cache(maxsize=256)
def _reader(source: VPodSource) -> _Reader:
    return _Reader(source)


class _Reader:
    """Reads the vpods of one source."""

    def __init__(self, source: VPodSource) -> None:
        self._source = source
        own = _OWN if source.has_conditions else ()
        where = tuple(path for path, _ in source.where)
        self._fields = FieldDecoder((source.wanted, source.placements, *own, *where))
        self._expected = tuple(text for _, text in source.where)
        self._own = len(own)

    def read(self, body: bytes) -> VPodRecord | None:
        metadata = _NAMED.decode(body).metadata
        wanted, placements, *others = self._fields.decode(body)
        own, where = others[: self._own], others[self._own :]
        if where and tuple(map(_scalar, where)) != self._expected:
            return None
        source = self._source
        number = _number(wanted, source.default_wanted)
        entries = _placements(placements)
        record = VPodRecord(
            key=VPodKey(metadata.namespace, metadata.name, source.name),
            uid=metadata.uid,
            version=metadata.resource_version,
            set=source.set or ObjectKey("", ""),
            wanted=number,
            bad_wanted="" if 0 <= number <= MOST else f"{source.wanted.name}: {expected_number(number)}",
            placements=entries or (),
            spread=source.spread,
            source=source,
            generation=metadata.generation,
            deleting=metadata.deletion_timestamp is not None,
            problems=(f"{source.placements.name}: expected a list",) if entries is None else (),
        )
        return _with_own_fields(record, own) if own else record


def _with_own_fields(record: VPodRecord, own: list[msgspec.Raw | None]) -> VPodRecord:
    """The same with what only VPod objects have."""
    named, spread, max_per_pod, reason, conditions, observed = own
    condition = _condition(_value(conditions))
    numbers = {"spec.spread": spread, "spec.maxPerPod": max_per_pod}
    read = {field: _number(raw, 0) for field, raw in numbers.items()}
    problems = (f"{field}: {expected_number(number)}" for field, number in read.items() if not 0 <= number <= MOST)
    return msgspec.structs.replace(
        record,
        set=_set_of(_value(named), record.key.namespace),
        spread=max(0, read["spec.spread"]),
        max_per_pod=max(0, read["spec.maxPerPod"]),
        reason=_text(_value(reason)),
        condition=_text(condition.get("status")),
        since=_text(condition.get("lastTransitionTime")),
        observed=max(0, _number(observed, 0)),
        problems=(*record.problems, *problems),
    )


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _number(raw: msgspec.Raw | None, default: int) -> int:
    found = _value(raw)
    return default if found is None else _as_number(found)


def _as_number(found: Any) -> int:
    is_number = isinstance(found, int) and not isinstance(found, bool) and abs(found) < -NO_NUMBER
    return found if is_number else NO_NUMBER


def _scalar(raw: msgspec.Raw | None) -> str | None:
    """A value as `where` has it; None if it is no scalar."""
    found = _value(raw)
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int) else None


def _condition(found: Any) -> dict[str, Any]:
    conditions = found[:_MOST_CONDITIONS] if isinstance(found, list) else []
    return next((each for each in conditions if isinstance(each, dict) and each.get("type") == "Scheduled"), {})


def _text(found: Any) -> str:
    return found[:MOST_NAME] if isinstance(found, str) else ""


def _set_of(named: Any, namespace: str) -> ObjectKey:
    """`spec.set` is NAME, in the vpod's namespace, or NAMESPACE/NAME."""
    text = named if isinstance(named, str) else ""
    before, slash, after = text.partition("/")
    return ObjectKey(before, after) if slash else ObjectKey(namespace, text)


# -- placements


def _placements(raw: msgspec.Raw | None) -> tuple[tuple[str, int], ...] | None:
    """The entries, one more at most than are used, so that their reader says that there are too many. None: no list."""
    if raw is None:
        return ()
    try:
        entries = _PLACEMENTS.decode(raw)
    except msgspec.ValidationError:
        return _odd_placements(msgspec.json.decode(raw))
    return tuple([_shared(each.pod_name, each.vreplicas) for each in entries[: MOST_PLACEMENTS + 1]])


def _odd_placements(found: Any) -> tuple[tuple[str, int], ...] | None:
    if found is None:
        return ()
    if not isinstance(found, list):
        return None
    return tuple(_odd_placement(each if isinstance(each, dict) else {}) for each in found[: MOST_PLACEMENTS + 1])


def _odd_placement(entry: dict[str, Any]) -> tuple[str, int]:
    return _shared(_text(entry.get("podName")), _as_number(entry.get("vreplicas", 0)))


@lru_cache(maxsize=_SHARED)
def _shared(name: str, number: int) -> tuple[str, int]:
    return name[:MOST_NAME], number
