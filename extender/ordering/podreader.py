"""Reads a pod's JSON into a PodRecord: only the fields that start-up ordering reads.

A record keeps the error in a declaration, so that it can be reported on the pod.
"""

from __future__ import annotations

import msgspec

from algorithm.decoding import DecodeError
from algorithm.hived.formats.podspec import SPEC, UserError, parse_spec
from extender.core.ordering_names import AFTER, GROUP_ANNOTATIONS, GROUP_LABELS
from extender.ordering.after import parse_met, try_after
from extender.ordering.depends_on import part_name
from extender.ordering.owners import Owner, controller_of
from extender.ordering.records import GROUP, MET, VOLCANO_TASK, PodKey, PodRecord, Target

#: A gang, and how many of its pods must have a place at once: `algorithm.packing.gangs`.
GANG, GANG_MIN = "waggle.dev/gang", "waggle.dev/gang-min"
_VOLCANO_JOB, _VOLCANO_TASK = "volcano.sh/job-name", "volcano.sh/task-spec"
_MOST_GATES = 100
_MOST_MINIMUM = 1_000_000


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class _Gate(msgspec.Struct, gc=False):
    name: str = ""


class _Group(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None
    scheduling_gates: list[_Gate] | None = None
    scheduling_group: _Group | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class PodWire(msgspec.Struct, gc=False):
    """A pod as JSON has it."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(PodWire)
_NO_SPEC, _NO_STATUS = _Spec(), _Status()


def decode_pod(body: bytes | msgspec.Raw) -> PodRecord:
    """Return the record of a pod. Raises DecodeError, which names the field."""
    try:
        return pod_from_wire(_DECODER.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def pod_from_wire(wire: PodWire) -> PodRecord:
    """Return the record of a decoded pod."""
    meta, spec, status = wire.metadata, wire.spec or _NO_SPEC, wire.status or _NO_STATUS
    annotations, labels = meta.annotations or {}, meta.labels or {}
    after = annotations.get(AFTER)
    found, wrong = try_after(after, meta.namespace) if after is not None else ((), "")
    owner, owner_uid = controller_of(meta.owner_references, meta.namespace)
    group, is_object, minimum = _group(spec, labels, annotations, meta.namespace)
    return PodRecord(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        version=meta.resource_version,
        node=spec.node_name or "",
        phase=status.phase or "Pending",
        ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
        terminating=meta.deletion_timestamp is not None,
        gates=tuple(gate.name for gate in (spec.scheduling_gates or ())[:_MOST_GATES]),
        after=found,
        bad_after=wrong,
        declares=after is not None,
        met=parse_met(annotations.get(MET, "")),
        has_annotations=bool(annotations),
        owner=owner,
        owner_uid=owner_uid,
        controlled=any(each.controller for each in meta.owner_references or ()),
        group=group,
        has_group_object=is_object,
        names_group=any(name in annotations for name in GROUP_ANNOTATIONS),
        minimum=minimum,
        part=_task(labels, annotations, meta.namespace),
    )


def _group(
    spec: _Spec, labels: dict[str, str], annotations: dict[str, str], namespace: str
) -> tuple[Target | None, bool, int]:
    """Return the gang, as the algorithms find it and else as other schedulers write it; whether it is certainly a
    PodGroup; and how many pods it needs, as far as the pod says so."""
    if name := annotations.get(GANG):
        return Target(GROUP, namespace, name), False, _minimum(annotations.get(GANG_MIN))
    if name := spec.scheduling_group.pod_group_name if spec.scheduling_group else None:
        return Target(GROUP, namespace, name), True, _minimum(annotations.get(GANG_MIN))
    if found := _affinity_group(annotations.get(SPEC, ""), namespace):
        return found[0], False, found[1]
    names = [labels.get(each) for each in GROUP_LABELS] + [annotations.get(each) for each in GROUP_ANNOTATIONS]
    name = next(filter(None, names), None)
    return (Target(GROUP, namespace, name), True, 1) if name else (None, False, 1)


def _affinity_group(text: str, namespace: str) -> tuple[Target, int] | None:
    """Return the affinity group of HiveD, and its size; None for a pod that is in none, or says so wrongly."""
    if "affinityGroup" not in text:
        return None
    try:
        spec = parse_spec(text, namespace=namespace, name="")
    except UserError:
        return None
    return Target(GROUP, namespace, spec.group), sum(number for _, number in spec.pods)


def _minimum(text: str | None) -> int:
    """How many pods the gang needs; 1 if the annotation is missing or wrong, which its algorithm reports."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 7):
        return 1
    return min(max(1, int(text)), _MOST_MINIMUM)


def _task(labels: dict[str, str], annotations: dict[str, str], namespace: str) -> Target | None:
    job = labels.get(_VOLCANO_JOB) or annotations.get(_VOLCANO_JOB)
    task = labels.get(_VOLCANO_TASK) or annotations.get(_VOLCANO_TASK)
    return Target(VOLCANO_TASK, namespace, part_name(job, task)) if job and task else None
