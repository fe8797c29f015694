"""Reads objects that make pods, and PodGroups, into WorkloadRecords: only the fields that start-up ordering reads."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.core.ordering_names import AFTER
from extender.ordering.after import AfterError, try_after
from extender.ordering.depends_on import MOST_PARTS, depends_on, part_name
from extender.ordering.owners import KIND_BY_API, Owner, controller_of
from extender.ordering.records import (
    GROUP,
    JOB,
    JOB_SET,
    REPLICATED_JOB,
    VOLCANO_JOB,
    VOLCANO_TASK,
    Part,
    Target,
    WorkloadRecord,
)

_JOB_SET_NAME, _REPLICATED_JOB = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
#: The API groups of PodGroups.
_GROUP_APIS = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
_MOST_PODS = 1_000_000
_MOST_REASON = 200


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class _Object(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    api_version: str = ""
    kind: str = ""
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_DECODER = msgspec.json.Decoder(_Object)


def decode_workload(body: bytes | msgspec.Raw, api_version: str = "", kind: str = "") -> WorkloadRecord | None:
    """Return the record; None for an object of another kind.

    `api_version` and `kind`: for items of a list, which do not name them. Raises DecodeError, which names the field.
    """
    try:
        found = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    found.api_version, found.kind = found.api_version or api_version, found.kind or kind
    target = target_of(found.api_version, found.kind, found.metadata.namespace, found.metadata.name)
    return None if target is None else _record(target, found)


def target_of(api_version: str, kind: str, namespace: str, name: str) -> Target | None:
    """Return the target that an object is; None for an object of another kind."""
    group = api_version.partition("/")[0]
    if kind == "PodGroup" and group in _GROUP_APIS:
        return Target(GROUP, namespace, name)
    found = KIND_BY_API.get((group, kind))
    return Target(found, namespace, name) if found else None


def _record(target: Target, found: _Object) -> WorkloadRecord:
    meta, spec, status = found.metadata, found.spec or {}, found.status or {}
    after = (meta.annotations or {}).get(AFTER)
    declared, wrong = try_after(after, target.namespace) if after is not None else ((), "")
    parts, wrong_parts = _parts(target, found)
    owner, owner_uid = controller_of(meta.owner_references, target.namespace)
    return WorkloadRecord(
        target=target,
        uid=meta.uid,
        version=meta.resource_version,
        pods=sum(part.pods for part in parts) if parts else _pods(target.kind, spec),
        ready=_ready(target.kind, spec, status),
        complete=_is_true(status, "Complete", "Completed") or _phase(target.kind, status) == "Completed",
        failed=_failed(target.kind, status),
        after=declared,
        bad_after=wrong or wrong_parts,
        owner=owner,
        owner_uid=owner_uid,
        part=_replicated_job(target, meta.labels or {}),
        parts=parts,
    )


def _number(value: Any, default: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return default
    return min(max(0, value), _MOST_PODS)


def _section(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _pods(kind: str, spec: dict[str, Any]) -> int:
    """How many pods are to run at once."""
    if kind == JOB:
        return _of_job(spec)
    if kind == GROUP:
        # scheduling.k8s.io: spec.schedulingPolicy.gang.minCount; scheduling.x-k8s.io and Volcano: spec.minMember
        gang = _section(_section(spec, "schedulingPolicy"), "gang")
        return max(1, _number(gang.get("minCount"), 0), _number(spec.get("minMember"), 0))
    return _number(spec.get("replicas"), 1)


def _of_job(spec: dict[str, Any]) -> int:
    parallelism = _number(spec.get("parallelism"), 1)
    return min(parallelism, _number(spec.get("completions"), parallelism))


def _ready(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> int:
    if kind == JOB:
        return min(_number(status.get("ready"), 0) + _number(status.get("succeeded"), 0), _of_job(spec))
    return 0


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = status.get("conditions")
    return [each for each in found[:50] if isinstance(each, dict)] if isinstance(found, list) else []


def _is_true(status: dict[str, Any], *types: str) -> bool:
    return any(each.get("type") in types and each.get("status") == "True" for each in _conditions(status))


def _phase(kind: str, status: dict[str, Any]) -> str:
    """The phase of a Volcano Job; "" for other kinds."""
    return str(_section(status, "state").get("phase", "")) if kind == VOLCANO_JOB else ""


def _failed(kind: str, status: dict[str, Any]) -> str:
    if kind == VOLCANO_JOB:
        phase = _phase(kind, status)
        return phase if phase in ("Failed", "Aborted", "Terminated") else ""
    if kind not in (JOB, JOB_SET):
        return ""
    for each in _conditions(status):
        if each.get("type") == "Failed" and each.get("status") == "True":
            return str(each.get("reason") or "Failed")[:_MOST_REASON]
    return ""


def _replicated_job(target: Target, labels: dict[str, str]) -> Target | None:
    owner, part = labels.get(_JOB_SET_NAME), labels.get(_REPLICATED_JOB)
    if target.kind != JOB or not owner or not part:
        return None
    return Target(REPLICATED_JOB, target.namespace, part_name(owner, part))


def _parts(target: Target, found: _Object) -> tuple[tuple[Part, ...], str]:
    """Return the parts of a JobSet or of a Volcano Job, and the error in their dependencies."""
    if target.kind not in (JOB_SET, VOLCANO_JOB):
        return (), ""
    try:
        after = depends_on(
            {
                "apiVersion": found.api_version,
                "kind": found.kind,
                "metadata": {"namespace": target.namespace, "name": target.name},
                "spec": found.spec or {},
            }
        )
        wrong = ""
    except AfterError as error:
        after, wrong = {}, str(error)
    is_set = target.kind == JOB_SET
    items = (found.spec or {}).get("replicatedJobs" if is_set else "tasks")
    parts = [
        _part(target, item, after, is_set=is_set)
        for item in (items[:MOST_PARTS] if isinstance(items, list) else [])
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    ]
    return tuple(parts), wrong


def _part(target: Target, item: dict[str, Any], after: dict[Target, Any], *, is_set: bool) -> Part:
    kind = REPLICATED_JOB if is_set else VOLCANO_TASK
    name = Target(kind, target.namespace, part_name(target.name, item["name"]))
    replicas = _number(item.get("replicas"), 1)
    if not is_set:
        return Part(name, replicas, 0, after.get(name, ()))
    each = _of_job(_section(_section(item, "template"), "spec"))
    return Part(name, replicas * each, replicas, after.get(name, ()))
